"""Reinforcement learning and control: each method's main names, loaded when used."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["ssar"],
    submod_attrs={"ssar": ["SSAR", "Baseline", "compare_arms", "pendulum_mix", "pointmaze_mix"]},
)
