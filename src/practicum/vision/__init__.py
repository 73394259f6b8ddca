"""Vision: each method's main names, loaded when used."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["visual_memory"],
    submod_attrs={"visual_memory": ["VisualMemory", "VisualMemoryClassifier"]},
)
