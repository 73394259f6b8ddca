"""Online optimisation: each method's main names, loaded when used."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["optimistic_ftrl"],
    submod_attrs={
        "optimistic_ftrl": ["OptFPRL", "OptFPRLClassifier", "OptFPRLRegressor", "run_oco"]
    },
)
