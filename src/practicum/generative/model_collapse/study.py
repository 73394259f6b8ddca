"""The study: workflows as arms; Gaussians, kernel density estimates and language models as data."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from practicum.data.kinds import UserData
from practicum.errors import InputError
from practicum.generative.model_collapse.corpora import (
    library_docstrings,
    python_topics,
    shape_data,
    split_documents,
)
from practicum.generative.model_collapse.figures import value_map
from practicum.generative.model_collapse.files import load_items, model_for
from practicum.generative.model_collapse.gaussian import gaussian_generations
from practicum.generative.model_collapse.generations import run_generations
from practicum.generative.model_collapse.kde import KDEModel
from practicum.generative.model_collapse.neural import NeuralLM
from practicum.generative.model_collapse.ngram import NGramLM
from practicum.generative.model_collapse.theory import gaussian_curve, replace_trace_variance
from practicum.generative.model_collapse.value import value_of_synthetic
from practicum.study import (
    Arm,
    Measure,
    Metrics,
    Results,
    Scale,
    Study,
    Trial,
    Verdict,
    all_of,
    at_least,
    at_most,
    between,
    greater_than,
    less_than,
    needs_more,
    never,
    rate,
)
from practicum.study.plots import add_ribbon, colours, new_figure, style

LOOP_ARMS = ("accumulate", "replace", "accumulate-subsample", "accumulate-synthetic")
REAL, SYNTHETIC = (2, 5, 20, 50, 100), (5, 20, 100, 400)  # documents, for C6
SNAPSHOTS = (1, 5, 20, 40)  # generations whose training points are kept for the picture
LABEL = "loss on real data, nats"


class ModelCollapse(Study):
    """Replace, accumulate and accumulate-subsample on Gaussians, KDEs and language models."""

    slug = "model-collapse"
    arms: ClassVar = {
        "accumulate": Arm("method", "train on the real items and everything written since"),
        "replace": Arm("baseline", "train on what the last generation wrote, as a plain loop does"),
        "accumulate-subsample": Arm(
            "cheap", "as many items as at the start, drawn from the same pool: fixed compute"
        ),
        "real-only": Arm("cheap", "no synthetic items: generation 1, kept"),
        "accumulate-synthetic": Arm(
            "control", "accumulate with the real items taken away after generation 1"
        ),
    }
    measures: ClassVar = {
        "final_loss": Measure("loss on real data, last generation", "lower", "nats per item"),
        "rise": Measure("rise of the loss since generation 1", "lower", "nats per item"),
    }

    def __init__(
        self,
        model: str = "auto",
        bandwidth: float | None = None,
        columns: tuple[str, ...] | None = None,
        generations: int = 20,
        field: str = "text",
    ) -> None:
        self.model, self.bandwidth, self.columns = model, bandwidth, columns
        self.generations, self.field = generations, field

    # ----------------------------------------------------------------------------------- the grid

    def trials(self, scale: Scale) -> Iterable[Trial]:
        """Gaussian, KDE, language model, mixture of real and synthetic; or a person's data."""
        if self.source is not None:
            yield from self._trials_on_source(scale)
            return
        yield from self._gaussian_trials(scale)
        yield from self._kde_trials(scale)
        yield from self._language_trials(scale)

    def _trials_on_source(self, scale: Scale) -> Iterator[Trial]:
        T = scale.pick(smoke=min(6, self.generations), cpu=self.generations, paper=self.generations)
        for seed in scale.seeds(smoke=3, cpu=10, paper=100):
            for arm in self.arms:
                yield self.trial(self.source.name, arm, seed, T=T)

    def _gaussian_trials(self, scale: Scale) -> Iterator[Trial]:
        ns = scale.pick(smoke=(10, 32, 100), cpu=(10, 32, 100), paper=(10, 32, 100, 316, 1000))
        ds = scale.pick(smoke=(1, 10), cpu=(1, 10), paper=(1, 3, 10, 31, 100))
        for n in ns:
            for d in ds:
                for arm in LOOP_ARMS:
                    for seed in scale.seeds(smoke=40, cpu=200, paper=200):
                        yield self.trial("gaussian", arm, seed, n=n, d=d, T=100)

    def _kde_trials(self, scale: Scale) -> Iterator[Trial]:
        shapes = scale.pick(
            smoke=("moons",), cpu=("moons",), paper=("moons", "circles", "swiss-roll", "blobs")
        )
        ns = scale.pick(smoke=(100,), cpu=(32, 100, 316), paper=(10, 32, 100, 316, 1000))
        hs = scale.pick(smoke=(0.1,), cpu=(0.1, 0.5), paper=(0.1, 0.5, 1.0))
        for shape in shapes:
            for n in ns:
                for h in hs:
                    for seed in scale.seeds(smoke=5, cpu=10, paper=100):
                        for arm in self.arms:
                            yield self.trial(shape, arm, seed, n=n, h=h, T=100)

    def _language_trials(self, scale: Scale) -> Iterator[Trial]:
        T = scale.pick(smoke=3, cpu=10, paper=20)
        n = scale.pick(smoke=40, cpu=200, paper=400)
        for seed in scale.seeds(smoke=2, cpu=10, paper=20):
            for arm in self.arms:
                yield self.trial("python-docs", arm, seed, model="ngram", n=n, T=T)
            for arm in ("accumulate", "real-only"):
                yield self.trial("python-docs-mixed", arm, seed)
        # A network needs many more steps: fewer seeds and generations, and no control.
        T = scale.pick(smoke=3, cpu=8, paper=20)
        n = scale.pick(smoke=20, cpu=60, paper=400)
        base = scale.pick(smoke=50_000, cpu=400_000, paper=800_000)
        for seed in scale.seeds(smoke=2, cpu=5, paper=20):
            for arm in (*LOOP_ARMS[:3], "real-only"):
                yield self.trial("python-docs", arm, seed, model="network", n=n, T=T, base=base)

    # ----------------------------------------------------------------------------------- one cell

    def run(self, trial: Trial) -> Metrics:
        """One arm and seed: the loss of every generation, and what belongs to its data."""
        if self.source is not None:
            return self._run_on_source(trial)
        if trial.dataset == "gaussian":
            return next(self.run_many([trial]))
        if trial.dataset == "python-docs-mixed":
            return _run_mixed(trial)
        if trial.dataset == "python-docs":
            return _run_language(trial)
        return _run_shape(trial)

    def _run_on_source(self, trial: Trial) -> Metrics:
        path = self.source.path
        items = _items(str(path), path.stat().st_mtime_ns, self.columns, self.field)
        model = model_for(items, self.model, self.bandwidth, self.source.name)
        return _run_loop(trial, items, model, None)

    def group(self, trial: Trial):
        """Gaussians of one arm and setting are simulated together."""
        if self.source is None and trial.dataset == "gaussian":
            return ("gaussian", trial.arm, trial["n"], trial["d"])
        return None

    def run_many(self, trials: Sequence[Trial]) -> Iterator[Metrics]:
        """All seeds of a Gaussian setting at once; a seed's numbers do not depend on the others."""
        first = trials[0]
        seeds = [_seed(trial) for trial in trials]
        runs = gaussian_generations(first["n"], first["d"], first["T"], first.arm, seeds)
        for i in range(len(trials)):
            trace = runs.trace_ratio[i]
            # Infinite losses (n <= d) cannot be averaged over seeds: left to the curves.
            finite = bool(np.isfinite(runs.nll[i]).all())
            loss = runs.nll[i]
            scalars = {"final_loss": loss[-1], "rise": loss[-1] - loss[0]} if finite else {}
            yield {
                **scalars,
                "final_trace": trace[-1],
                "late_change": np.log(trace[-1] / trace[len(trace) // 2 - 1]),
                "trace_ratio": trace,
                "loss": loss,
            }

    @classmethod
    def on(
        cls,
        source: UserData,
        *,
        model: Annotated[
            Literal["auto", "kde", "gaussian", "mixture", "ngram"],
            "what is trained: kde, gaussian or mixture on a table, ngram on text",
        ] = "auto",
        bandwidth: Annotated[
            float | None, "of the KDE, in standard deviations (default: Scott's rule)"
        ] = None,
        columns: Annotated[list[str] | None, "columns of a table (default: all numeric)"] = None,
        generations: Annotated[int, "how many generations"] = 20,
        field: Annotated[str, "field of JSON lines that holds the text"] = "text",
    ) -> ModelCollapse:
        """The same arms on a table or text of one's own."""
        if generations < 2:
            raise InputError(f"generations={generations}: at least 2 are needed to compare")
        chosen = tuple(columns) if columns else None
        path = source.path
        items = _items(str(path), path.stat().st_mtime_ns, chosen, field)
        model_for(items, model, bandwidth, source.name)  # refuses what does not fit
        made = cls(model, bandwidth, chosen, generations, field)
        if isinstance(items, list):  # a text's loss is a character's, whatever its documents are
            made.measures = {  # type: ignore[misc]
                name: replace(measure, unit="nats per character")
                for name, measure in cls.measures.items()
            }
        return made

    # ----------------------------------------------------------------------------------- pictures

    def figures(self, results: Results) -> Mapping[str, go.Figure]:
        """What the results hold, drawn."""
        if self.source is not None:
            unit = self.measures["final_loss"].unit
            made = {"Loss over the generations": _source_figure(results, unit)}
        else:
            made = {
                "A Gaussian's variance": _trace_figure(results),
                "A kernel density estimate's loss": _kde_figure(results),
                "Where the points are": _scatter_figure(results),
                "A language model's loss": _language_figure(results),
                "What synthetic text is worth": _value_figure(results),
                "How much of the training set is real": _real_fraction_figure(results),
            }
        return {title: figure for title, figure in made.items() if figure is not None}

    claims: ClassVar = {
        "C1": lambda results: _replace_collapses(results),
        "C2": lambda results: _accumulate_levels_off(results),
        "C3": lambda results: _subsample_lies_between(results),
        "C4": lambda results: _kde_contrast(results),
        "C5": lambda results: _language_contrast(results),
        "C6": lambda results: _worth_depends_on_real(results),
    }


# ------------------------------------------------------------------------------------ running


def _seed(trial: Trial) -> int:
    return int(trial.rng().integers(2**62))


def _run_loop(trial: Trial, items: Any, model: Any, test: Any, callback: Any = None) -> Metrics:
    """The loss of every generation; real-only keeps its first."""
    alone = trial.arm == "real-only"
    with warnings.catch_warnings():  # said once by ``on``, not by every worker
        warnings.simplefilter("ignore", UserWarning)
        result = run_generations(
            items,
            model,
            "replace" if alone else trial.arm,
            1 if alone else trial["T"],
            X_test=test,
            seeds=[_seed(trial)],
            callback=callback,
        )
    frame = result.frame
    loss, share = frame["loss"].to_numpy(), frame["real_fraction"].to_numpy()
    if alone:
        loss, share = np.full(trial["T"], loss[0]), np.ones(trial["T"])
    return {
        "final_loss": loss[-1],
        "rise": loss[-1] - loss[0],
        "loss": loss,
        "real_fraction": share,
    }


def _run_shape(trial: Trial) -> Metrics:
    X, X_test = shape_data(trial.dataset, trial["n"], 500, rng=trial.rng("data"))
    kept: list[np.ndarray] = []

    def keep(workflow: str, seed: int, generation: int, train: np.ndarray) -> None:
        if generation in SNAPSHOTS:  # the newest points: what the pool has most recently become
            kept.append(train[-len(X) :, :2])

    wanted = trial.seed == 0 and trial.arm != "real-only"
    metrics = _run_loop(trial, X, KDEModel(trial["h"]), X_test, keep if wanted else None)
    return {**metrics, "points": np.stack(kept)} if wanted else metrics


def _run_language(trial: Trial) -> Metrics:
    train, test = _documents(_seed(trial), trial["n"], length=500)
    is_network = trial["model"] == "network"
    model = NeuralLM(_base_network(trial["base"])) if is_network else NGramLM(5, _base_model())
    return _run_loop(trial, train, model, test)


def _run_mixed(trial: Trial) -> Metrics:
    """Loss for every number R of real and F of synthetic documents."""
    train, test = _documents(_seed(trial), 100, length=1000)
    sizes = [0] if trial.arm == "real-only" else list(SYNTHETIC)
    model = NGramLM(5, _base_model())
    frame = value_of_synthetic(
        train, model, REAL, sizes, X_test=test, seeds=[_seed(trial)], n_generator=100
    )
    table = frame.pivot(index="R", columns="F", values="loss").to_numpy()
    return {"loss_few_real": table[0, -1], "loss_many_real": table[-1, -1], "mixture_loss": table}


@lru_cache(maxsize=1)
def _base_model() -> NGramLM:
    return NGramLM(5).fit(split_documents(library_docstrings()))


@lru_cache(maxsize=1)
def _base_network(characters: int) -> NeuralLM:
    documents = split_documents(library_docstrings(characters))
    return NeuralLM(epochs=2).fit(documents, rng=np.random.default_rng(0))


@lru_cache(maxsize=2)
def _all_documents(length: int) -> tuple[str, ...]:
    return tuple(split_documents(python_topics(), length))


def _documents(seed: int, n: int, length: int) -> tuple[list[str], list[str]]:
    """n training documents, and test documents of 60,000 characters in all."""
    documents = _all_documents(length)
    order = np.random.default_rng(seed).permutation(len(documents))
    held_out = 60_000 // length
    train, test = order[held_out : held_out + n], order[:held_out]
    return [documents[i] for i in train], [documents[i] for i in test]


@lru_cache(maxsize=2)
def _items(path: str, modified: int, columns: tuple[str, ...] | None, field: str) -> Any:
    del modified  # part of the cache's key only
    return load_items(Path(path), columns, field)


# ------------------------------------------------------------------------------------ claims


def _closed_form(results: Results, arm: str, until: int) -> Verdict:
    """The mean trace ratio is within four standard errors of the closed form."""
    violations = checks = 0
    part = results.where(dataset="gaussian", arm=arm)
    settings = part.frame[["n", "d"]].drop_duplicates() if len(part) else []
    for n, d in getattr(settings, "to_numpy", list)():
        curves = part.curves("trace_ratio", n=n, d=d)[:, :until]
        if len(curves) < 2:
            continue
        n, d, T = int(n), int(d), curves.shape[1]
        # A few rare runs carry the mean under replace: only the exact variance is of use there.
        sd = (
            np.sqrt(replace_trace_variance(n, T, d))
            if arm == "replace"
            else curves.std(axis=0, ddof=1)
        )
        error = curves.mean(axis=0) - gaussian_curve(n, T, arm)["trace_ratio"]
        violations += int((np.abs(error) > 4 * sd / np.sqrt(len(curves))).sum())
        checks += T
    return never(violations, checks, f"{arm}: mean trace ratio off the closed form by 4 SE")


def _final_trace(results: Results, arm: str, n: int, d: int = 10):
    return results.values("final_trace", dataset="gaussian", arm=arm, n=n, d=d)


def _replace_collapses(results: Results) -> Verdict:
    what = "under replace the trace ratio at t=100 (n=10, d=10)"
    parts = [at_most(_final_trace(results, "replace", 10), 0.05, what)]
    for d in (1, 10):
        ratio = _final_trace(results, "replace", 10, d)
        what = f"the share of seeds with a trace ratio of at most .05 at t=100 (n=10, d={d})"
        parts.append(rate(int((ratio <= 0.05).sum()), len(ratio), low=0.5, what=what))
    slow = _final_trace(results, "replace", 100)
    return all_of(
        *parts,
        _closed_form(results, "replace", 50),
        sentence=f"At n=100 the mean ratio is {slow.mean():.3f} (closed form .366).",
    )


def _accumulate_levels_off(results: Results) -> Verdict:
    parts = [
        at_least(
            _final_trace(results, "accumulate", 10),
            0.75,
            "under accumulate the trace ratio at t=100 (n=10, d=10)",
        )
    ]
    for n in (10, 32, 100):
        change = results.values("late_change", dataset="gaussian", arm="accumulate", n=n, d=10)
        # Theory falls by .001 at most from t=50 to 100; replace would fall by .5 (n=100) or more.
        parts.append(
            at_least(change, -0.05, f"the log trace ratio's change from t=50 to 100 (n={n}, d=10)")
        )
    return all_of(*parts, _closed_form(results, "accumulate", 100))


def _subsample_lies_between(results: Results) -> Verdict:
    what = "under accumulate-subsample the trace ratio at t=100 (n=10, d=10)"
    parts = [between(_final_trace(results, "accumulate-subsample", 10), 0.65, 0.83, what)]
    for n in (10, 32):
        arms = [_final_trace(results, a, n) for a in ("accumulate", "accumulate-subsample")]
        parts.append(greater_than(*arms, what=f"accumulate minus subsample (n={n}, d=10)"))
        arms = [_final_trace(results, a, n) for a in ("accumulate-subsample", "replace")]
        parts.append(greater_than(*arms, what=f"subsample minus replace (n={n}, d=10)"))
    return all_of(*parts, _closed_form(results, "accumulate-subsample", 100))


def _kde_contrast(results: Results) -> Verdict:
    part = results.where(dataset="moons", n=100, h=0.1)
    rises = {arm: part.values("rise", arm=arm) for arm in LOOP_ARMS}
    if rises["replace"].empty:
        return needs_more("No run of replace on moons (n=100, h=.1) has finished.")
    T = part.curves("loss", arm="replace").shape[1]
    everywhere = results.where(arm="accumulate", dataset=["moons", "circles", "swiss-roll"])
    violations = checks = 0
    for outcome in everywhere.outcomes:
        loss = outcome.curves["loss"]
        bound = loss[0] + np.log(np.arange(1, len(loss) + 1))
        violations += int((loss > bound + 1e-9).sum())
        checks += len(loss)
    return all_of(
        at_least(rises["replace"], np.log(T), f"replace's rise by t={T}, against log {T},"),
        never(violations, checks, "accumulate's rise above log t"),
        greater_than(rises["replace"], rises["accumulate-subsample"], what="replace - subsample"),
        at_most(rises["accumulate-subsample"], np.log(T), "subsample's rise"),
    )


def _language_contrast(results: Results) -> Verdict:
    parts, words = [], []
    for model, name in (("network", "a network trained by gradient steps"), ("ngram", "5-grams")):
        part = results.where(dataset="python-docs", model=model)
        rises = {arm: part.values("rise", arm=arm) for arm in LOOP_ARMS[:3]}
        replace, subsample = part.paired("rise", "replace", "accumulate-subsample")
        if replace.empty:
            return needs_more(f"No pair of runs of {name} has finished.")
        means = ", ".join(f"{arm} {values.mean():.2f}" for arm, values in rises.items())
        words.append(f"Rise in nats per character, {name}: {means}.")
        what = f"{name}: replace's rise minus twice subsample's"
        parts.append(at_least(replace - 2 * subsample, 0, what))
        if model == "network":
            pair = part.paired("rise", "accumulate-subsample", "accumulate")
            parts.append(greater_than(*pair, what=f"{name}: subsample's rise minus accumulate's"))
    return all_of(*parts, sentence=" ".join(words))


def _worth_depends_on_real(results: Results) -> Verdict:
    part = results.where(dataset="python-docs-mixed")
    few = part.paired("loss_few_real", "accumulate", "real-only")
    many = part.paired("loss_many_real", "accumulate", "real-only")
    F = SYNTHETIC[-1]
    return all_of(
        less_than(*few, what=f"with {REAL[0]} real documents, what {F} synthetic ones gain"),
        greater_than(*many, what=f"with {REAL[-1]} real documents, what {F} synthetic ones cost"),
        sentence=(
            "The generator saw all 100 real documents, so synthetic ones carry information on real "
            "documents withheld from the fit, as in the paper's design."
        ),
    )


# ------------------------------------------------------------------------------------ figures

HUES = colours(ModelCollapse.arms)
DASHES = {"real-only": "dash", "accumulate-synthetic": "dot"}  # these can cover other lines


def _panels(titles: Sequence[str], caption: str, x: str, y: str, **options: Any) -> go.Figure:
    from plotly.subplots import make_subplots

    figure = make_subplots(1, len(titles), subplot_titles=titles, shared_yaxes=True, **options)
    style(figure, caption)
    figure.update_layout(margin={"t": 80}, legend={"y": 1.12})
    figure.update_xaxes(title=x)
    figure.update_yaxes(title=y, col=1)
    return figure


def _trace_figure(results: Results) -> go.Figure | None:
    part = results.where(dataset="gaussian", d=10)
    if not len(part):
        return None
    ns = sorted(part.frame["n"].unique())
    figure = _panels(
        [f"n = {n}" for n in ns],
        "Trace ratio tr(Σ)/tr(Σ₀) of a Gaussian in 10 dimensions: mean over seeds with its 95 % "
        "band, the closed form dashed. Only replace tends to 0.",
        "generation",
        "trace ratio",
    )
    for column, n in enumerate(ns, start=1):
        for arm in LOOP_ARMS:
            curves = part.curves("trace_ratio", n=n, arm=arm)
            if not len(curves):
                continue
            place = {"row": 1, "col": column}
            t = np.arange(1, curves.shape[1] + 1)
            add_ribbon(figure, t, curves, arm, HUES[arm], where=place, showlegend=column == 1)
            theory = gaussian_curve(int(n), len(t), arm)["trace_ratio"]
            figure.add_trace(
                go.Scatter(
                    x=t,
                    y=theory,
                    mode="lines",
                    line={"color": HUES[arm], "dash": "dash", "width": 1},
                    name=f"{arm}, closed form",
                    legendgroup=arm,
                    showlegend=False,
                ),
                **place,
            )
    return figure


def _kde_figure(results: Results) -> go.Figure | None:
    part = results.where(dataset="moons", n=100, h=0.1)
    if not len(part):
        return None
    figure = new_figure(
        "Negative log-likelihood of 500 real points (moons, bandwidth 0.1, 100 points a "
        "generation): median over seeds and the range of 80 % of them. Accumulate can never rise "
        "by more than log t (dotted).",
        x="generation",
        y=f"{LABEL} per point",
        log_y=True,
    )
    for arm in ModelCollapse.arms:
        curves = part.curves("loss", arm=arm)
        if len(curves):
            t = np.arange(1, curves.shape[1] + 1)
            add_ribbon(figure, t, curves, arm, HUES[arm], centre="median", dash=DASHES.get(arm))
    loss = np.stack([o.curves["loss"] for o in part.outcomes])
    t = np.arange(1, loss.shape[1] + 1)
    figure.add_scatter(
        x=t,
        y=np.median(loss[:, 0]) + np.log(t),
        mode="lines",
        line={"color": "#7F7F7F", "dash": "dot", "width": 1.5},
        name="first loss + log t",
    )
    figure.update_yaxes(dtick="D2")  # 1, 2, 5, 10, ...
    return figure


def _language_figure(results: Results) -> go.Figure | None:
    part = results.where(dataset="python-docs")
    models = [m for m in ("ngram", "network") if part.has(model=m)]
    if not models:
        return None
    titles = {"ngram": "5-grams", "network": "network, one pass of gradient steps"}
    figure = _panels(
        [titles[m] for m in models],
        "Loss of a language model on 60,000 held-out characters, mean over seeds with its 95 % "
        "band. Every generation is fine-tuned from the same base model.",
        "generation",
        f"{LABEL} per character",
    )
    for column, model in enumerate(models, start=1):
        for arm in ModelCollapse.arms:
            curves = part.curves("loss", model=model, arm=arm)
            if len(curves):
                add_ribbon(
                    figure,
                    np.arange(1, curves.shape[1] + 1),
                    curves,
                    arm,
                    HUES[arm],
                    dash=DASHES.get(arm),
                    where={"row": 1, "col": column},
                    showlegend=column == 1,
                )
    return figure


def _source_figure(results: Results, unit: str) -> go.Figure | None:
    if not len(results):
        return None
    figure = new_figure(
        "Loss on held-out items of your data, mean over seeds with its 95 % band.",
        x="generation",
        y=f"loss on real data, {unit}",
    )
    for arm in ModelCollapse.arms:
        curves = results.curves("loss", arm=arm)
        if len(curves):
            t = np.arange(1, curves.shape[1] + 1)
            add_ribbon(figure, t, curves, arm, HUES[arm], dash=DASHES.get(arm))
    return figure


def _scatter_figure(results: Results) -> go.Figure | None:
    from plotly.subplots import make_subplots

    part = results.where(dataset="moons", n=100, h=0.1, seed=0)
    shown = [a for a in LOOP_ARMS[:3] if len(part.curves("points", arm=a))]
    if not shown:
        return None
    figure = make_subplots(
        len(shown),
        len(SNAPSHOTS),
        column_titles=[f"generation {t}" for t in SNAPSHOTS],
        row_titles=[arm.replace("accumulate-", "") for arm in shown],
        shared_xaxes=True,
        shared_yaxes=True,
        horizontal_spacing=0.02,
        vertical_spacing=0.03,
    )
    style(
        figure,
        "100 training points of one run (of accumulate's pool the newest). Replace forgets the "
        "moons; a pool keeps their shape.",
        height=200 * len(shown) + 80,
        showlegend=False,
    )
    for row, arm in enumerate(shown, start=1):
        for column, points in enumerate(part.curves("points", arm=arm)[0], start=1):
            figure.add_trace(
                go.Scatter(
                    x=points[:, 0],
                    y=points[:, 1],
                    mode="markers",
                    marker={"color": HUES[arm], "size": 4, "opacity": 0.7},
                    name=arm,
                ),
                row=row,
                col=column,
            )
    figure.update_xaxes(range=[-2, 3])
    figure.update_yaxes(range=[-1.6, 2.3])
    return figure


def _value_figure(results: Results) -> go.Figure | None:
    part = results.where(dataset="python-docs-mixed")
    mixed, alone = (part.curves("mixture_loss", arm=a) for a in ("accumulate", "real-only"))
    if not len(mixed) or not len(alone):
        return None
    gain = alone.mean(axis=0) - mixed.mean(axis=0)
    cells = [
        {"R": R, "F": F, "gain": gain[i, j]}
        for i, R in enumerate(REAL)
        for j, F in enumerate(SYNTHETIC)
    ]
    figure = value_map(pd.DataFrame(cells))
    style(
        figure,
        "Change of the loss (nats per character) when F synthetic documents are added to R real "
        "ones, mean over seeds. Blue helps, red harms: the sign changes from top to bottom.",
    )
    return figure


def _real_fraction_figure(results: Results) -> go.Figure | None:
    part = results.where(dataset="moons", n=100, h=0.1)
    if not len(part):
        return None
    figure = new_figure(
        "Share of real items in the training set (moons, 100 points a generation). Accumulate "
        "keeps 1/t of them, a subsample of its pool the same on average; replace and the control "
        "have none after the first.",
        x="generation",
        y="share of real items",
        log_x=True,
    )
    for arm in ModelCollapse.arms:
        curves = part.curves("real_fraction", arm=arm)
        if len(curves):
            t = np.arange(1, curves.shape[1] + 1)
            add_ribbon(figure, t, curves, arm, HUES[arm], dash=DASHES.get(arm))
    figure.update_xaxes(dtick="D2")
    return figure
