"""Agents: each method's main names, loaded when used."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["agent_resilience"],
    submod_attrs={
        "agent_resilience": [
            "AutoInject",
            "AutoTransform",
            "Topology",
            "criticality",
            "run_resilience",
            "wrap",
        ]
    },
)
