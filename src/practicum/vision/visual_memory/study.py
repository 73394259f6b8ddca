"""The study of visual-memory: votes, adding and forgetting classes, hygiene, growth, strangers."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from practicum.data.images import file_key, load_image, read_images
from practicum.data.kinds import UserData
from practicum.errors import InputError
from practicum.models import vision
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
    needs_more,
    never,
)
from practicum.study.plots import add_ribbon, colours, interval_bars, new_figure, style
from practicum.vision.visual_memory import datasets, hygiene
from practicum.vision.visual_memory.memory import VisualMemory
from practicum.vision.visual_memory.search import nearest, normalised
from practicum.vision.visual_memory.votes import VOTES, accuracy_curves, confidence

LARGE = ("elpv, 4 classes", "elpv, 2 classes")
TOP = 100  # the largest k that is looked at
NOISE = (0, 20, 40)  # per cent of wrong labels
SIZES = (10, 20, 50, 100, 200, 400, 800, 1200)
EMOJI_SIZES = (50, 100, 200, 400, 800, 1400)
VOTE_OF = {"memory": "rank", "softmax": "softmax", "distance": "distance", "plurality": "plurality"}
ELPV = "it needs the photographs of solar cells: pip install --no-deps elpv-dataset"
EMOJI = "it needs emoji of three vendors: practicum use visual-memory fetch"


# --- data ----------------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def _data(name: str, size: int) -> datasets.Labelled:
    if name == "digits":
        return datasets.digits()
    return datasets.elpv(name == "elpv, 2 classes", size)


@lru_cache(maxsize=2)
def _user_images(
    source: UserData, encoder: str, size: int, path_column: str, label_column: str
) -> datasets.Labelled:
    """Features of a person's pictures; what cannot be read is said and left out."""
    table = read_images(
        source.path, path_column=path_column or None, label_column=label_column or None
    )
    if table.labels is None:
        raise InputError(
            f"{source.path}: nothing says what is on the {len(table)} pictures",
            "put each class in a folder of its name, or give a table of paths and labels",
        )
    made, problems = vision.get(encoder, size=size or None), {}
    loaders = [(lambda path=path: load_image(path)) for path in table.paths]
    X = made.encode(loaders, [file_key(p) for p in table.paths], problems=problems)
    if problems:
        first = next(iter(problems.values()))
        warnings.warn(
            f"left out {len(problems)} of {len(table)} images, the first: {first}",
            UserWarning,
            stacklevel=2,
        )
    kept = [i for i in range(len(table)) if i not in problems]
    if not kept:
        raise InputError(f"{source.path}: none of {len(table)} images can be read: {first}")
    names, y = np.unique([table.labels[i] for i in kept], return_inverse=True)
    return datasets.Labelled(X[kept], y, tuple(names.tolist()))


@dataclass(frozen=True, eq=False)
class Task:
    """A memory to be taught, queries to be asked, and their neighbours (which no label changes)."""

    X: np.ndarray
    y: np.ndarray
    Q: np.ndarray
    truth: np.ndarray

    @cached_property
    def near(self) -> tuple[np.ndarray, np.ndarray]:
        """Distances and rows, of the queries."""
        return nearest(self.queries, self.rows, min(TOP, len(self.rows) - 1))

    @cached_property
    def own(self) -> tuple[np.ndarray, np.ndarray]:
        """Distances and rows, of the rows themselves with each left out."""
        d, index = nearest(self.rows, self.rows, min(TOP, len(self.rows) - 1) + 1)
        index, d = hygiene.without_self(index, d, np.arange(len(self.rows)))
        return d, index

    @cached_property
    def rows(self) -> np.ndarray:
        """Of unit length."""
        return normalised(self.X)

    @cached_property
    def queries(self) -> np.ndarray:
        """Of unit length."""
        return normalised(self.Q)

    def relabelled(self, y: np.ndarray) -> Task:
        """Other labels for the same rows; neighbours that were found stay."""
        other = replace(self, y=y)
        other.__dict__.update({k: v for k, v in self.__dict__.items() if k in _FOUND})
        return other


_FOUND = ("near", "own", "rows", "queries")


def _split(y: np.ndarray, trial: Trial, share: float = 0.25) -> tuple[np.ndarray, np.ndarray]:
    """A quarter of each class for testing."""
    rng, test = trial.rng("split"), []
    for c in np.unique(y):
        own = rng.permutation(np.flatnonzero(y == c))
        test.append(own[: max(1, round(share * len(own)))])
    held = np.sort(np.concatenate(test))
    return np.setdiff1d(np.arange(len(y)), held), held


@lru_cache(maxsize=2)
def _held_out(data: datasets.Labelled, cell: Trial) -> Task:
    train, test = _split(data.y, cell)
    task = Task(data.X[train], data.y[train], data.X[test], data.y[test])
    _ = task.near, task.own  # found once for all arms
    return task


def _task(data: datasets.Labelled, trial: Trial) -> Task:
    """The same for every arm and setting of a data set and seed."""
    return _held_out(data, replace(trial, arm="", params=()))


# --- arms ----------------------------------------------------------------------------------------


def _by_votes(arm: str, task: Task) -> tuple[float, dict[str, Any]]:
    """Accuracy by k of one vote; the k that is used has the best accuracy leaving one out."""
    reliability, out = None, {}
    if arm in ("soft", "hard"):
        first = task.own[1][:, :10]
        wrong, correct = hygiene.count_votes(first, task.y[first] == task.y[:, None], len(task.y))
        keep = wrong - correct < 1
        if arm == "soft":
            reliability = hygiene.soft_weights(wrong)
        elif len(np.unique(task.y[keep])) > 1:
            task = Task(task.X[keep], task.y[keep], task.Q, task.truth)
    (d, index), (own, at), y = task.near, task.own, task.y
    vote = VOTE_OF.get(arm, "rank")
    weigh = {} if reliability is None else {"reliability": reliability[index]}
    loo = {} if reliability is None else {"reliability": reliability[at]}
    curve = accuracy_curves(d, y[index], task.truth, [vote], **weigh)[vote]
    chosen = int(accuracy_curves(own, y[at], y, [vote], **loo)[vote].argmax())
    if arm == "memory":
        every = accuracy_curves(d, y[index], task.truth)
        out = {f"curve_{v}": _padded(every[v]) for v in VOTES}
        out["rank_accuracy"] = _padded(hygiene.rank_accuracy(y[index], task.truth))
        out |= _calibration(y[index], task.truth)
    return float(curve[chosen]), out | {"k": chosen + 1, "best": 100 * float(curve.max())}


def _padded(curve: np.ndarray) -> np.ndarray:
    """To k = 100: memories with fewer rows keep their last value."""
    return np.concatenate([curve, np.full(TOP - len(curve), curve[-1])])


def _calibration(codes: np.ndarray, truth: np.ndarray) -> dict[str, np.ndarray]:
    """Accuracy by bins of width 0.05 of the share of the plurality among 20 neighbours."""
    near = codes[:, : min(20, codes.shape[1])]
    sure, _ = confidence(near)
    right = np.array([np.bincount(row).argmax() for row in near]) == truth
    bins = np.clip(np.rint(sure * 20).astype(int), 1, 20) - 1  # of 1, 2, ..., 20 in 20
    count = np.bincount(bins, minlength=20)
    with np.errstate(invalid="ignore"):
        return {"calibration": np.bincount(bins, right, minlength=20) / count}


def _by_scikit(arm: str, task: Task, rng: np.random.Generator) -> tuple[float, dict[str, Any]]:
    """Baselines, each tuned on a quarter of the memory held out."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y = task.X, task.y
    if arm == "logistic":
        grid: list[Any] = [1e-4, 1e-3, 1e-2, 1e-1, 1.0]
        make = lambda c: make_pipeline(  # noqa: E731
            StandardScaler(), LogisticRegression(C=c, max_iter=500)
        )
    else:
        grid = [k for k in (1, 3, 5, 10, 20, 50) if k <= 0.7 * len(y)] or [1]
        weights = "uniform" if arm == "knn" else "distance"
        make = lambda k: KNeighborsClassifier(k, weights=weights)  # noqa: E731
    order = rng.permutation(len(y))
    cut = len(y) // 4
    test, train = order[:cut], order[cut:]
    score = [-1.0] * len(grid)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of convergence: more steps do not change the choice
        if len(np.unique(y[train])) > 1:
            score = [make(g).fit(X[train], y[train]).score(X[test], y[test]) for g in grid]
        best = grid[int(np.argmax(score))]
        model = make(best).fit(X, y)
    return float(model.score(task.Q, task.truth)), {"tuned": float(best)}


def _by_means(task: Task) -> float:
    """The nearest class mean, by cosine."""
    classes = np.unique(task.y)
    means = normalised(np.stack([task.rows[task.y == c].mean(axis=0) for c in classes]))
    return float((classes[nearest(task.queries, means, 1)[1][:, 0]] == task.truth).mean())


def _accuracy(task: Task, trial: Trial) -> Metrics:
    """Any arm."""
    arm, more = trial.arm, {}
    if arm == "shuffled":  # the placebo: the same rows, their labels exchanged
        task = task.relabelled(trial.rng("shuffle").permutation(task.y))
    if arm == "nearest":
        score = float((task.y[task.near[1][:, 0]] == task.truth).mean())
    elif arm == "centroid":
        score = _by_means(task)
    elif arm in ("knn", "knn-distance", "logistic"):
        score, more = _by_scikit(arm, task, trial.rng("tune"))
    else:
        score, more = _by_votes(arm, task)
    return {"accuracy": 100 * score, **more}


def _noisy(trial: Trial) -> Metrics:
    """V4: a share of the memory's labels is wrong, the queries' are right."""
    task, rng = _task(datasets.digits(), trial), trial.rng("noise")
    y = task.y.copy()
    hit = rng.permutation(len(y))[: round(trial["noise"] / 100 * len(y))]
    y[hit] = (y[hit] + rng.integers(1, 10, len(hit))) % 10
    return _accuracy(task.relabelled(y), trial)


def _added_class(trial: Trial) -> Metrics:
    """V2: accuracy on the old classes before and after one is added, and on the new one."""
    data, old = _with_new_class(trial)
    train, test = _split(data.y, trial)
    known, new = train[old[train]], train[~old[train]]
    ask, asked = test[old[test]], test[~old[test]]
    if trial.arm == "logistic":

        def probe(rows: np.ndarray, q: np.ndarray) -> float:
            task = Task(data.X[rows], data.y[rows], data.X[q], data.y[q])
            return _by_scikit("logistic", task, trial.rng("tune"))[0]

        first, after = probe(known, ask), [probe(train, ask), probe(train, asked)]
    else:
        memory = VisualMemory(k=20)
        memory.add(data.X[known], labels=data.y[known])
        first = (memory.predict(data.X[ask]) == data.y[ask]).mean()
        memory.add(data.X[new], labels=data.y[new])
        after = [(memory.predict(data.X[q]) == data.y[q]).mean() for q in (ask, asked)]
    return {
        "old_before": 100 * float(first),
        "old_after": 100 * float(after[0]),
        "new_after": 100 * float(after[1]),
    }


def _with_new_class(trial: Trial) -> tuple[datasets.Labelled, np.ndarray]:
    """The data, and which rows are of the old classes."""
    if trial.dataset.startswith("emoji"):
        data = datasets.emoji()["noto"]
        category = np.array([name.split("/")[0] for name in data.names])
        return data, category[data.y] != trial["new"]
    data = datasets.digits()
    return data, data.y != int(trial["new"])


def _forgotten(trial: Trial) -> Metrics:
    """V3: after erasing, every answer is that of a memory that never held the rows."""
    data, rng = datasets.digits(), trial.rng()
    order = rng.permutation(len(data.y))
    train, test = order[:1200], order[-500:]
    X, y = data.X[train], data.y[train]
    if trial["kind"] == "class":
        gone = np.flatnonzero(y == rng.integers(10))
    else:
        gone = rng.choice(len(y), size=trial["rows"], replace=False)
    left = np.setdiff1d(np.arange(len(y)), gone)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the last row of a class goes: that is the point
        with VisualMemory(Path(folder) / "m.vm", k=50) as memory:
            ids = memory.add(X, labels=y)
            start = time.perf_counter()
            receipt = memory.remove([ids[i] for i in gone])
            spent = time.perf_counter() - start
            hits = len(memory.verify_erased(X[gone]).hits)
            rebuilt = VisualMemory(k=50)
            rebuilt.add(X[left], labels=y[left], ids=[ids[i] for i in left])
            differ = _differences(memory, rebuilt, data.X[test])
    return {
        "differences": differ,
        "byte_hits": hits + (not receipt.verified),
        "erased": len(gone),
        "asked": len(test),
        "ms_a_row": 1000 * spent / len(gone),
    }  # fmt: skip


def _differences(a: VisualMemory, b: VisualMemory, Q: np.ndarray) -> int:
    """Queries whose neighbours, distances, probabilities or predictions differ in any bit."""
    same = np.ones(len(Q), dtype=bool)
    for first, second in zip(a.kneighbors(Q, 50), b.kneighbors(Q, 50), strict=True):
        same &= (first == second).all(axis=1)
    same &= (a.predict_proba(Q) == b.predict_proba(Q)).all(axis=1)
    for vote in VOTES:
        same &= a.predict(Q, vote=vote) == b.predict(Q, vote=vote)
    return int((~same).sum())


def _growth(trial: Trial) -> Metrics:
    """V5: error in per cent by rows of the memory, at k = 10."""
    rng = trial.rng()
    if trial.dataset == "emoji, growing":
        data, sizes = datasets.emoji()["noto"], EMOJI_SIZES
    else:
        data, sizes = datasets.digits(), SIZES
    order = rng.permutation(len(data.y))
    test = order[sizes[-1] :]
    errors = []
    for n in sizes:
        rows = order[:n]
        d, index = nearest(normalised(data.X[test]), normalised(data.X[rows]), min(10, n))
        right = accuracy_curves(d, data.y[rows][index], data.y[test], ["rank"])["rank"][-1]
        errors.append(100 * (1 - right))
    slope, _ = hygiene.scaling_fit(np.array(sizes), np.maximum(np.array(errors), 1e-2) / 100)
    return {"error": np.array(errors), "slope": slope}


def _diverse(trial: Trial) -> Metrics:
    """V6: one tenth of Fluent's emoji, asked of a memory of one vendor and of two; k = 20."""
    data = datasets.emoji()
    fold = np.array_split(np.random.default_rng(0).permutation(len(data["fluent"].y)), 10)
    ask = fold[trial.seed % 10]
    Q, truth = normalised(data["fluent"].X[ask]), data["fluent"].y[ask]
    found = {}
    for name, vendors in (("one", ("noto",)), ("two", ("noto", "twemoji"))):
        X = normalised(np.concatenate([data[v].X for v in vendors]))
        y = np.concatenate([data[v].y for v in vendors])
        d, index = nearest(Q, X, 20)
        right = accuracy_curves(d, y[index], truth, ["rank"])["rank"][-1]
        found[name] = 100 * float(right)
    return {"one_vendor": found["one"], "two_vendors": found["two"]}


def _strangers(trial: Trial) -> Metrics:
    """V8: area under the ROC of the distance to 100 rows: an unknown class against known ones."""
    from sklearn.metrics import roc_auc_score

    data, old = _with_new_class(trial)
    train, test = _split(data.y, trial)
    rows = data.X[train[old[train]]]
    # pixels are all positive and their cosines near 1; centred on the memory they tell more
    middle = rows.mean(axis=0) if trial["centred"] else 0.0
    d, _ = nearest(
        normalised(data.X[test] - middle), normalised(rows - middle), min(100, len(rows))
    )
    score, unknown = hygiene.strangeness(d), ~old[test]
    quarters = [np.percentile(score[side], (5, 25, 50, 75, 95)) for side in (~unknown, unknown)]
    return {
        "auroc": float(roc_auc_score(unknown, score)),
        "known": quarters[0],
        "unknown": quarters[1],
    }


def _cell(trial: Trial) -> Metrics:
    name = trial.dataset
    if name == "digits, wrong labels":
        return _noisy(trial)
    parts = {
        "class added": _added_class,
        "erasing": _forgotten,
        "growing": _growth,
        "two vendors": _diverse,
        "strangers": _strangers,
    }
    for ending, part in parts.items():
        if name.endswith(ending):
            return part(trial)
    return _accuracy(_task(_data(name, trial["size"]), trial), trial)


# --- claims --------------------------------------------------------------------------------------


def _drops(r: Results, dataset: str) -> dict[str, np.ndarray]:
    """Points lost from the best k to k = 100, by vote."""
    part = r.where(dataset=dataset, arm="memory")
    found = {vote: 100 * part.curves(f"curve_{vote}") for vote in VOTES}
    return {v: c.max(axis=1) - c[:, -1] if c.size else np.empty(0) for v, c in found.items()}


def claim_votes(r: Results) -> Verdict:
    """V1: rank loses at least 1.5 points less than plurality, and is within 1 of softmax at 100."""
    easy = _drops(r, "digits")
    note = ""
    if len(easy["rank"]):
        best = r.where(dataset="digits", arm="memory").curves("curve_rank").mean(axis=0).argmax()
        note = (
            f"On the digits k = {best + 1} is best, and k = 100 costs plurality "
            f"{easy['plurality'].mean():.1f} points, rank {easy['rank'].mean():.1f}: there rank "
            "voting does not hurt rather than helps."
        )
    dataset = "elpv, 4 classes"
    drop = _drops(r, dataset)
    if not len(drop["rank"]):
        return needs_more(f"{note} On photographs {ELPV}.".strip())
    part = r.where(dataset=dataset, arm="memory")
    last = {v: 100 * part.curves(f"curve_{v}")[:, -1] for v in VOTES}
    less = greater_than(
        drop["plurality"],
        drop["rank"],
        1.5,
        "What plurality loses more than rank to k = 100, in points,",
    )
    near = greater_than(
        last["rank"], last["softmax"], -1.0, "Rank minus softmax at k = 100, in points,"
    )
    words = "Points lost to k = 100 on solar cells: " + ", ".join(
        f"{v} {drop[v].mean():.1f}" for v in VOTES
    )
    return all_of(less, near, sentence=f"{words}. {note}")


def claim_adding(r: Results) -> Verdict:
    """V2: the old classes lose at most 1.5 points, the new one has 70 % of their accuracy."""
    parts, words = [], []
    for dataset in ("digits, class added", "emoji, class added"):
        here = r.where(dataset=dataset, arm="memory")
        before, after = here.values("old_before"), here.values("old_after")
        new = here.values("new_after")
        if before.empty:
            continue
        words.append(
            f"{dataset}: old classes {before.mean():.2f} -> {after.mean():.2f} %, "
            f"new {new.mean():.1f} %."
        )
        name = dataset.split(",")[0]
        parts.append(
            greater_than(
                after, before, -1.5, f"The change on the old classes of {name}, in points,"
            )
        )
        parts.append(
            at_least(
                new - 0.7 * after,
                0.0,
                f"The new class minus 0.7 of the old ones of {name}, in points,",
            )
        )
    if not parts:
        return needs_more("No class was added.")
    return all_of(*parts, sentence=" ".join(words))


def claim_erasing(r: Results) -> Verdict:
    """V3: no answer differs in any bit from the rebuilt memory's, no byte is found."""
    part = r.where(dataset="digits, erasing", arm="memory").frame
    if part.empty:
        return needs_more("Nothing was erased.")
    same = never(int(part["differences"].sum()), int(part["asked"].sum()), "An answer that differs")
    gone = never(int(part["byte_hits"].sum()), int(part["erased"].sum()), "An erased vector found")
    ms = part["ms_a_row"].median()
    words = f"{len(part)} erasures; {ms:.1f} ms a row in the median, scan included."
    return all_of(same, gone, sentence=words)


def claim_pruning(r: Results) -> Verdict:
    """V4: at 20 % wrong labels soft pruning is not below plain rank voting, each at its best k."""
    name = "digits, wrong labels"
    soft, plain = r.paired("best", "soft", "memory", dataset=name, noise=20)
    if soft.empty:
        return needs_more("No wrong labels were tried.")
    words = []
    for noise in sorted(r.where(dataset=name).frame["noise"].unique()):
        means = {
            arm: r.values("best", dataset=name, noise=noise, arm=arm).mean()
            for arm in ("memory", "soft", "hard")
        }
        words.append(
            f"{noise} % wrong: plain {means['memory']:.2f}, soft {means['soft']:.2f}, "
            f"hard {means['hard']:.2f} %."
        )
    gain = soft - plain
    return all_of(
        at_least(gain, 0.0, "What soft pruning gains at 20 % wrong labels, in points,"),
        sentence=" ".join(words),
    )


def claim_growth(r: Results) -> Verdict:
    """V5: no step up by more than two standard errors of the paired difference."""
    ups, steps, words = 0, 0, []
    for dataset, sizes in (("digits, growing", SIZES), ("emoji, growing", EMOJI_SIZES)):
        error = r.where(dataset=dataset, arm="memory").curves("error")
        if len(error) < 2:
            continue
        change = np.diff(error, axis=1)
        ups += int((change.mean(axis=0) > 2 * change.std(axis=0, ddof=1) / len(error) ** 0.5).sum())
        steps += change.shape[1]
        slope = r.values("slope", dataset=dataset, arm="memory").mean()
        words.append(
            f"{dataset.split(',')[0]}: {error.mean(axis=0)[0]:.1f} % of {sizes[0]} rows to "
            f"{error.mean(axis=0)[-1]:.1f} % of {sizes[-1]}, slope {slope:.1f} in the paper's axes."
        )
    if not steps:
        return needs_more("At least two seeds are needed.")
    return all_of(never(ups, steps, "A step up of the error"), sentence=" ".join(words))


def claim_diversity(r: Results) -> Verdict:
    """V6: a second vendor in the memory gains at least 2 points on a third one's drawings."""
    one = r.values("one_vendor", dataset="emoji, two vendors", arm="memory")
    two = r.values("two_vendors", dataset="emoji, two vendors", arm="memory")
    if one.empty:
        return needs_more(f"On drawings {EMOJI}.")
    words = f"Fluent's emoji: {one.mean():.1f} % with Noto, {two.mean():.1f} % with Twemoji added."
    return all_of(at_least(two - one, 2.0, "The gain in points"), sentence=words)


def claim_probe(r: Results) -> Verdict:
    """V7: at most 3 points behind a tuned linear probe (the paper's memory is 2.7 behind)."""
    parts, words = [], []
    for dataset in ("elpv, 2 classes", "elpv, 4 classes", "digits"):
        ours, probe = r.paired("accuracy", "memory", "logistic", dataset=dataset)
        if ours.empty:
            continue
        words.append(f"{dataset}: memory {ours.mean():.1f}, probe {probe.mean():.1f} %.")
        parts.append(
            greater_than(ours, probe, -3.0, f"Memory minus probe on {dataset}, in points,")
        )
    if not parts:
        return needs_more("Nothing was compared.")
    if not r.has(dataset="elpv, 2 classes"):
        parts.append(needs_more(f"On photographs {ELPV}."))
    return all_of(*parts, sentence=" ".join(words))


def claim_strangers(r: Results) -> Verdict:
    """V8: the area under the ROC is at least 0.9 for the digit 8, as pixels and centred."""
    parts, words, found = [], [], {}
    for centred, name in ((False, "as they are"), (True, "centred on the memory")):
        part = r.where(arm="memory", centred=centred)
        eight = part.values("auroc", dataset="digits, strangers", new="8")
        if eight.empty:
            continue
        parts.append(
            at_least(eight, 0.9, f"The area under the ROC, digit 8 unknown, vectors {name},")
        )
        found[centred] = parts[-1].status, eight.mean()
        for dataset in ("digits", "emoji"):
            frame = part.where(dataset=f"{dataset}, strangers").frame
            if len(frame):
                means = frame.groupby("new")["auroc"].mean().items()
                words.append(
                    f"{dataset} {name}: " + ", ".join(f"{c}: {v:.2f}" for c, v in means) + "."
                )
    if not parts:
        return needs_more("No class was held back.")
    why = ""
    if [s for s, _ in found.values()] == ["not reproduced", "reproduced"]:
        why = (
            f"Why partly: as raw pixels the 8 hides ({found[False][1]:.2f}), centred on the memory "
            f"it does not ({found[True][1]:.2f}). Pixels are never negative, so all cosines are "
            "near 1 and a stranger is hardly farther than a known digit; taking the memory's mean "
            "away first mends that. "
        )
    return all_of(*parts, sentence=f"{why}Each class in turn unknown, {' '.join(words)}")


# --- figures -------------------------------------------------------------------------------------


def _votes_figure(r: Results) -> go.Figure | None:
    names = ("digits", "elpv, 4 classes", "elpv, 2 classes", "your images")
    there = [d for d in names if r.where(dataset=d, arm="memory").curves("curve_rank").size]
    if not there:
        return None
    figure = make_subplots(cols=len(there), rows=1, subplot_titles=there)
    style(
        figure,
        "Accuracy by the number of neighbours that vote: mean and 95 % band over splits, all from "
        "one search. Plurality and distance lose as k grows, rank hardly does.",
        height=440,
    )
    shade = colours(VOTES)
    for column, dataset in enumerate(there, start=1):
        for vote in VOTES:
            curves = 100 * r.where(dataset=dataset, arm="memory").curves(f"curve_{vote}")
            add_ribbon(
                figure, np.arange(1, TOP + 1), curves, vote, shade[vote],
                where={"row": 1, "col": column}, showlegend=column == 1,
            )  # fmt: skip
    figure.update_xaxes(title="neighbours k", type="log")
    figure.update_yaxes(title="accuracy, %", col=1)
    figure.update_layout(margin={"t": 110}, legend={"y": 1.12})
    return figure


def _arms_figure(r: Results, dataset: str) -> go.Figure | None:
    arms = {a: r.values("accuracy", dataset=dataset, arm=a) for a in VisualMemoryStudy.arms}
    arms = {a: v for a, v in arms.items() if len(v)}
    if not arms:
        return None
    return interval_bars(
        arms,
        f"Accuracy on {dataset}, a quarter held out; k and the baselines' settings chosen on the "
        "rest. Means with 95 % intervals over splits; shuffled has its labels exchanged.",
        y="accuracy, %",
    )


def _reliability_figure(r: Results) -> go.Figure | None:
    figure = new_figure(
        "Accuracy of the k-th neighbour alone, and the fit a ln k + b: the farther, the less a "
        "neighbour knows.",
        x="rank of the neighbour",
        y="accuracy, %",
        log_x=True,
    )
    names = ("digits", "elpv, 4 classes", "your images")
    shade = colours(names)
    for dataset in names:
        curves = 100 * r.where(dataset=dataset, arm="memory").curves("rank_accuracy")
        if not curves.size:
            continue
        k = np.arange(1, TOP + 1)
        add_ribbon(figure, k, curves, dataset, shade[dataset])
        a, b = hygiene.log_fit(curves.mean(axis=0))
        line = {"color": shade[dataset], "dash": "dot"}
        name = f"{a:.1f} ln k + {b:.1f}"
        figure.add_scatter(x=k, y=a * np.log(k) + b, mode="lines", name=name, line=line)
    return figure if figure.data else None


def _noise_figure(r: Results) -> go.Figure | None:
    part = r.where(dataset="digits, wrong labels")
    figure = new_figure(
        "Digits whose memory holds wrong labels: best accuracy over k, mean and 95 % band. Soft "
        "pruning weighs rows down that mislead others; hard pruning takes them out.",
        x="wrong labels, %",
        y="accuracy, %",
    )
    shade = colours(("memory", "soft", "hard"))
    for arm, colour in shade.items():
        frame = part.where(arm=arm).frame
        if frame.empty:
            continue
        table = frame.pivot_table(index="seed", columns="noise", values="best").dropna()
        if len(table):
            add_ribbon(figure, table.columns, table.to_numpy(), arm, colour)
    return figure if figure.data else None


def _growth_figure(r: Results) -> go.Figure | None:
    figure = new_figure(
        "Error by rows in the memory, rank vote of 10: mean and 95 % band over seeds.",
        x="rows",
        y="error, %",
        log_x=True,
        log_y=True,
    )
    shade = colours(("digits", "emoji"))
    for name, sizes in (("digits", SIZES), ("emoji", EMOJI_SIZES)):
        curves = r.where(dataset=f"{name}, growing", arm="memory").curves("error")
        if curves.size:
            add_ribbon(figure, sizes, curves, name, shade[name])
    return figure if figure.data else None


def _calibration_figure(r: Results) -> go.Figure | None:
    figure = new_figure(
        "Share of the plurality among 20 neighbours, and how often it is right; on the dotted line "
        "the share is the chance of being right.",
        x="share of the plurality",
        y="accuracy",
    )
    names = ("digits", "elpv, 4 classes", "your images")
    shade = colours(names)
    for name in names:
        curves = r.where(dataset=name, arm="memory").curves("calibration")
        if not curves.size:
            continue
        seen = np.isfinite(curves).any(axis=0)
        x = np.arange(1, len(seen) + 1)[seen] / len(seen)
        figure.add_scatter(
            x=x, y=np.nanmean(curves[:, seen], axis=0), mode="lines+markers", name=name,
            line={"color": shade[name]},
        )  # fmt: skip
    if not figure.data:
        return None
    figure.add_scatter(
        x=[0, 1], y=[0, 1], mode="lines", line={"dash": "dot", "color": "#7F7F7F"}, showlegend=False
    )
    return figure


def _strangers_figure(r: Results) -> go.Figure | None:
    figure = new_figure(
        "Mean distance to the nearest 100 rows, for classes that the memory knows and for one that "
        "it does not: quartiles, whiskers at 5 and 95 %, averaged over splits.",
        x="the class held back",
        y="mean cosine distance",
        boxmode="group",
    )
    frame = r.where(arm="memory")
    shade = colours(("known", "unknown"))
    for side, colour in shade.items():
        rows, names = [], []
        for dataset in ("digits, strangers", "emoji, strangers"):
            here = frame.where(dataset=dataset, centred=False)
            for new in sorted({dict(o.trial.params).get("new") for o in here.outcomes} - {None}):
                rows.append(here.where(new=new).curves(side).mean(axis=0))
                names.append(new)
        if rows:
            low, q1, mid, q3, high = np.array(rows).T
            figure.add_box(
                x=names, lowerfence=low, q1=q1, median=mid, q3=q3, upperfence=high,
                name=f"{side} classes", marker_color=colour,
            )  # fmt: skip
    return figure if figure.data else None


# --- the study -----------------------------------------------------------------------------------


class VisualMemoryStudy(Study):
    """Digits always; solar cells and emoji where they are installed; a person's pictures."""

    slug = "visual-memory"
    arms = {
        "memory": Arm("method", "visual memory, rank vote"),
        "soft": Arm("method", "visual memory, rows that mislead weighed down"),
        "hard": Arm("method", "visual memory, rows that mislead taken out"),
        "logistic": Arm("baseline", "logistic regression on the same vectors (linear probe)"),
        "softmax": Arm("baseline", "the same neighbours, softmax vote, temperature 0.07"),
        "distance": Arm("baseline", "the same neighbours, distance vote"),
        "plurality": Arm("baseline", "the same neighbours, plurality vote"),
        "knn": Arm("baseline", "scikit-learn's nearest neighbours, Euclidean, uniform"),
        "knn-distance": Arm("baseline", "scikit-learn's nearest neighbours, weighed by distance"),
        "nearest": Arm("cheap", "the nearest row decides"),
        "centroid": Arm("cheap", "the nearest class mean decides"),
        "shuffled": Arm("control", "visual memory with the labels exchanged at random"),
    }
    measures = {
        "accuracy": Measure("accuracy", "higher", "%", bounds=(0.0, 100.0)),
        "best": Measure("accuracy at the best k", "higher", "%", bounds=(0.0, 100.0)),
    }
    claims = {
        "V1": claim_votes,
        "V2": claim_adding,
        "V3": claim_erasing,
        "V4": claim_pruning,
        "V5": claim_growth,
        "V6": claim_diversity,
        "V7": claim_probe,
        "V8": claim_strangers,
    }

    def trials(self, scale: Scale) -> Iterable[Trial]:
        """Digits; then what else is there. A person's pictures alone where there are some."""
        seeds = scale.seeds(smoke=2, cpu=10, paper=10)
        if self.source is not None:
            for seed in seeds:
                yield from (self.trial("your images", arm, seed) for arm in self.arms)
            return
        names = ["digits"]
        if scale.name != "smoke" and datasets.has_elpv():
            names += LARGE
        size = scale.pick(smoke=64, cpu=128, paper=224)
        for name in names:
            for seed in seeds:
                yield from (self.trial(name, arm, seed, size=size) for arm in self.arms)
        yield from self._digit_trials(scale)
        if scale.name != "smoke" and datasets.has_emoji():
            yield from self._emoji_trials(scale)

    def _digit_trials(self, scale: Scale) -> Iterator[Trial]:
        for seed in scale.seeds(smoke=2, cpu=10, paper=10):
            for noise in scale.pick(smoke=(20,), cpu=NOISE, paper=NOISE):
                for arm in ("memory", "soft", "hard", "plurality"):
                    yield self.trial("digits, wrong labels", arm, seed, noise=noise)
            for arm in ("memory", "logistic"):
                yield self.trial("digits, class added", arm, seed, new="8")
            for rows in scale.pick(smoke=(50,), cpu=(1, 50, 600), paper=(1, 50, 600)):
                yield self.trial("digits, erasing", "memory", seed, kind="random", rows=rows)
            yield self.trial("digits, erasing", "memory", seed, kind="class", rows=0)
            yield self.trial("digits, growing", "memory", seed)
            for new in scale.pick(smoke="8", cpu="0123456789", paper="0123456789"):
                for centred in (False, True):
                    yield self.trial("digits, strangers", "memory", seed, new=new, centred=centred)

    def _emoji_trials(self, scale: Scale) -> Iterator[Trial]:
        for seed in scale.seeds(smoke=2, cpu=10, paper=10):
            yield self.trial("emoji, class added", "memory", seed, new="Flags")
            yield self.trial("emoji, growing", "memory", seed)
            for new in ("Flags", "Smileys & Emotion"):
                for centred in (False, True):
                    yield self.trial("emoji, strangers", "memory", seed, new=new, centred=centred)
            yield self.trial("emoji, two vendors", "memory", seed)

    def run(self, trial: Trial) -> Metrics:
        """One cell."""
        if self.source is None:
            return _cell(trial)
        return _accuracy(_task(self._images(), trial), trial)

    def group(self, trial: Trial) -> Hashable | None:
        """Arms and settings that ask the same neighbours are run by one worker."""
        shared = (*LARGE, "digits", "digits, wrong labels", "your images")
        return (trial.dataset, trial.seed) if trial.dataset in shared else None

    def _images(self) -> datasets.Labelled:
        asked = dict(self.options)
        return _user_images(
            UserData(self.source.paths),
            asked.get("encoder", "efficientnet-lite0"),
            asked.get("size", 0),
            asked.get("path_column", ""),
            asked.get("label_column", ""),
        )

    def figures(self, results: Results) -> Mapping[str, go.Figure]:
        """Votes by k, arms, reliability by rank, wrong labels, growth, agreement, strangers."""
        drawn = {"Votes by k": _votes_figure(results)}
        for name in ("your images", "elpv, 4 classes", "elpv, 2 classes", "digits"):
            drawn[f"Arms: {name}"] = _arms_figure(results, name)
        drawn |= {
            "The k-th neighbour alone": _reliability_figure(results),
            "Wrong labels": _noise_figure(results),
            "Growing": _growth_figure(results),
            "Agreement": _calibration_figure(results),
            "Unknown classes": _strangers_figure(results),
        }
        return {title: figure for title, figure in drawn.items() if figure is not None}

    @classmethod
    def on(
        cls,
        source: UserData,
        *,
        encoder: Annotated[
            str, "what turns pictures into vectors, e.g. pixels or timm:NAME"
        ] = "efficientnet-lite0",
        size: Annotated[int, "pixels a side for the encoder; 0: its own"] = 0,
        path_column: Annotated[str, "of a table: the column of paths"] = "",
        label_column: Annotated[str, "of a table: the column of labels"] = "",
    ) -> VisualMemoryStudy:
        """The same arms on a person's labelled pictures: class folders, or a table of paths."""
        study = cls()
        study.source = source
        study.options = {
            "encoder": encoder,
            "size": size,
            "path_column": path_column,
            "label_column": label_column,
        }
        data = study._images()
        counts = np.bincount(data.y)
        if len(counts) < 2:
            raise InputError(f"{source.path}: one class only ({data.names[0]})", "at least two")
        if counts.min() < 4:
            short = data.names[int(counts.argmin())]
            raise InputError(
                f"{source.path}: the class {short!r} has {counts.min()} images",
                "at least 4 of each class are needed to hold some out",
            )
        return study
