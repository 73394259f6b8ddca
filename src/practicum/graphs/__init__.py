"""Graphs: each method's main names, loaded when used."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["llm_bp"],
    submod_attrs={
        "llm_bp": [
            "LLMBP",
            "belief_propagation",
            "compare_tag",
            "coupling_of",
            "estimate_homophily",
            "homophily_from_labels",
        ]
    },
)
