"""The engine: what a study is, how it runs, what counts as evidence, where results live.

* :mod:`.spec` - ``Study``, ``Arm``, ``Measure``, ``Scale``, ``Trial``
* :mod:`.results` - ``Results``: finished trials as a tidy table
* :mod:`.evidence` - intervals, thresholds, verdicts
* :mod:`.runner` - ``run_study``: joblib, resume, failures
* :mod:`.store` - ``Store``: SQLite or PostgreSQL
* :mod:`.plots` - the house style of figures
* :mod:`.report` - the HTML report, ``RESULTS.md``, tidy exports
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["evidence", "plots", "report"],
    submod_attrs={
        "spec": ["Arm", "Measure", "Metrics", "Outcome", "Scale", "Study", "Trial"],
        "results": ["Results"],
        "evidence": [
            "Interval",
            "Verdict",
            "all_of",
            "at_least",
            "at_most",
            "between",
            "binomial_interval",
            "bootstrap_interval",
            "equivalent_within",
            "greater_than",
            "less_than",
            "needs_more",
            "never",
            "rate",
        ],
        "runner": ["Run", "run_study"],
        "store": ["Store"],
    },
)
