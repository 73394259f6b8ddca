"""Statistics: each method's main names, loaded when used."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["procrustes_wasserstein"],
    submod_attrs={"procrustes_wasserstein": ["PWBarycenter", "PWResult", "pw_pairwise"]},
)
