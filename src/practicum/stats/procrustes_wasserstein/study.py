"""The study: starts and rival distances as arms; real shapes in random poses as data."""

from __future__ import annotations

import math
import re
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import ot  # noqa: F401 - imported here so that no measured second pays for it
import pandas as pd
import plotly.graph_objects as go
from scipy.spatial.distance import squareform

from practicum.data import shapes
from practicum.data.kinds import UserData
from practicum.data.points import PointCloud, read_clouds
from practicum.errors import InputError
from practicum.stats.procrustes_wasserstein import baselines
from practicum.stats.procrustes_wasserstein.barycenter import PWBarycenter
from practicum.stats.procrustes_wasserstein.distance import PWResult, procrustes_wasserstein
from practicum.stats.procrustes_wasserstein.figures import barycenter_overlay, overlay
from practicum.stats.procrustes_wasserstein.pairwise import pw_pairwise
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
    greater_than,
    less_than,
    needs_more,
    never,
)
from practicum.study.plots import add_ribbon, colours, interval_bars, new_figure, style

STARTS = {
    "pw": "auto",
    "pw-pca": "pca",
    "pw-gw": "gw",
    "pw-fiedler": "fiedler",
    "pw-random": "random",
    "pw-identity": "identity",
}
STRUCTURED = ("pw-pca", "pw-gw", "pw-fiedler")
DISTANCES = ("pw", "gw", "w", "pca-w")
TIMED = (*DISTANCES, "pw-pca")
COPIES = ("cell", "ant", "airplane", "nut")
DRAWS = {"digits 0 1 4": (0, 1, 4), "digits 2 3 7": (2, 3, 7), "cells by treatment": ()}
PAIRS = ("cell pairs", "mesh pairs")
MEANS = ("cell mean", "ant mean")
FOUND = 1.01  # within 1 % of the best known objective counts as found
EXACT = 1e-9  # slack for objectives that are zero in exact arithmetic
LEAST_CLOUDS = 4
NOT_NEGATIVE = (0.0, math.inf)


class ProcrustesWasserstein(Study):
    """Starts of the solver, rival distances and rival barycenters on real shapes."""

    slug = "procrustes-wasserstein"
    arms: ClassVar = {
        "pw": Arm("method", "Procrustes-Wasserstein; starts screened automatically"),
        "gw": Arm("baseline", "Gromov-Wasserstein on Euclidean distance matrices (POT)"),
        "w": Arm("baseline", "Wasserstein-2 of the centred clouds, as they are posed"),
        "pca-w": Arm("cheap", "principal axes turned onto each other once, then Wasserstein-2"),
        "pw-pca": Arm("control", "the same solver, started from principal axes only"),
        "pw-gw": Arm("control", "the same solver, started from a Gromov-Wasserstein plan"),
        "pw-fiedler": Arm("control", "the same solver, started from Fiedler vectors"),
        "pw-random": Arm("control", "the same solver, the best of 16 random starts"),
        "pw-identity": Arm("control", "the same solver, started from the pose as it is"),
        "shuffled": Arm("control", "PW distances with the labels permuted: a placebo"),
    }
    measures: Mapping[str, Measure] = {
        "accuracy": Measure("1-nearest-neighbour accuracy", "higher", bounds=(0.0, 1.0)),
        "ari": Measure("adjusted Rand index of spectral clustering", "higher", bounds=(-0.5, 1.0)),
        "squared": Measure(
            "squared distance reached", "lower", "unit radius squared", bounds=NOT_NEGATIVE
        ),
        "score": Measure(
            "PW² of the barycenter to the true shape",
            "lower",
            "unit radius squared",
            bounds=NOT_NEGATIVE,
        ),
        "pair_seconds": Measure("CPU time per pair", "lower", "s", bounds=NOT_NEGATIVE),
    }

    def __init__(
        self,
        labels: str = "auto",
        points: int = 100,
        group: str = "O",
        clouds: int = 60,
        vertices: bool = False,
    ) -> None:
        self.labels, self.points, self.rotations = labels, points, group
        self.clouds, self.vertices = clouds, vertices

    # ----------------------------------------------------------------------------------- the grid

    def trials(self, scale: Scale) -> Iterable[Trial]:
        """Axioms, noisy copies, different pairs, means, clusters, seconds; or a person's clouds."""
        if self.source is not None:
            yield from self._trials_on_source(scale)
            return
        for seed in scale.seeds(smoke=12, cpu=200, paper=200):
            for arm in ("pw", "pw-identity"):
                yield self.trial("triples", arm, seed)
        yield from self._start_trials(scale)
        yield from self._mean_trials(scale)
        yield from self._cluster_trials(scale)
        yield from self._time_trials(scale)

    def _trials_on_source(self, scale: Scale) -> Iterator[Trial]:
        labelled = len(set(self._user_labels())) > 1
        for seed in scale.seeds(smoke=3, cpu=10, paper=20):
            for arm in (*DISTANCES, "pw-identity", *(["shuffled"] if labelled else [])):
                yield self.trial(self.source.name, arm, seed)

    def _start_trials(self, scale: Scale) -> Iterator[Trial]:
        n = scale.pick(smoke=40, cpu=80, paper=200)
        duplicates = scale.pick(smoke=False, cpu=False, paper=True)
        for noise in scale.pick(smoke=(0.05,), cpu=(0.0, 0.05, 0.2), paper=(0.0, 0.05, 0.2)):
            for seed in scale.seeds(smoke=2, cpu=10, paper=20):
                for shape in COPIES:
                    for arm in STARTS:
                        yield self.trial(shape, arm, seed, n=n, noise=noise, duplicates=duplicates)
        for seed in scale.seeds(smoke=5, cpu=40, paper=100):
            for pairs in PAIRS:
                for arm in STARTS:
                    yield self.trial(pairs, arm, seed, n=n)

    def _mean_trials(self, scale: Scale) -> Iterator[Trial]:
        k = scale.pick(smoke=20, cpu=60, paper=256)
        count = scale.pick(smoke=4, cpu=10, paper=10)
        for seed in scale.seeds(smoke=3, cpu=10, paper=20):
            for shape in MEANS:
                for arm in ("pw", "pw-pca", "pw-identity", "gw", "w"):
                    yield self.trial(shape, arm, seed, k=k, clouds=count)

    def _cluster_trials(self, scale: Scale) -> Iterator[Trial]:
        per_class = scale.pick(smoke=4, cpu=8, paper=60)
        names = list(DRAWS)[:1] if scale.name == "smoke" else list(DRAWS)
        for name in names:
            for seed in scale.seeds(smoke=3, cpu=10, paper=20):
                for arm in (*DISTANCES, "shuffled"):
                    yield self.trial(name, arm, seed, per_class=per_class)

    def _time_trials(self, scale: Scale) -> Iterator[Trial]:
        sizes = scale.pick(
            smoke=(20, 50, 200), cpu=(20, 50, 100, 200, 500), paper=(20, 50, 100, 200, 500, 1000)
        )
        for n in sizes:
            for seed in scale.seeds(smoke=5, cpu=10, paper=20):
                for arm in TIMED:
                    yield self.trial("seconds", arm, seed, n=n)

    # ----------------------------------------------------------------------------------- one cell

    def run(self, trial: Trial) -> Metrics:
        """One arm on one draw; what is measured depends on the data set."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # POT's convergence chatter
            if self.source is not None:
                return self._run_on_source(trial)
            if trial.dataset == "triples":
                return _run_triple(trial)
            if trial.dataset in COPIES or trial.dataset in PAIRS:
                return _run_start(trial)
            if trial.dataset in MEANS:
                return _run_mean(trial)
            if trial.dataset == "seconds":
                return _run_seconds(trial)
            return _run_clusters(trial)

    def group(self, trial: Trial):
        """Placebo and method share a distance matrix, kept by the process that computed it."""
        if trial.dataset in DRAWS or self.source is not None:
            return trial.dataset, trial.seed if self.source is None else 0
        return None

    # ------------------------------------------------------------------------- a person's clouds

    @classmethod
    def on(
        cls,
        source: UserData,
        *,
        labels: Annotated[
            Literal["auto", "folder", "name", "none"],
            "what groups the clouds: their folder, their name up to its last number, or nothing",
        ] = "auto",
        points: Annotated[int, "points per cloud (drawn by area from a mesh)"] = 100,
        group: Annotated[Literal["O", "SO"], "O allows reflections, SO does not"] = "O",
        clouds: Annotated[int, "use at most so many clouds"] = 60,
        vertices: Annotated[bool, "take a mesh's vertices instead of its surface"] = False,
    ) -> ProcrustesWasserstein:
        """The same distances on clouds of one's own: which tells the groups apart best?

        With labels, 1-nearest-neighbour accuracy and clustering; without, how much a distance
        moves when one of the two clouds is turned.
        """
        if points < 3 or clouds < LEAST_CLOUDS:
            raise InputError(
                f"points={points}, clouds={clouds}: at least 3 points and {LEAST_CLOUDS} clouds",
                "leave the options out for 100 and 60",
            )
        made = cls(labels, points, group, clouds, vertices)
        made.source = source
        names = made._user_labels()
        if len(names) < LEAST_CLOUDS:
            raise InputError(
                f"{', '.join(str(p) for p in source.paths)}: {len(names)} cloud(s) in all, at "
                f"least {LEAST_CLOUDS} are needed to compare",
                "one file is one cloud: name a folder of them",
            )
        if len(set(names)) > 1:
            made.measures = {k: cls.measures[k] for k in ("accuracy", "ari", "pair_seconds")}
        else:
            made.measures = {
                "pose_error": Measure(
                    "change of a distance when a cloud is turned",
                    "lower",
                    "share of its median",
                    bounds=NOT_NEGATIVE,
                ),
                "pair_seconds": cls.measures["pair_seconds"],
            }
        return made

    def _user_key(self) -> tuple[Any, ...]:
        """What the clouds depend on: files (and when they changed) and options."""
        files = tuple((str(f), f.stat().st_mtime_ns) for f in self.source.files)
        roots = tuple(map(str, self.source.paths))
        return roots, files, self.labels, self.points, self.clouds, self.vertices

    def _user_labels(self) -> list[str]:
        return _read_user_clouds(*self._user_key())[1]

    def _run_on_source(self, trial: Trial) -> Metrics:
        key = self._user_key()
        clouds, labels = _read_user_clouds(*key)
        if len(set(labels)) > 1:
            arm = "pw" if trial.arm == "shuffled" else trial.arm
            matrix, spent = _user_matrix(key, arm, self.rotations)
            if trial.arm == "shuffled":
                labels = list(trial.rng("placebo").permutation(labels))
            scores = _split_scores(matrix, np.array(labels), trial.rng("split"))
            return {**scores, "pair_seconds": spent, "matrix": matrix}
        return _pose_error(clouds, trial, self.rotations)

    # ----------------------------------------------------------------------------------- pictures

    def figures(self, results: Results) -> Mapping[str, go.Figure]:
        """What the results hold, drawn."""
        if self.source is not None:
            made = self._source_figures(results)
        else:
            made = {
                "Before and after alignment": _overlay_figure(results),
                "Noisy copies: who finds the pose": _success_figure(results),
                "Different shapes: excess by start": _excess_figure(results),
                "The objective, iteration by iteration": _history_figure(results),
                "A mean shape": _barycenter_figure(results),
                "Barycenters: distance to the true shape": _score_figure(results),
                "Digits on the map of their distances": _map_figure(results),
                "Clusters: agreement with the labels": _cluster_figure(results),
                "Seconds": _seconds_figure(results),
            }
        return {title: figure for title, figure in made.items() if figure is not None}

    def _source_figures(self, results: Results) -> dict[str, go.Figure | None]:
        headline = next(iter(self.measures))
        groups = {a: v for a in self.arms if not (v := results.values(headline, arm=a)).empty}
        label = self.measures[headline].label
        made = {label.capitalize(): interval_bars(groups, f"{label}, by arm.", y=label)}
        if headline == "accuracy":
            made["The map of PW distances"] = _user_map(results, self._user_labels())
        return made if groups else {}

    claims: ClassVar = {
        "C1": lambda results: _metric_axioms(results),
        "C2": lambda results: _start_matters(results),
        "C3": lambda results: _no_start_wins(results),
        "C4": lambda results: _mean_keeps_the_shape(results),
        "C5": lambda results: _clusters(results),
        "C6": lambda results: _cheaper(results),
    }


# ------------------------------------------------------------------------------------ data


def _unit(points: np.ndarray) -> np.ndarray:
    """Centred, of root-mean-square radius one: distances are shares of the radius."""
    points = points - points.mean(axis=0)
    return points / np.sqrt((points**2).sum(axis=1).mean())


def _turned(points: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """In a random pose, mirrored half of the time."""
    q, r = np.linalg.qr(rng.normal(size=(points.shape[1],) * 2))
    return points @ (q * np.sign(np.diag(r)))


@lru_cache(maxsize=1)
def _outlines() -> tuple[np.ndarray, ...]:
    return tuple(cloud.points for cloud in shapes.cells(min_points=40).clouds)


def _outline(n: int, rng: np.random.Generator) -> np.ndarray:
    return shapes.resample_outline(_outlines()[rng.integers(len(_outlines()))], n)


def _mesh(name: str, n: int, rng: np.random.Generator) -> np.ndarray:
    return shapes.mesh(name, n, int(rng.integers(2**31))).points


def _copy(trial: Trial) -> tuple[np.ndarray, np.ndarray]:
    """A real shape, and the same points with noise, shuffled, in a random pose."""
    rng, n = trial.rng("data"), trial["n"]
    X = _unit(_outline(n, rng) if trial.dataset == "cell" else _mesh(trial.dataset, n, rng))
    Y = X + trial["noise"] * rng.normal(size=X.shape) / np.sqrt(X.shape[1])
    if trial["duplicates"]:  # the paper's: 7 % of the points twice, 3 % three times
        repeats = rng.permutation(np.r_[np.full(round(0.07 * n), 2), np.full(round(0.03 * n), 3)])
        Y = np.repeat(Y, np.r_[repeats, np.ones(n - len(repeats), int)], axis=0)
    return X, _turned(rng.permutation(Y), rng)


def _different(trial: Trial) -> tuple[np.ndarray, np.ndarray]:
    """Two different real shapes, the second in a random pose."""
    rng, n = trial.rng("data"), trial["n"]
    if trial.dataset == "cell pairs":
        X, Y = _outline(n, rng), _outline(n, rng)
    else:
        names = rng.choice(shapes.MESHES, 2, replace=False)
        X, Y = (_mesh(str(name), n, rng) for name in names)
    return _unit(X), _turned(_unit(Y), rng)


# ------------------------------------------------------------------------------------ one cell


def _run_triple(trial: Trial) -> Metrics:
    """The axioms on one triple of clouds of different size and weights."""
    rng = trial.rng("data")
    clouds = [_unit(_outline(int(n), rng)) for n in rng.integers(8, 21, size=3)]
    weights = [rng.dirichlet(np.full(len(c), 5.0)) for c in clouds]
    options = {"init": "global", "effort": 2} if trial.arm == "pw" else {"init": "identity"}

    def solve(i: int, j: int, Y: np.ndarray | None = None, order: Any = slice(None)) -> PWResult:
        second = clouds[j] if Y is None else Y
        return procrustes_wasserstein(
            clouds[i], second[order], weights[i], weights[j][order], **options
        )

    order = rng.permutation(len(clouds[0]))
    itself = solve(0, 0, _turned(clouds[0], rng) + rng.normal(size=2), order)
    sides = [solve(0, 1), solve(1, 2), solve(0, 2)]
    back = solve(1, 0)
    low, high = zip(*(_bounds(r) for r in sides), strict=True)
    longest = max(range(3), key=low.__getitem__)
    return {
        "symmetry": max(_bounds(back)[0] - high[0], low[0] - _bounds(back)[1]),
        "itself": itself.distance,
        "triangle": low[longest] - (sum(high) - high[longest]),
        "squared": sides[0].squared,
    }


def _bounds(result: PWResult) -> tuple[float, float]:
    """Between which the true distance lies (certified), or taken at its word (identity)."""
    gap = result.gap or 0.0
    return float(np.sqrt(max(result.squared - gap, 0.0))), result.distance


def _run_start(trial: Trial) -> Metrics:
    """The objective one start reaches; the method's arm also brings the best known one."""
    X, Y = _copy(trial) if trial.dataset in COPIES else _different(trial)
    seed = int(trial.rng("start").integers(2**31))
    start = time.process_time()
    result = procrustes_wasserstein(X, Y, init=STARTS[trial.arm], random_state=seed)
    spent = time.process_time() - start
    metrics: dict[str, Any] = {"squared": result.squared, "pair_seconds": spent}
    if trial.arm == "pw":
        harder = procrustes_wasserstein(X, Y, effort=1)
        metrics["best_known"] = min(result.squared, harder.squared)
    if trial.seed == 0:
        metrics["history"] = result.history
        if trial.arm == "pw":
            plan = result.plan.tocoo()
            metrics |= {"X": X, "Y": Y, "aligned": result.transform(Y)}
            metrics["pairs"] = np.stack([plan.row, plan.col])
    return metrics


def _run_mean(trial: Trial) -> Metrics:
    """A barycenter of noisy, resampled, turned copies, scored against the shape they came from."""
    rng, k = trial.rng("data"), trial["k"]
    if trial.dataset == "cell mean":
        truth = _unit(_outline(8 * k, rng))
        draws = [truth[rng.integers(8) :: 8] for _ in range(trial["clouds"])]
        truth = truth[::4]
    else:
        truth = _unit(_mesh("ant", 4 * k, rng))
        draws = [rng.permutation(truth)[:k] for _ in range(trial["clouds"])]
        truth = truth[::2]
    noise = 0.1 / np.sqrt(truth.shape[1])
    clouds = [_turned(X + noise * rng.normal(size=X.shape), rng) for X in draws]
    start = time.process_time()
    support, objective = _mean_shape(trial.arm, clouds, k)
    spent = time.process_time() - start
    metrics: dict[str, Any] = {
        "score": procrustes_wasserstein(support, truth, effort=1).squared,
        "mean_seconds": spent,
        "objective": objective,
    }
    if trial.seed == 0:
        metrics["support"] = support
        metrics["aligned"] = np.stack([c @ procrustes_wasserstein(support, c).P for c in clouds])
    return metrics


def _mean_shape(arm: str, clouds: list[np.ndarray], k: int) -> tuple[np.ndarray, np.ndarray]:
    if arm == "w":
        return baselines.wasserstein_barycenter(clouds, k), np.empty(0)
    if arm == "gw":
        return baselines.gromov_barycenter(clouds, k), np.empty(0)
    fitted = PWBarycenter(init=STARTS[arm]).fit(clouds)
    return fitted.support_, fitted.objective_


def _run_seconds(trial: Trial) -> Metrics:
    """CPU seconds of one pair (best of three where that is quick)."""
    X, Y = _different(replace(trial, dataset="cell pairs" if trial.seed % 2 else "mesh pairs"))
    best = np.inf
    for _ in range(3 if trial["n"] <= 100 else 1):
        start = time.process_time()
        _distance(trial.arm, X, Y)
        best = min(best, time.process_time() - start)
    return {"pair_seconds": best}


def _distance(arm: str, X: Any, Y: Any, group: str = "O") -> float:
    if arm in STARTS:
        return procrustes_wasserstein(X, Y, init=STARTS[arm], group=group).distance
    if arm == "pca-w":
        return baselines.pca_wasserstein(X, Y, group)
    return (baselines.gromov_wasserstein if arm == "gw" else baselines.wasserstein)(X, Y)


def _run_clusters(trial: Trial) -> Metrics:
    arm = "pw" if trial.arm == "shuffled" else trial.arm
    matrix, spent = _cluster_matrix(replace(trial, arm=arm))
    _, labels = _cluster_data(trial)
    if trial.arm == "shuffled":
        labels = trial.rng("placebo").permutation(labels)
    metrics = {
        "ari": _clustering_ari(matrix, labels),
        "accuracy": _neighbour_accuracy(matrix, labels),
        "pair_seconds": spent,
    }
    if trial.seed == 0:
        metrics |= {"map": _scaled(matrix), "classes": _codes(labels)}
    return metrics


def _cluster_data(trial: Trial) -> tuple[list[np.ndarray], np.ndarray]:
    """Clouds in random poses, ``per_class`` of each class."""
    rng, per_class = trial.rng("data"), trial["per_class"]
    if trial.dataset == "cells by treatment":
        drawn = shapes.cells(n_points=40, min_points=40)
        labels = drawn.labels["treatment"]
        chosen = np.concatenate(
            [rng.choice(np.flatnonzero(labels == c), per_class, replace=False)
             for c in np.unique(labels)]
        )  # fmt: skip
        clouds, labels = [drawn.clouds[i].points for i in chosen], labels[chosen]
    else:
        seed = int(rng.integers(2**31))
        drawn = shapes.digits(DRAWS[trial.dataset], per_class, random_state=seed)
        clouds, labels = [c.points for c in drawn.clouds], drawn.labels["digit"]
    return [_turned(_unit(c), rng) for c in clouds], labels


@lru_cache(maxsize=2)
def _cluster_matrix(trial: Trial) -> tuple[np.ndarray, float]:
    return _matrix(trial.arm, _cluster_data(trial)[0])


def _matrix(arm: str, clouds: list[Any], group: str = "O") -> tuple[np.ndarray, float]:
    """All distances of one arm, and the CPU seconds per pair."""
    start = time.process_time()
    if arm in STARTS:
        matrix = pw_pairwise(clouds, init=STARTS[arm], group=group)
    else:
        pairs = combinations(clouds, 2)
        matrix = squareform([_distance(arm, x, y, group) for x, y in pairs])
    count = len(clouds) * (len(clouds) - 1) / 2
    return matrix, (time.process_time() - start) / count


# ------------------------------------------------------------------------------------ scores


def _codes(labels: np.ndarray) -> np.ndarray:
    return np.unique(labels, return_inverse=True)[1].astype(float)


def _neighbour_accuracy(matrix: np.ndarray, labels: np.ndarray) -> float:
    """Share of clouds whose nearest other cloud has their label."""
    others = matrix + np.diag(np.full(len(matrix), np.inf))
    return float(np.mean(labels[others.argmin(axis=1)] == labels))


def _clustering_ari(matrix: np.ndarray, labels: np.ndarray) -> float:
    """Spectral clustering on exp(-D^2 / 2 med^2), against the labels."""
    from sklearn.cluster import SpectralClustering
    from sklearn.metrics import adjusted_rand_score

    median = np.median(matrix[np.triu_indices(len(matrix), 1)])
    affinity = np.exp(-((matrix / median) ** 2) / 2)
    clusters = SpectralClustering(
        len(np.unique(labels)), affinity="precomputed", assign_labels="kmeans", random_state=0
    ).fit_predict(affinity)
    return float(adjusted_rand_score(labels, clusters))


def _scaled(matrix: np.ndarray) -> np.ndarray:
    """Classical scaling: planar coordinates whose distances come close to the matrix."""
    n = len(matrix)
    centring = np.eye(n) - 1.0 / n
    values, vectors = np.linalg.eigh(-0.5 * centring @ matrix**2 @ centring)
    return vectors[:, :-3:-1] * np.sqrt(values[:-3:-1].clip(min=0.0))


def _split_scores(
    matrix: np.ndarray, labels: np.ndarray, rng: np.random.Generator
) -> dict[str, float]:
    """Accuracy of queries against references, and clustering of the queries, half each."""
    half = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        half[members[: (len(members) + 1) // 2]] = True
    nearest = matrix[np.ix_(~half, half)].argmin(axis=1)
    accuracy = float(np.mean(labels[half][nearest] == labels[~half]))
    kept = rng.permutation(len(labels))[: max(3, int(0.8 * len(labels)))]
    ari = _clustering_ari(matrix[np.ix_(kept, kept)], labels[kept])
    return {"accuracy": accuracy, "ari": ari}


# --------------------------------------------------------------------------- a person's clouds


@lru_cache(maxsize=2)
def _read_user_clouds(
    roots: tuple[str, ...],
    files: tuple[tuple[str, int], ...],
    how: str,
    points: int,
    at_most: int,
    vertices: bool,
) -> tuple[list[PointCloud], list[str]]:
    """Clouds and their labels (one name for all where there are none)."""
    del files  # part of the cache's key: files that change are read again
    options = {"n_points": points, "sample": "vertices" if vertices else "surface"}
    clouds: list[PointCloud] = []
    for root in map(Path, roots):
        clouds += read_clouds(root if root.is_dir() else [root], **options)
    dimensions = sorted({c.points.shape[1] for c in clouds})
    if len(dimensions) > 1:
        raise InputError(
            f"{', '.join(roots)}: clouds of {' and '.join(map(str, dimensions))} coordinates "
            "per point",
            "all clouds need the same dimension",
        )
    kept = np.sort(np.random.default_rng(0).permutation(len(clouds))[:at_most])
    clouds = [clouds[i] for i in kept]
    return clouds, _labels(clouds, how)


def _labels(clouds: list[PointCloud], how: str) -> list[str]:
    folders = [c.label for c in clouds]
    names = [re.sub(r"[\W_]*\d+$", "", Path(c.name).stem) for c in clouds]
    usable = [2 <= len(set(found)) <= len(clouds) / 2 for found in (folders, names)]
    if how == "folder" or (how == "auto" and usable[0]):
        return folders
    if how == "name" or (how == "auto" and usable[1]):
        return names
    return [""] * len(clouds)


@lru_cache(maxsize=8)
def _user_matrix(key: tuple[Any, ...], arm: str, group: str) -> tuple[np.ndarray, float]:
    return _matrix(arm, _read_user_clouds(*key)[0], group)


def _pose_error(clouds: list[PointCloud], trial: Trial, group: str) -> Metrics:
    """How far distances of random pairs move when the second cloud is turned."""
    rng = trial.rng("pairs")
    before, after, spent = [], [], 0.0
    for _ in range(20):
        x, y = (clouds[i] for i in rng.choice(len(clouds), 2, replace=False))
        q = _turned(np.eye(y.points.shape[1]), rng)
        if group == "SO":
            q[:, 0] *= np.sign(np.linalg.det(q))
        start = time.process_time()
        before.append(_distance(trial.arm, x, y, group))
        after.append(_distance(trial.arm, x, replace(y, points=y.points @ q), group))
        spent += time.process_time() - start
    scale = max(float(np.median(before)), np.finfo(float).tiny)
    change = float(np.mean(np.abs(np.subtract(after, before)))) / scale
    return {"pose_error": change, "pair_seconds": spent / 40}


# ------------------------------------------------------------------------------------ claims


def _objectives(results: Results, datasets: tuple[str, ...]) -> pd.DataFrame:
    """One row a draw: the squared distance of every start, and the best known one."""
    frame = results.where(dataset=list(datasets)).frame
    if frame.empty or "best_known" not in frame:
        return pd.DataFrame()
    cell = [
        "dataset",
        "seed",
        *(c for c in ("n", "noise") if c in frame and frame[c].notna().any()),
    ]
    table = frame.pivot_table(index=cell, columns="arm", values="squared")
    known = frame.dropna(subset=["best_known"]).groupby(cell)["best_known"].min()
    table["best"] = pd.concat([table.min(axis=1), known], axis=1).min(axis=1)
    return table.dropna()


def _successes(results: Results) -> pd.DataFrame:
    """1 where a start came within 1 % of the best known objective, else 0."""
    table = _objectives(results, COPIES)
    if table.empty:
        return table
    limit = FOUND * table["best"] + EXACT
    return table.drop(columns="best").le(limit, axis=0).astype(float)


def _excess(results: Results) -> pd.DataFrame:
    """Percent above the best known objective."""
    table = _objectives(results, PAIRS)
    if table.empty:
        return table
    return 100 * (table.drop(columns="best").div(table["best"], axis=0) - 1)


def _metric_axioms(results: Results) -> Verdict:
    part = results.where(dataset="triples", arm="pw").frame
    if part.empty:
        return needs_more("No triple has finished.")
    parts = [
        never(int((part[name] > slack).sum()), len(part), what)
        for name, slack, what in (
            ("triangle", EXACT, "the triangle inequality, beyond the certificate"),
            ("symmetry", EXACT, "symmetry, beyond the certificate"),
            # a root of rounding errors of 1e-13
            ("itself", 1e-6, "zero distance to a turned, shifted, shuffled copy"),
        )
    ]
    local = results.where(dataset="triples", arm="pw-identity").frame
    note = ""
    if len(local):
        broken = int((local[["triangle", "symmetry", "itself"]] > 1e-6).any(axis=1).sum())
        note = (
            f"The local solver from the identity breaks an axiom in {broken} of {len(local)} "
            "triples: the axioms belong to the minimum, not to whatever a solver returns."
        )
    return all_of(*parts, sentence=note)


def _start_matters(results: Results) -> Verdict:
    found = _successes(results)
    if found.empty or not {*STRUCTURED, "pw-identity"} <= set(found):
        return needs_more("Not every start has finished on the noisy copies.")
    rates = found.mean()
    best = max(STRUCTURED, key=rates.__getitem__)
    words = ", ".join(f"{arm} {rates[arm]:.2f}" for arm in STARTS if arm in rates)
    return all_of(
        at_least(
            found[best] - found["pw-identity"], 0.0, f"the success rate of {best} minus identity's"
        ),
        sentence=f"Found the pose: {words}.",
    )


def _no_start_wins(results: Results) -> Verdict:
    excess = _excess(results)
    singles = [arm for arm in STARTS if arm != "pw"]
    if excess.empty or not {"pw", *singles} <= set(excess):
        return needs_more("Not every start has finished on the pairs.")
    means = excess.mean()
    best = min(singles, key=means.__getitem__)
    words = ", ".join(f"{arm} {means[arm]:.2f} %" for arm in STARTS)
    return all_of(
        at_least(excess["pw-pca"], 0.5, "the mean excess of the PCA start (%)"),
        greater_than(
            excess[best], excess["pw"], what=f"{best}'s excess minus the portfolio's (points)"
        ),
        sentence=f"Mean excess: {words}.",
    )


def _mean_keeps_the_shape(results: Results) -> Verdict:
    parts = []
    for dataset in MEANS:
        for rival, name in (("w", "Wasserstein"), ("gw", "Gromov-Wasserstein")):
            pair = results.paired("score", "pw-pca", rival, dataset=dataset)
            what = f"{name}'s PW² to the shape minus PW's ({dataset})"
            parts.append(less_than(*pair, what=what))
    scores = results.where(dataset=list(MEANS)).frame
    words = ""
    if "score" in scores:
        table = scores.groupby(["dataset", "arm"])["score"].mean()
        words = "Mean scores: " + ", ".join(f"{d}/{a} {v:.4f}" for (d, a), v in table.items()) + "."
    return all_of(*parts, sentence=words)


def _clusters(results: Results) -> Verdict:
    names = [name for name in DRAWS if results.has(dataset=name)]
    if not names:
        return needs_more("No clustering has finished.")
    part = results.where(dataset=names)
    own, other = part.paired("ari", "pw", "w")
    parts = [greater_than(own, other, what="adjusted Rand index, PW minus Wasserstein")]
    own, other = part.paired("ari", "pw", "gw")
    # "matches": not worse by more than .05
    parts.append(
        greater_than(own, other, -0.05, what="adjusted Rand index, PW minus Gromov-Wasserstein")
    )
    placebo = part.values("ari", arm="shuffled")
    note = f"With permuted labels it is {placebo.mean():.3f}." if len(placebo) else ""
    return all_of(*parts, sentence=note)


def _log_ratio(results: Results, n: int, arm: str = "pw") -> pd.Series:
    gw, pw = results.paired("pair_seconds", "gw", arm, dataset="seconds", n=n)
    return np.log10(gw / pw)


def _cheaper(results: Results) -> Verdict:
    part = results.where(dataset="seconds")
    sizes = sorted(part.frame["n"].unique()) if len(part) else []
    if len(sizes) < 2:
        return needs_more("Two sizes at least are needed.")
    largest = int(sizes[-1])
    middle = next((int(n) for n in sizes if n >= largest / 5), largest)
    words = ", ".join(
        f"n={n}: {10 ** _log_ratio(results, int(n)).mean():.2g} "
        f"({10 ** _log_ratio(results, int(n), 'pw-pca').mean():.2g} from the PCA start alone)"
        for n in sizes
    )
    return all_of(
        at_least(_log_ratio(results, largest), 0.0, f"log10 of GW / PW seconds at n={largest}"),
        greater_than(
            _log_ratio(results, largest).to_numpy(),
            _log_ratio(results, middle).to_numpy(),
            what=f"its growth from n={middle} to n={largest}",
        ),
        sentence=f"GW / PW seconds (geometric means): {words}.",
    )


# ------------------------------------------------------------------------------------ pictures


def _first(results: Results, curve: str, **conditions: Any) -> Any:
    """The first outcome that holds a curve, or None."""
    part = results.where(**conditions).outcomes
    return next((o for o in part if curve in o.curves), None)


def _overlay_figure(results: Results) -> go.Figure | None:
    outcome = _first(results, "aligned", dataset="cell", arm="pw")
    if outcome is None:
        return None
    curves = outcome.curves
    pairs = tuple(curves["pairs"].astype(int))
    figure = overlay(
        curves["X"], curves["Y"], curves["aligned"], pairs, ("outline", "noisy turned copy")
    )
    return style(
        figure,
        "A cell outline and a noisy copy in another pose, before and after alignment; grey "
        "segments join matched points. Unit: the outline's root-mean-square radius.",
        height=460,
    )


def _success_figure(results: Results) -> go.Figure | None:
    found = _successes(results)
    if found.empty:
        return None
    figure = new_figure(
        "Share of draws in which a start comes within 1 % of the best known objective, on noisy "
        "turned copies of four real shapes; whiskers are 1.96 standard errors. Starting from the "
        "pose as it is fails most of the time.",
        x="noise (share of the radius)",
        y="found",
    )
    palette = colours(STARTS)
    level = found.index.get_level_values("noise") if "noise" in found.index.names else None
    groups = found.groupby(level) if level is not None else found.groupby(lambda _: 0.0)
    mean, spread, count = groups.mean(), groups.std(), groups.size()
    for arm in (a for a in STARTS if a in found):
        figure.add_bar(
            x=[str(v) for v in mean.index],
            y=mean[arm],
            name=arm,
            marker_color=palette[arm],
            error_y={"array": 1.96 * spread[arm] / np.sqrt(count), "thickness": 1},
        )
    return figure


def _excess_figure(results: Results) -> go.Figure | None:
    excess = _excess(results)
    if excess.empty:
        return None
    groups = {arm: excess[arm] for arm in STARTS if arm in excess}
    figure = interval_bars(
        groups,
        "Excess over the best known objective on pairs of different real shapes, by start: mean "
        "with its 95 % interval, and every pair.",
        y="excess, %",
        palette=colours(STARTS),
    )
    figure.update_yaxes(type="linear", rangemode="tozero")
    return figure


def _history_figure(results: Results) -> go.Figure | None:
    palette = colours(STARTS)
    figure = new_figure(
        "One pair of different cells: the objective after every iteration, for the start that "
        "won in each strategy. Every curve falls; they end in different local minima.",
        x="iteration",
        y="squared distance",
    )
    for arm in STARTS:
        outcome = _first(results, "history", dataset="cell pairs", arm=arm)
        if outcome is not None:
            history = outcome.curves["history"]
            figure.add_scatter(
                x=np.arange(1, len(history) + 1),
                y=history,
                name=arm,
                mode="lines+markers",
                line={"color": palette[arm]},
            )
    return figure if figure.data else None


def _barycenter_figure(results: Results) -> go.Figure | None:
    outcome = _first(results, "support", dataset="cell mean", arm="pw")
    if outcome is None:
        return None
    figure = barycenter_overlay(outcome.curves["support"], list(outcome.curves["aligned"]))
    return style(
        figure,
        "The PW barycenter of noisy, resampled, turned copies of a cell outline, over the aligned "
        "copies. Unit: the outline's root-mean-square radius.",
        height=460,
    )


def _score_figure(results: Results) -> go.Figure | None:
    part = results.where(dataset=list(MEANS))
    if "score" not in part.frame:
        return None
    arms = ("pw", "pw-pca", "pw-identity", "gw", "w")
    palette = colours(arms)
    figure = new_figure(
        "PW² of a barycenter to the shape its inputs came from (lower is better), every seed. "
        "W averages poses away; GW passes through a distance matrix.",
        y="PW² to the true shape",
        log_y=True,
    )
    for arm in arms:
        values = part.values("score", arm=arm)
        if len(values):
            figure.add_box(
                x=values.index.get_level_values("dataset"),
                y=values,
                name=arm,
                boxpoints="all",
                marker_color=palette[arm],
            )
    figure.update_layout(boxmode="group")
    figure.update_yaxes(dtick=1)
    return figure


def _map_figure(results: Results) -> go.Figure | None:
    name = next(iter(DRAWS))
    outcome = _first(results, "map", dataset=name, arm="pw")
    if outcome is None:
        return None
    names = [str(d) for d in DRAWS[name]]
    return _map(
        outcome.curves["map"],
        [names[int(code)] for code in outcome.curves["classes"]],
        "Digits in random poses, laid out so that distances on the page come close to PW "
        "distances (classical scaling), coloured by label.",
    )


def _user_map(results: Results, labels: list[str]) -> go.Figure | None:
    outcome = _first(results, "matrix", arm="pw")
    if outcome is None:
        return None
    return _map(
        _scaled(outcome.curves["matrix"]),
        labels,
        "Your clouds, laid out so that distances on the page come close to PW distances "
        "(classical scaling), coloured by label.",
    )


def _map(points: np.ndarray, labels: list[str], caption: str) -> go.Figure:
    figure = new_figure(caption, height=460)
    palette = colours(sorted(set(labels)))
    for label, colour in palette.items():
        mine = np.array([name == label for name in labels])
        figure.add_scatter(
            x=points[mine, 0],
            y=points[mine, 1],
            name=label or "clouds",
            mode="markers",
            marker={"color": colour, "size": 9},
        )
    figure.update_yaxes(scaleanchor="x", scaleratio=1)
    return figure


def _cluster_figure(results: Results) -> go.Figure | None:
    arms = (*DISTANCES, "shuffled")
    palette = colours(arms)
    figure = new_figure(
        "Adjusted Rand index of spectral clustering against the labels, clouds in random poses: "
        "every draw, by distance. Permuted labels are the placebo.",
        y="adjusted Rand index",
    )
    part = results.where(dataset=list(DRAWS))
    for arm in arms:
        values = part.values("ari", arm=arm)
        if len(values):
            figure.add_box(
                x=values.index.get_level_values("dataset"),
                y=values,
                name=arm,
                boxpoints="all",
                marker_color=palette[arm],
            )
    figure.update_layout(boxmode="group")
    return figure if figure.data else None


def _seconds_figure(results: Results) -> go.Figure | None:
    part = results.where(dataset="seconds")
    palette = colours(TIMED)
    figure = new_figure(
        "CPU seconds per pair of real shapes against the number of points: median and 10-90 % "
        "range, one thread, the same stopping rule for GW as in the paper's code.",
        x="points per cloud",
        y="CPU seconds",
        log_x=True,
        log_y=True,
    )
    for arm in TIMED:
        frame = part.where(arm=arm).frame
        if frame.empty or "pair_seconds" not in frame:
            continue
        table = frame.pivot_table(index="seed", columns="n", values="pair_seconds").dropna()
        if len(table):
            add_ribbon(figure, table.columns, table.to_numpy(), arm, palette[arm], centre="median")
            figure.update_xaxes(tickvals=list(table.columns))
    figure.update_yaxes(dtick=1, exponentformat="power")
    return figure if figure.data else None
