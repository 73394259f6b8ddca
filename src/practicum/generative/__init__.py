"""Generative models: each method's main names, loaded when used."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["discrete_markov", "model_collapse"],
    submod_attrs={
        "discrete_markov": ["DMPM"],
        "model_collapse": [
            "gaussian_curve",
            "gaussian_generations",
            "run_generations",
            "value_of_synthetic",
        ],
    },
)
