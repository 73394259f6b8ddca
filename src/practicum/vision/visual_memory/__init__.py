"""Visual memory: classify images by looking them up, and be able to forget.

A frozen encoder turns every labelled image into a vector; a query is decided by a rank-weighted
vote of its nearest rows. A class is taught by adding rows and forgotten by removing them, a mistake
is mended where it was made, and every decision comes with the rows that caused it.

Use it when labels change weekly, when someone may ask for their pictures to be deleted, or when
"why did it say that" must be answered with pictures. Where neither matters and labels stay, a
linear probe on the same vectors is smaller and often a little better.

>>> import numpy as np
>>> from sklearn.datasets import load_digits
>>> from practicum.vision.visual_memory import VisualMemory
>>> digits = load_digits()
>>> memory = VisualMemory(k=20)  # VisualMemory("digits.vm") keeps it on disk
>>> ids = memory.add(digits.data[:1200], labels=digits.target[:1200])
>>> bool((memory.predict(digits.data[1200:]) == digits.target[1200:]).mean() > 0.93)
True
>>> why = memory.explain(digits.data[1200])
>>> why.table.columns.tolist()
['rank', 'id', 'label', 'distance', 'weight', 'share']

Removing is physical: bytes are overwritten in every file, also in indexes and snapshots, and a
receipt says how that was verified. Afterwards all predictions are, to the last bit, those of a
memory that never held the rows.

>>> receipt = memory.remove(ids[:10])
>>> receipt.n, receipt.verified
(10, True)

Images come in through :func:`practicum.models.vision.get` (a packaged EfficientNet-Lite0 by
default): ``VisualMemory("photos.vm", encoder=get()).add(images=paths, labels=labels)``. The command
line does the same: ``practicum use visual-memory add photos/ --store photos.vm``.

Where things live: ``memory`` (what you hold), ``intake`` (images, vectors, labels and ids as people
give them), ``table`` (the rows, by slot) over ``store`` and ``segments`` (the files),
``neighbours`` over ``search`` (exact) and ``derived`` (FAISS, hnswlib, usearch), ``votes``,
``explain``, ``pruning`` over ``hygiene`` (which rows mislead), ``erasing``, ``receipt`` and
``residue`` (the proof that rows are gone), ``audit``, ``formats`` (other programs' files),
``classifier`` (scikit-learn), ``rerank`` (a language model), ``vector_stores`` (what others leave
behind).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "classifier": ["VisualMemoryClassifier"],
        "explain": ["Explanation", "FlipSet", "flip_set"],
        "formats": ["export", "read_vectors"],
        "hygiene": ["count_votes", "log_fit", "rank_accuracy", "scaling_fit", "soft_weights"],
        "memory": ["VisualMemory"],
        "receipt": ["Receipt"],
        "rerank": ["Reranked", "rerank", "rerank_messages"],
        "residue": ["ErasureReport", "find_bytes"],
        "search": ["nearest", "normalised"],
        "vector_stores": ["compare_erasure"],
        "votes": [
            "accuracy_curves",
            "class_scores",
            "confidence",
            "fit_temperature",
            "probabilities",
            "vote_curve",
            "vote_weights",
        ],
    },
)
