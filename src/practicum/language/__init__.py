"""Language models: each method's main names, loaded when used."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["abstract_reasoning"],
    submod_attrs={"abstract_reasoning": ["evaluate", "identifiable", "make_items", "remap"]},
)
