"""Federated learning: each method's main names, loaded when used."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["dkw_certificate", "fedgwc"],
    submod_attrs={
        "dkw_certificate": [
            "Certificate",
            "CertifyStrategy",
            "affordable_shift",
            "certify",
            "dkw_band",
        ],
        "fedgwc": [
            "FedGWC",
            "LossClusterer",
            "gaussian_rewards",
            "wasserstein_adjusted_davies_bouldin",
            "wasserstein_adjusted_silhouette",
        ],
    },
)
