"""Decide again and again under changing costs, with forecasts you half trust.

Each round you commit to a point of a bounded set (how to split a budget, charge a battery, weigh
experts), then see what it cost.  The standard tools either forget too slowly - FTRL, dual averaging
and their relatives in River and Vowpal Wabbit keep the sum of all past gradients, so after a long
stable period they react very late to a change - or make no use of a forecast (online gradient
descent).

``OptFPRL`` is FTRL whose history is *pruned*: whenever the unconstrained minimiser leaves the set,
the part of the past that only pushed it further out is cancelled.  The state stays small, and the
regret against *any moving comparator* is controlled by the errors of your predictions: zero under
perfect forecasts, never worse than square-root bounds under bad ones.  There is nothing to tune.

When to use it: load shifting, allocation, caching, online regression with drift, with a forecast of
uncertain quality (or none).  When not: unbounded decisions; a best decision that barely moves
(online gradient descent is then ahead: agility costs); forecasts known to be good (acting on them
greedily beats every hedged method).

The cost of a unit flips its sign after 900 of 1,000 rounds; the lazy rule never recovers:

>>> import numpy as np
>>> from practicum.optimize.optimistic_ftrl import FTRL, Ball, OptFPRL, run_oco
>>> costs = np.where(np.arange(1000) < 900, -1.0, 1.0)[:, None]
>>> pruned, lazy = (run_oco(L(Ball(1.0, 1)), costs) for L in (OptFPRL, FTRL))
>>> bool(pruned.average_regret < 0.02), bool(lazy.average_regret > 0.15)
(True, True)

and its account says why (the path term is the price of a state full of the past):

>>> terms = lazy.terms()
>>> max(terms, key=terms.get)
'path'

Round by round, as an optimiser, with a hint about the coming gradient:

>>> learner = OptFPRL(Ball(1.0, 2))
>>> learner.predict(hint=np.array([1.0, 0.0])).tolist()
[-1.0, 0.0]
>>> learner.update(np.array([1.0, 0.0]))        # the forecast was perfect: no regret

Where things live: ``domains`` (ball, box, simplex, capped simplex, l1 ball, products, cuts by
halfspaces, your own projection), ``learners`` (the method, and FTRL, OGD, optimistic OGD, Hedge,
Ader, ...), ``hints`` (last, moving average, seasonal, recorded, a function, a scikit-learn
regressor), ``losses`` (linear, squared, absolute, quantile, logistic, log-wealth, your own),
``comparators`` (best per round, fixed, slowly moving), ``oco`` (``run_oco`` with the regret's terms
and bounds; ``run_parallel`` for thousands of runs), ``estimators`` (scikit-learn, River) and
``torch_steps`` (``torch.optim``).

Source: Mhaisen and Iosifidis, *On the Dynamic Regret of Following the Regularized Leader: Optimism
with History Pruning*, ICML 2025, arXiv 2505.22899.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach(
    __name__,
    submod_attrs={
        "arms": ["compare_learners", "make_arm"],
        "comparators": ["Comparator", "best_fixed", "best_slow", "per_round"],
        "domains": [
            "Ball",
            "Box",
            "CappedSimplex",
            "Custom",
            "Domain",
            "Halfspaces",
            "L1Ball",
            "Product",
            "Simplex",
            "parse_domain",
        ],
        "estimators": ["OptFPRLClassifier", "OptFPRLRegressor", "RiverRegressor"],
        "hints": [
            "LastGradient",
            "MovingAverage",
            "Past",
            "Predictor",
            "Recorded",
            "Regression",
            "Seasonal",
            "as_predictor",
        ],
        "learners": [
            "FTRL",
            "OGD",
            "Ader",
            "Fixed",
            "Greedy",
            "Hedge",
            "OnlineLearner",
            "OptFPRL",
            "OptimisticOGD",
            "path_kappa",
        ],
        "losses": [
            "CustomLosses",
            "LinearCosts",
            "LogWealth",
            "Losses",
            "RegressionLosses",
        ],
        "oco": ["OCOResult", "ParallelResult", "run_oco", "run_parallel"],
        "torch_steps": ["torch_optimizer"],
    },
)
