"""The generation loop: what happens to a model that is trained on what its ancestors wrote."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from practicum.errors import InputError
from practicum.generative.model_collapse.checks import warn_different_distribution, warn_overlap
from practicum.generative.model_collapse.items import (
    Items,
    check_items,
    check_kind,
    check_seeds,
    check_test,
    concatenate,
    is_text,
    items_per_generation,
    sample_items,
    split,
    stream,
    take,
)
from practicum.generative.model_collapse.kde import KDEModel
from practicum.generative.model_collapse.models import (
    CategoricalModel,
    GaussianModel,
    GenerativeModel,
    SklearnModel,
    fresh_copy,
)
from practicum.generative.model_collapse.ngram import NGramLM
from practicum.generative.model_collapse.results import GenerationResult
from practicum.generative.model_collapse.workflows import (
    CONTROL,
    WORKFLOWS,
    Workflow,
    check_workflow,
)

Weights = Callable[[np.ndarray, int], np.ndarray]
Filter = Callable[[Items, np.random.Generator], np.ndarray]
Callback = Callable[[str, int, int, Items], None]

# A filter that keeps less than one item in a hundred is taken for a mistake.
_FILTER_ROUNDS = 100


@dataclass(frozen=True)
class _Settings:
    workflow: Workflow
    n_generations: int
    n: int
    real_fraction: float | None
    weights: Weights | None
    filter: Filter | None
    callback: Callback | None


def run_generations(
    X_real: Items,
    model: GenerativeModel | str | object,
    workflow: Workflow | Literal["all"] | str | Sequence[str] = "all",
    n_generations: int = 20,
    n_per_generation: int | None = None,
    X_test: Items | None = None,
    test_size: float = 0.25,
    seeds: Iterable[int] = range(10),
    real_fraction: float | None = None,
    weights: Weights | None = None,
    filter: Filter | None = None,
    callback: Callback | None = None,
) -> GenerationResult:
    """Train a model on its ancestors' output, generation after generation.

    Generation t = 1, 2, ... fits the model to a training set, measures its loss on held-out *real*
    items and writes n new items.  The training set is

    * ``"replace"``: the last generation's items only;
    * ``"accumulate"``: the real items and everything written so far;
    * ``"accumulate-subsample"``: n items of that pool, drawn without replacement;
    * ``"accumulate-synthetic"``: accumulate without the real items after generation 1 (a control).

    Generation 1 is trained on the n real items in every workflow.

    Parameters
    ----------
    X_real : array, sparse matrix or data frame (N, d), or list, array or column of str
        Real items: rows of numbers, or documents.
    model : GenerativeModel, scikit-learn density or str
        ``"gaussian"``, ``"kde"``, ``"categorical"``, ``"ngram"`` or a model of your own, for
        example ``GaussianMixture(5)`` or a :class:`CallableModel`.  Every
        generation starts from a fresh copy.  ``"kde"`` has one bandwidth for all columns, and
        nothing is standardised here: where columns differ in scale (years beside a yearly income)
        the kernel is far too wide for one or too narrow for another, so standardise first, as
        ``practicum use model-collapse`` does.  ``"kde"`` also applies Scott's rule anew in every
        generation, so that the kernel grows with the spread it adds; the command fixes the
        bandwidth of the real rows: ``KDEModel(rule_bandwidth(X, "scott"))``.
    workflow : str or sequence of str
        One or several of the above, or ``"all"`` for the first three.
    n_generations : int
        Number of fits, G.
    n_per_generation : int, optional
        n; by default all real items that are not held out.
    X_test : items, optional
        Held-out real items; by default ``test_size`` of X_real, drawn anew for every seed.
    test_size : float
        Share of X_real to hold out, in (0, 1).
    seeds : iterable of int
        One run each.  A seed's result does not depend on the other seeds.
    real_fraction : float, optional
        Share of real items in every training set from generation 2 on, drawn from the first n real
        items.  Not for ``"accumulate"``, where the share is 1/t by definition.
    weights : callable, optional
        ``weights(is_real, generation) -> array``: a weight per training item, for models whose
        ``fit`` takes ``sample_weight``.
    filter : callable, optional
        ``filter(items, rng) -> boolean array``: which written items may be kept (verified
        selection); the model writes on until n are kept.
    callback : callable, optional
        ``callback(workflow, seed, generation, training_set)``, after every fit.

    Returns
    -------
    GenerationResult

    Raises
    ------
    InputError
        For data that cannot be used (NaN cells, too few rows, symbols outside the vocabulary),
        options that contradict each other, and models that write the wrong shape, kind or NaN
        (with generation and seed).

    Warns
    -----
    UserWarning
        Test items that are copies of training items, a test set of another distribution, constant
        columns, d >= n for a Gaussian, and a model that keeps state between fits.

    Notes
    -----
    Algorithm 1 of Kazdan et al., *Collapse or Thrive?*, ICML 2025 (arXiv 2410.16713).
    ``real_fraction`` and ``weights`` are the hooks for later proposals (He, Xu and Cheng,
    arXiv 2502.18049: weigh real data by the reciprocal golden ratio); off by default.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> result = run_generations(
    ...     rng.normal(size=(60, 2)), "gaussian", n_generations=5, seeds=range(4))
    >>> result.frame.groupby("workflow")["loss"].count().to_dict()
    {'accumulate': 20, 'accumulate-subsample': 20, 'replace': 20}
    """
    asked = [workflow] if isinstance(workflow, str) else list(dict.fromkeys(workflow))
    workflows = WORKFLOWS if asked == ["all"] else tuple(check_workflow(w) for w in asked)
    X_test = None if X_test is None else check_test(X_test, X_real)
    X_real = check_items(X_real)
    model = as_model(model, X_real)
    check_kind(X_real, model)
    if X_test is not None:
        check_kind(X_test, model, "X_test")
    if n_generations < 1:
        raise InputError(f"n_generations={n_generations}: must be at least 1")
    _check_hooks(model, workflows, real_fraction, weights)
    n = items_per_generation(n_per_generation, X_real, X_test, test_size)
    seeds = check_seeds(seeds)

    rows: list[dict] = []
    for i, seed in enumerate(seeds):
        train, test = split(X_real, X_test, n, test_size, seed)
        if i == 0:
            _first_look(model, train, test, seed, given=X_test is not None)
        for name in workflows:
            settings = _Settings(name, n_generations, n, real_fraction, weights, filter, callback)
            rows += _run_one(fresh_copy(model), train, test, settings, seed)
    return GenerationResult.from_rows(
        rows,
        settings={
            "model": type(model).__name__,
            "n_per_generation": n,
            "n_generations": n_generations,
            "seeds": seeds,
            "real_fraction": real_fraction,
            "weights": weights is not None,
            "filter": filter is not None,
        },
        loss_unit=getattr(model, "loss_unit", None),
    )


def as_model(model: GenerativeModel | str | object, X: Items) -> GenerativeModel:
    """Make a model of a name or of a scikit-learn density; pass a model through.

    Parameters
    ----------
    model : GenerativeModel, scikit-learn density or str
        ``"gaussian"``, ``"kde"`` (Scott's bandwidth, one for all columns), ``"categorical"`` (as
        many outcomes as X holds) or ``"ngram"`` (order 5, the vocabulary of X).
    X : items
        The real items.

    Raises
    ------
    InputError
        For an unknown name or an object without fit, sample and loss.

    Examples
    --------
    >>> as_model("kde", None).bandwidth
    'scott'
    """
    if isinstance(model, str):
        make: dict[str, Callable[[], GenerativeModel]] = {
            "gaussian": GaussianModel,
            "kde": KDEModel,
            "categorical": lambda: CategoricalModel(1 if is_text(X) else int(np.max(X)) + 1),
            "ngram": lambda: NGramLM(vocabulary="".join(sorted(set("".join(X)) | {"\n"}))),
        }
        if model not in make:
            raise InputError(f"model {model!r} is not known", "use one of " + ", ".join(make))
        return make[model]()
    if hasattr(model, "score_samples") and not hasattr(model, "loss"):
        return SklearnModel(model)
    missing = [m for m in ("fit", "sample", "loss") if not callable(getattr(model, m, None))]
    if missing:
        raise InputError(
            f"{type(model).__name__} has no {', '.join(missing)}",
            "wrap it with SklearnModel or CallableModel",
        )
    return model


# ------------------------------------------------------------- checks


def _check_hooks(model, workflows, real_fraction, weights) -> None:
    if real_fraction is not None:
        if not 0 <= real_fraction <= 1:
            raise InputError(f"real_fraction={real_fraction}: must lie between 0 and 1")
        if any(w in ("accumulate", CONTROL) for w in workflows):
            raise InputError(
                "real_fraction does not apply to accumulate: its share of real items is 1/t",
                'use workflow="replace" or "accumulate-subsample", or weights',
            )
    if weights is not None and "sample_weight" not in inspect.signature(model.fit).parameters:
        raise InputError(
            f"{type(model).__name__}.fit takes no sample_weight, so weights cannot be used"
        )


def _first_look(model, train, test, seed: int, *, given: bool) -> None:
    """Warnings that need data: once, for the first seed."""
    if not isinstance(model, CategoricalModel):  # whose items are few, and all of them repeat
        warn_overlap(train, test)
    if given and not is_text(train) and train.shape[1] == test.shape[1]:
        warn_different_distribution(train, test)
    probe = fresh_copy(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        losses = [probe.fit(train, rng=stream(seed, 1)).loss(test) for _ in range(2)]
    if losses[0] != losses[1] and not np.isnan(losses).all():
        warnings.warn(
            f"{type(model).__name__} keeps state between fits: two fits to the same items with the "
            f"same seed have losses {losses[0]:.6g} and {losses[1]:.6g}.  Every generation starts "
            "from a fresh copy, but state outside the object would leak",
            UserWarning,
            stacklevel=3,
        )


# ------------------------------------------------------------- the loop


def _run_one(model: GenerativeModel, real: Items, test: Items, s: _Settings, seed: int):
    # One generator for fits and samples, one for the subset: so generation 1 is the same in every
    # workflow, although only one of them draws subsets.
    rng, subset_rng = stream(seed, 1), stream(seed, 2)
    template, pool, is_real = fresh_copy(model), real, np.ones(len(real), dtype=bool)
    # From this generation on the training set only grows, and a model that can extends its fit.
    grows_from = {"accumulate": 2, CONTROL: 3}.get(s.workflow, s.n_generations + 1)
    can_extend = s.weights is None and hasattr(model, "extend")
    new: Items = None
    for t in range(1, s.n_generations + 1):
        train, train_real = _training_set(pool, is_real, real, s, t, subset_rng)
        if can_extend and t >= grows_from:
            model.extend(new, rng=rng)
        else:
            model = fresh_copy(template)
            model.fit(train, rng=rng, **_weight_argument(s, train_real, t))
        if s.callback is not None:
            s.callback(s.workflow, seed, t, train)
        yield {
            "workflow": s.workflow,
            "seed": seed,
            "generation": t,
            "pool_size": len(pool),
            "train_size": len(train),
            "real_fraction": float(np.mean(train_real)),
            "loss": _loss(model, test, t, seed),
            **(model.metrics(test) if hasattr(model, "metrics") else {}),
        }
        if t == s.n_generations:
            return
        new = _write(model, real, s, t, seed, rng)
        if s.workflow == "replace" or (s.workflow == CONTROL and t == 1):
            pool, is_real = new, np.zeros(len(new), dtype=bool)
        else:
            pool = concatenate(pool, new)
            is_real = np.concatenate([is_real, np.zeros(len(new), dtype=bool)])


def _training_set(pool, is_real, real, s: _Settings, t: int, rng):
    """Items of fit t and which of them are real."""
    if t > 1 and s.real_fraction is not None:
        n_real = round(s.real_fraction * s.n)
        written = np.flatnonzero(~is_real)
        chosen = rng.choice(len(real), n_real, replace=False)
        others = written[rng.choice(len(written), s.n - n_real, replace=False)]
        items = concatenate(take(real, chosen), take(pool, others))
        return items, np.arange(s.n) < n_real
    if t > 1 and s.workflow == "accumulate-subsample":
        chosen = rng.choice(len(pool), s.n, replace=False)
        return take(pool, chosen), is_real[chosen]
    return pool, is_real


def _weight_argument(s: _Settings, train_real: np.ndarray, t: int) -> dict[str, np.ndarray]:
    if s.weights is None:
        return {}
    weight = np.asarray(s.weights(train_real, t), dtype=float)
    if weight.shape != train_real.shape or not (np.isfinite(weight) & (weight >= 0)).all():
        raise InputError(
            f"weights at generation {t}: expected {train_real.size} finite non-negative numbers, "
            f"found shape {weight.shape}"
        )
    if weight.sum() == 0:
        raise InputError(f"weights at generation {t} are all zero")
    return {"sample_weight": weight}


def _loss(model, test, t: int, seed: int) -> float:
    loss = float(model.loss(test))
    if np.isnan(loss):
        raise InputError(
            f"{type(model).__name__}.loss returned NaN at generation {t}, seed {seed}",
            "return inf where the likelihood is zero",
        )
    return loss


def _write(model, real, s: _Settings, t: int, seed: int, rng) -> Items:
    """n new items that the filter accepts."""
    if s.filter is None:
        return sample_items(model, s.n, real, t, seed, rng)
    kept: Items = None
    for _ in range(_FILTER_ROUNDS):
        items = sample_items(model, s.n, real, t, seed, rng)
        accepted = np.asarray(s.filter(items, rng))
        if accepted.dtype != bool or accepted.shape != (s.n,):
            raise InputError(f"filter must return {s.n} booleans, one per item")
        items = take(items, np.flatnonzero(accepted))
        kept = items if kept is None else concatenate(kept, items)
        if len(kept) >= s.n:
            return kept[: s.n]
    raise InputError(
        f"the filter kept {len(kept)} of {s.n * _FILTER_ROUNDS} items at generation {t}, "
        f"seed {seed}; {s.n} are needed",
        "use a milder filter",
    )
