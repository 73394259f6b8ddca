"""What happens to a generative model that is trained on what its ancestors wrote?

Each generation fits a model, writes new items, and hands them to the next one.  Whether that ends
in collapse depends on what the next one is trained on:

* ``"replace"``: only the last generation's items.  Errors multiply; the model collapses.
* ``"accumulate"``: the real items and everything written since.  The loss rises ever more slowly:
  a Gaussian's levels off, a kernel density estimate's goes on like the logarithm of the number of
  generations.
* ``"accumulate-subsample"``: as many items as at the start, drawn from that pool: the same compute
  in every generation.  As accumulate, a little higher.

When to use it: you publish or buy synthetic tables, fine-tune a model on model-written text, or
teach the subject, and want to know what *your* model on *your* data does, with several seeds and
intervals, before a year of generations has passed.

A run takes real items and a model (a name, or anything with ``fit``, ``sample`` and ``loss``):

>>> import numpy as np
>>> from practicum.generative.model_collapse import run_generations
>>> X = np.random.default_rng(0).normal(size=(60, 2))
>>> result = run_generations(X, "gaussian", n_generations=40, seeds=range(12))
>>> {workflow: v.label for workflow, v in result.verdict().items()}["replace"]
'collapse'
>>> sorted(result.frame.columns)[:4]
['generation', 'log_det', 'loss', 'mean_sq_error']

``result.summary()`` has means, intervals and medians, ``result.plot()`` is a figure and
``result.to_json()`` keeps everything.

How much are synthetic items worth beside R real ones?  Often a lot when R is small, and less than
nothing when R is large:

>>> from practicum.generative.model_collapse import value_of_synthetic
>>> frame = value_of_synthetic(X, "kde", real_sizes=[5, 40], synth_sizes=[0, 80], seeds=range(3))
>>> frame.shape
(12, 4)

For Gaussians the expectation is known in closed form, and thousands of runs take seconds:

>>> from practicum.generative.model_collapse import gaussian_curve, gaussian_generations
>>> runs = gaussian_generations(10, 1, generations=20, workflow="accumulate", seeds=range(500))
>>> theory = gaussian_curve(10, 20, "accumulate")["trace_ratio"]
>>> bool(abs(runs.trace_ratio[:, -1].mean() - theory[-1]) < 0.1)
True

Where things live: ``generations`` (the loop), ``results`` (tables, intervals, verdicts), ``value``
(real against synthetic), ``models``, ``kde``, ``ngram`` and ``neural``
(generative models), ``gaussian`` (the
Gaussian laboratory), ``theory`` (closed forms), ``corpora`` (data that need no download).

Source: Kazdan, Schaeffer, Dey, Gerstgrasser, Rafailov, Donoho and Koyejo, *Collapse or Thrive?
Perils and Promises of Synthetic Data in a Self-Generating World*, ICML 2025, arXiv 2410.16713.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach(
    __name__,
    submod_attrs={
        "corpora": [
            "library_docstrings",
            "python_topics",
            "real_table",
            "shape_data",
            "split_documents",
        ],
        "gaussian": ["GaussianTrajectories", "gaussian_generations", "gaussian_generations_loop"],
        "generations": ["run_generations"],
        "kde": ["KDEModel", "KernelSums", "rule_bandwidth"],
        "models": [
            "CallableModel",
            "CategoricalModel",
            "FixedDesignRegression",
            "GaussianModel",
            "GenerativeModel",
            "SklearnModel",
        ],
        "neural": ["NeuralLM"],
        "ngram": ["NGramLM"],
        "results": ["GenerationResult", "WorkflowVerdict"],
        "theory": [
            "categorical_gini",
            "gaussian_curve",
            "kde_second_moment",
            "replace_trace_variance",
        ],
        "value": ["synthetic_gain", "value_of_synthetic"],
        "workflows": ["WORKFLOWS"],
    },
)
