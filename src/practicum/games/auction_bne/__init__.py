"""Bid functions in Bayesian Nash equilibrium, with a certificate of what is left to gain.

You sell (or buy) one item by sealed bids. Every bidder knows what the item is worth to her and
only the distribution of what it is worth to the others. How will they bid, what will you earn, and
how much could anybody still gain by bidding otherwise?

* One prior for all bidders: there is a formula, exact and instantaneous, and it is used first.
* Two asymmetric first-price bidders: shooting solves the differential equations.
* Anything else (asymmetric groups, your own value data, risk aversion, a reserve): bid functions
  are small networks trained by the *approximate best response gradient*: not uphill in utility,
  whose curvature for low values vanishes like v^(n-2) with n bidders, but towards Newton's estimate
  of the best response, so that the number of bidders drops out of the rate.

When to use it: pricing a reserve, choosing a format, reading values off recorded bids, studying
learning in games.  When not: common values, several items, discrete bids.

>>> import numpy as np
>>> from practicum.games.auction_bne import AuctionBNE
>>> auction = AuctionBNE("first_price", "uniform:0,100", n_bidders=5).fit()
>>> auction.note_
'The closed form applies and was used: it is exact, learning adds nothing.'
>>> auction.bid(np.array([40.0, 90.0])).round(6).tolist()
[32.0, 72.0]

Whatever the method, the result comes with what a deviation could still gain, in currency units:

>>> learned = AuctionBNE("first_price", "uniform:0,100", 5, method="abr", steps=500).fit()
>>> bool(learned.exploitability()["certified"].iloc[0] < 2.0)
True

Values from data, another group of bidders, risk aversion:

>>> draws = np.random.default_rng(0).gamma(9, 5, 300)
>>> averse = AuctionBNE("first_price", draws, 4, risk_aversion=0.5).fit()
>>> neutral = AuctionBNE("first_price", draws, 4).fit()
>>> bool(averse.bid(np.median(draws)) > neutral.bid(np.median(draws)))
True

From recorded bids back to values (Guerre, Perrigne and Vuong 2000):

>>> from practicum.games.auction_bne import estimate_values
>>> values = estimate_values(np.random.default_rng(0).uniform(0, 80, 500), n_bidders=5)

Where things live: ``auction`` (the estimator), ``priors``, ``game`` (auction and bid tables),
``closed_forms``, ``solvers`` (shooting, fictitious play), ``learning``, ``market``, ``networks``,
``sampling`` (the published estimators), ``certificate``, ``structural``, ``figures``, ``files``.

Source: Huang, Chen, Wang, Gao, Gao, Ding and Wang, *Learning Bayesian Nash Equilibrium in Auction
Games via Approximate Best Response*, ICML 2025.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach(
    __name__,
    submod_attrs={
        "auction": ["METHODS", "AuctionBNE", "closed_form"],
        "certificate": ["best_response_distance", "exploitability", "revenue"],
        "closed_forms": [
            "optimal_reserve",
            "symmetric_equilibrium",
            "uniform_pair_equilibrium",
            "utility_condition_number",
        ],
        "files": ["mariokart_prices", "read_samples"],
        "game": ["MECHANISMS", "BidFunction", "Game", "make_game"],
        "learning": ["PUBLISHED", "Learned", "Settings", "learn"],
        "priors": [
            "Beta",
            "Empirical",
            "LogNormal",
            "Prior",
            "ScipyPrior",
            "TruncNormal",
            "Uniform",
            "as_prior",
        ],
        "sampling": ["kernel_sums", "softmax_slopes"],
        "solvers": ["fictitious_play", "shoot"],
        "structural": ["estimate_values"],
        "utilities": ["utility_slopes"],
    },
)
