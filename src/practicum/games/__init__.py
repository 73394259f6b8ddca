"""Games: each method's main names, loaded when used."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["auction_bne"],
    submod_attrs={"auction_bne": ["AuctionBNE", "estimate_values", "symmetric_equilibrium"]},
)
