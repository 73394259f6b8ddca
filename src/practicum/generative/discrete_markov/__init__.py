"""Discrete Markov probabilistic models: diffusion on bits.

A generative model of binary rows: yes/no answers, presence or absence, fingerprints, genotypes,
binary images. Noise flips each bit at random times until nothing is left of the data; the model
learns, for every bit of a noisy row, how likely it was flipped, and that is all it takes to run the
noise backwards. A bit set wrongly early on can flip back later, which models that reveal bits one
by one cannot do.

Use it to draw rows that keep the *dependence* between bits, to fill in missing bits several times
over (:meth:`DMPM.impute`), and for a lower bound on a row's log-likelihood. Look first at what is
cheap: :class:`ChowLiuTree` and :class:`BernoulliMixture` are fitted in seconds and exact where they
fit; :class:`MaskedDiffusion`, the nearest neighbour, was ahead on the codewords of the study and,
at few calls of the network, on its digits.

>>> import numpy as np
>>> from sklearn.datasets import load_digits
>>> from practicum.generative.discrete_markov import DMPM
>>> digits = load_digits().data > 7  # 1,797 images of 64 bits
>>> model = DMPM(hidden=64, layers=2, steps=200, random_state=0).fit(digits)
>>> model.sample(5, steps=8, random_state=0).shape
(5, 64)
>>> half = np.where(np.arange(64) < 32, digits[:1], np.nan)  # the lower half is missing
>>> model.impute(half, n_draws=3, random_state=0).shape
(3, 1, 64)

:mod:`~practicum.generative.discrete_markov.exact` holds the oracle: laws of up to 16 bits
enumerated, with the exact score and the exact law in which every sampler ends.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["exact"],
    submod_attrs={
        "baselines": [
            "RBM",
            "BernoulliMixture",
            "ChowLiuTree",
            "IndependentBits",
            "MaskedDiffusion",
        ],
        "bits": ["BitTable", "cut_table"],
        "dmpm": ["DMPM"],
        "metrics": ["correlation_error", "frechet", "sliced_wasserstein"],
        "process": [
            "clock",
            "discrete_score",
            "flip_chance",
            "noise",
            "reverse_rates",
            "time_grid",
        ],
    },
)
