"""Abstract reasoning: does a language model know the rule, or the symbols?

A few-shot test of rule induction for any text model. Every item shows worked examples of one hidden
rule and asks one more question. The same items are then shown with operators, operands or both
replaced by random characters under a one-to-one map. *Gamma* is accuracy, *Delta* how much of it is
lost when the symbols are replaced: how much the score rested on knowing the symbols.

Use it after a public benchmark score, when you suspect that the answers were in the training data,
or to learn whether a model will work on house notation, private codes or other number bases. It
needs text in and text out: an OpenAI-compatible endpoint, a GGUF file, a Hugging Face folder, or a
Python function. A model that cannot do the task at all has a Delta near 0, too: that is said, never
counted as abstraction.

>>> from practicum.language.abstract_reasoning import evaluate, make_items, remap, solve
>>> import numpy as np
>>> item = make_items("ec/fixed_bit", n=1, shots=20)[0]
>>> mapped, symbols = remap(item, "full", np.random.default_rng(0))
>>> solve(item) == item.answer, solve(mapped) == mapped.answer  # a solver that knows no symbols
(True, True)
>>> report = evaluate(solve, "ec/fixed_bit,ec/var_set", items=10, shots=20, maps=1)
>>> report.deltas["full"].delta
0.0

With a model: ``evaluate(open_chat("local"), "ec", items=24, shots=8)`` (see
:mod:`practicum.models.chat`), or on the command line ``practicum use abstract-reasoning run``.

:mod:`~practicum.language.abstract_reasoning.small_rules` holds two small transformers of which it
is known what they remember: Delta must tell them apart.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["small_rules"],
    submod_attrs={
        "evaluation": [
            "AbstractReport",
            "alphabet_note",
            "compare_reports",
            "conversation",
            "evaluate",
        ],
        "extraction": ["extract", "is_correct"],
        "items": ["TASKS", "Item", "make_items", "read_items", "task_names"],
        "metrics": [
            "Delta",
            "aggregates",
            "detectable",
            "items_needed",
            "mcnemar",
            "paired_delta",
            "published",
            "standard_error",
        ],
        "remap": ["collides", "remap"],
        "solvers": ["frequent_answer", "identifiable", "nearest_example", "solve"],
    },
)
