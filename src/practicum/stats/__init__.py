"""Statistics: each method's main names, loaded when used."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["cmi_test", "procrustes_wasserstein"],
    submod_attrs={
        "cmi_test": [
            "CMIResult",
            "ConditionalMeanTest",
            "conditional_mean_importance",
            "conditional_mean_test",
        ],
        "procrustes_wasserstein": ["PWBarycenter", "PWResult", "pw_pairwise"],
    },
)
