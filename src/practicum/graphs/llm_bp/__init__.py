"""Classes of the nodes of a graph whose nodes carry text, from class names or a few labels.

What it does
    Papers that cite each other, products bought together, packages that depend on one another:
    every node has a text, and you want a class for each without training anything. Texts are
    embedded, each class gets a prototype (from its name through an annotator, or from labelled
    nodes), cosines become probabilities, and five rounds of belief propagation use the one number
    that matters about the edges: how often linked nodes share a class.

When to use it
    Fewer than ten labels a class, or none; edges that may join equal *or different* classes.
    Averaging neighbours loses a fifth of the accuracy where linked nodes differ; belief propagation
    with the right number gains a little there and more where they agree.

When not
    With dozens of labels a class a trained model is better. And without any label somebody has to
    say how often linked nodes share a class, unless they clearly do: the estimate from texts alone
    (``homophily="em"``) takes "about one subject" for "of one class" and is far off where linked
    texts share a subject but not a class. Looking at a hundred edges is enough
    (:func:`edges_to_judge`), and so are five labels a class (:func:`homophily_from_labels`).

What is published and what is ours
    ``coupling="paper"`` is the published edge potential (r, 1 - r), which repels linked nodes at
    r = 0.35 among 24 classes although they agree far above chance; ``"uniform"`` and ``"odds"``
    (default) are centred. Messages are computed in closed form, O(E C) instead of O(E C^2).

Functions of SciPy and the functions they mention: the topic of each from the topics' names.

>>> from practicum.graphs.llm_bp import LLMBP, load_graph
>>> graph = load_graph("scipy-topics")
>>> model = LLMBP(homophily=0.9).fit(graph)  # doctest: +SKIP
>>> float((model.predict() == graph.labels).mean())  # doctest: +SKIP
0.63

Only the propagation, on potentials of your own:

>>> import numpy as np
>>> from practicum.graphs.llm_bp import belief_propagation, coupling_of
>>> phi = np.log([[0.8, 0.1, 0.1], [0.4, 0.3, 0.3], [0.3, 0.3, 0.4]])
>>> same, diff = coupling_of(0.8, 3, "uniform")
>>> belief_propagation(phi, np.array([[0, 1], [1, 2]]), same, diff).probabilities.argmax(1).tolist()
[0, 0, 0]

From the command line: ``practicum use llm-bp run --nodes nodes.csv --edges edges.csv --classes
"games,science,sound"``, ``check`` first, and ``sheet`` to judge a hundred edges.

Where things live: ``propagation`` (couplings, messages), ``homophily``, ``prototypes`` (annotators,
task-adaptive embeddings, leaks), ``model`` (the estimator), ``baselines`` and ``arms`` (what is
compared), ``textgraphs`` (real graphs that are already on a machine), ``exact`` (what belief
propagation is checked against).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "model": ["LLMBP"],
        "propagation": [
            "approximate_propagation",
            "belief_propagation",
            "coupling_of",
        ],
        "homophily": [
            "edges_to_judge",
            "estimate_homophily",
            "homophily_from_labels",
            "judge_homophily",
            "judged_homophily",
            "true_homophily",
        ],
        "prototypes": [
            "adapt_to_classes",
            "chat_annotator",
            "check_leak",
            "few_shot_prototypes",
            "names_annotator",
            "task_instruction",
            "zero_shot_prototypes",
        ],
        "exact": ["enumerate_marginals", "table_propagation"],
        "arms": ["compare_tag"],
        "textgraphs": ["load_graph"],
    },
)
