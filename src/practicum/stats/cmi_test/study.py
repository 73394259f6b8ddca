"""The study of cmi-test: size, power, double robustness, local power, images; a person's table."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from scipy.special import ndtri

from practicum.errors import InputError
from practicum.stats.cmi_test.baselines import gcm_test, nested_f_test, pcm_test
from practicum.stats.cmi_test.conditional_mean import NO_VARIATION, CMIResult, ConditionalMeanTest
from practicum.stats.cmi_test.inputs import MIN_ROWS, determined_by
from practicum.stats.cmi_test.simulate import GaussianDesign
from practicum.stats.cmi_test.smoother import KernelSmoother
from practicum.stats.cmi_test.tables import (
    column_names,
    encode_columns,
    pick_columns,
    read_table,
)
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
    between,
    greater_than,
    needs_more,
    rate,
)
from practicum.study.evidence import Differences, Sample, binomial_interval, number
from practicum.study.plots import add_ribbon, colours, new_figure

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure

    from practicum.data.kinds import UserData

LEVEL = 0.05
SIZES = {"linear": 0.2, "even": 0.5}
ERRORS = ("neither", "regression", "sampler", "both")
CENTRE, CORNER = "digits, centre box", "digits, corner of noise"
DRAWN = "digits, centre box, classes drawn given the rest"
PEOPLE = ("cmi", "gcm", "pcm", "f-test")  # what runs on a table of somebody's


class ConditionalMeanStudy(Study):
    """See the card for the claims; thresholds were written before the runs."""

    slug = "cmi-test"
    arms = {
        "cmi": Arm("method", "the test with its default nuisances and null"),
        "gcm": Arm("baseline", "generalised covariance measure, the same regressions"),
        "pcm": Arm("baseline", "projected covariance measure, the same regressions, half the rows"),
        "f-test": Arm("cheap", "nested F-test of least squares"),
        "exact": Arm("control", "the test with the true mean of Y and the true law of X given Z"),
        "published, exact": Arm(
            "control", "the published statistic (two folds, own scales) with exact nuisances"
        ),
        "published": Arm("control", "the published test: networks on two folds"),
    }
    measures = {
        "power": Measure(
            "power: runs that reject at 5 % where there is an effect", "higher", bounds=(0.0, 1.0)
        ),
        "false_alarm": Measure(
            "false alarms: runs that reject at 5 % where there is none", "lower", bounds=(0.0, 1.0)
        ),
    }

    def __init__(self, table: _Table | None = None) -> None:
        self.table = table

    # --- the grid ---

    def trials(self, scale: Scale) -> Iterable[Trial]:
        if self.table is not None:
            for seed in scale.seeds(smoke=3, cpu=100, paper=500):
                for arm in PEOPLE:
                    yield self.trial(self.table.name, arm, seed, n=self.table.n, **self.table.roles)
            return
        yield from self._size_and_power(scale)
        yield from self._networks(scale)
        yield from self._two_errors(scale)
        yield from self._local(scale)
        yield from self._images(scale)

    def _size_and_power(self, scale: Scale) -> Iterable[Trial]:
        small, large = scale.pick(smoke=(100, 150), cpu=(200, 400), paper=(200, 400))
        more = scale.pick(smoke=(), cpu=(), paper=(600, 800))
        exact = scale.seeds(smoke=12, cpu=1000, paper=1000)
        others = scale.seeds(smoke=6, cpu=300, paper=500)
        for seeds, arm, sizes in (
            (exact, "exact", (small, *more)),
            (exact, "published, exact", (small, *more)),
            (exact, "cmi", (small,)),
            (others, "cmi", (large, *more)),
            *((others, arm, (small,)) for arm in ("gcm", "pcm", "f-test")),
        ):
            for seed in seeds:
                for n in sizes:
                    yield self.trial("null", arm, seed, n=n, size=0.0)
        effects = scale.seeds(smoke=6, cpu=150, paper=500)
        for seed in effects:
            for shape in ("sparse", "dense"):
                for arm in ("cmi", "exact", "gcm", "pcm", "f-test"):
                    yield self.trial(f"linear-{shape}", arm, seed, n=small, size=SIZES["linear"])
                    for n in (small, large):
                        yield self.trial(f"even-{shape}", arm, seed, n=n, size=SIZES["even"])

    def _networks(self, scale: Scale) -> Iterable[Trial]:
        epochs = scale.pick(smoke=3, cpu=1000, paper=1000)
        small, large = scale.pick(smoke=(100, 100), cpu=(200, 400), paper=(200, 400))
        for seed in scale.seeds(smoke=1, cpu=6, paper=500):
            yield self.trial("null", "published", seed, n=small, size=0.0, epochs=epochs)
        if scale.name == "cpu":
            return  # a minute for each of these runs, and a handful would show nothing
        for seed in scale.seeds(smoke=1, cpu=0, paper=500):
            yield self.trial(
                "even-sparse", "published", seed, n=large, size=SIZES["even"], epochs=epochs
            )

    def _two_errors(self, scale: Scale) -> Iterable[Trial]:
        largest = scale.seeds(smoke=6, cpu=600, paper=1000)
        others = scale.seeds(smoke=3, cpu=200, paper=1000)
        sizes = scale.pick(smoke=(100, 200), cpu=(100, 200, 400, 800), paper=(200, 400, 800, 1600))
        for n in sizes:
            for seed in largest if n == sizes[-1] else others:
                for wrong in ERRORS:
                    yield self.trial("two errors", "exact", seed, n=n, wrong=wrong)

    def _local(self, scale: Scale) -> Iterable[Trial]:
        sizes = scale.pick(
            smoke=(60, 120), cpu=(100, 200, 400, 800, 1600), paper=(100, 200, 400, 800, 1600)
        )
        for seed in scale.seeds(smoke=8, cpu=300, paper=500):
            for n in sizes:
                yield self.trial("local", "exact", seed, n=n, size=1.8 / np.sqrt(n))

    def _images(self, scale: Scale) -> Iterable[Trial]:
        small, large = scale.pick(smoke=(120, 150), cpu=(400, 1000), paper=(400, 1000))
        for seed in scale.seeds(smoke=3, cpu=400, paper=500):
            yield self.trial(CORNER, "cmi", seed, n=small)
        for seed in scale.seeds(smoke=3, cpu=50, paper=200):
            yield self.trial(CENTRE, "cmi", seed, n=large)
            for arm in ("cmi", "exact"):
                yield self.trial(DRAWN, arm, seed, n=large)

    # --- a cell ---

    def group(self, trial: Trial) -> Hashable | None:
        """Twenty-five quick cells at a time: handing them out one by one takes longer than some."""
        if trial.arm == "published":
            return None
        return trial.dataset, trial.arm, trial["n"], trial.seed // 25

    def run(self, trial: Trial) -> Metrics:
        if self.table is not None:
            return self._run_table(trial)
        if trial.dataset in (CENTRE, CORNER, DRAWN):
            return _images(trial)
        if trial.dataset == "two errors":
            return _two_errors(trial)
        name = "linear-sparse" if trial.dataset == "local" else trial.dataset
        design = GaussianDesign(name, trial["size"])
        x, y, z = design.draw(trial["n"], trial.rng("data"))
        outcome = _test(trial, x, y, z, design)
        return _metrics(outcome, trial.dataset == "null")

    def _run_table(self, trial: Trial) -> Metrics:
        assert self.table is not None
        found: dict[str, float] = {}
        for name, planted in (("false_alarm", False), ("power", True)):
            x, y, z = self.table.outcome(trial.rng("data"), planted)
            found[name] = float(_test(trial, x, y, z, None)["p"] <= LEVEL)
        return found

    # --- verdicts ---

    claims = {
        "C1": lambda results: _claim_size(results),
        "C2": lambda results: _claim_linear(results),
        "C3": lambda results: _claim_even(results),
        "C4": lambda results: _claim_two_errors(results),
        "C5": lambda results: _claim_local(results),
        "C6": lambda results: _claim_images(results),
    }

    def figures(self, results: Results) -> Mapping[str, Figure]:
        figures = {
            "Size and power": _rates_figure(results, list(self.arms)),
            "P-values where there is no effect": _null_figure(results, list(self.arms)),
            "Even effects against sample size": _even_figure(results, list(self.arms)),
            "One wrong nuisance, and two": _errors_figure(results),
            "Effects that shrink as 1/sqrt(n)": _local_figure(results),
        }
        return {title: figure for title, figure in figures.items() if figure is not None}

    # --- a person's table ---

    @classmethod
    def on(
        cls,
        source: UserData,
        *,
        response: Annotated[str | None, "column Y; the last numeric one by default"] = None,
        candidates: Annotated[
            list[str] | None, "columns X, tested together; the first numeric one by default"
        ] = None,
        given: Annotated[list[str] | None, "columns Z; all others by default"] = None,
        ignore: Annotated[
            list[str] | None, "columns to leave out, names of people say; patterns as id_*"
        ] = None,
        effect: Annotated[
            Literal["even", "linear"], "shape of the effect that is planted to measure power"
        ] = "even",
        strength: Annotated[float, "its standard deviation, in units of the noise"] = 0.7,
        missing: Annotated[
            Literal["error", "drop"], "rows with an empty cell are an error, or dropped"
        ] = "error",
    ) -> ConditionalMeanStudy:
        """False alarms and power on outcomes made from the table's own X, Z and noise."""
        if strength <= 0:
            raise InputError(f"strength={strength}", "a positive number")
        frame, columns = _columns_of(source, response, candidates, given, ignore, missing)
        try:
            return cls(_Table.of(frame, source.name, columns, effect, strength))
        except InputError as error:
            raise InputError(f"{source.path}: {error.message}", error.hint) from error


# --- running one test ----------------------------------------------------------------------------


def _test(
    trial: Trial, x: np.ndarray, y: np.ndarray, z: np.ndarray, design: GaussianDesign | None
) -> dict[str, float]:
    """p and what else the arm reports."""
    seed = int(trial.rng("test").integers(2**31))
    if trial.arm == "gcm":
        return {"p": gcm_test(x, y, z, rng=seed).pvalue}
    if trial.arm == "pcm":
        return {"p": pcm_test(x, y, z, rng=seed).pvalue}
    if trial.arm == "f-test":
        return {"p": nested_f_test(x, y, z).pvalue}
    options: dict[str, Any] = {"random_state": seed}
    if trial.arm == "exact":
        assert design is not None  # on X itself, as in the paper
        options |= {"regression": design.mean_given_z, "generator": design.conditional}
        draws = 16 if trial.dataset == "local" else 32
        options |= {"coordinates": "raw", "draws": draws, "n_check": 0}
    elif trial.arm == "published, exact":
        assert design is not None
        options |= {"regression": design.mean_given_z, "generator": design.conditional}
        options |= {"preset": "paper", "n_check": 0}
    elif trial.arm == "published":
        from practicum.stats.cmi_test.networks import GenerativeNetwork, NetworkRegressor

        epochs = trial["epochs"]
        options |= {"generator": GenerativeNetwork(epochs), "regression": NetworkRegressor(epochs)}
        options |= {"preset": "paper", "n_check": 0}
    result = _quietly(ConditionalMeanTest(**options), x, y, z)
    found = {"p": result.pvalue, "r2_y": result.r2_y_given_z}
    if result.size_check is not None:
        found["size_check"] = result.size_check
    if trial.arm == "published":
        found |= {"mmd": result.mmd_x_given_z, "conclusive": float(result.conclusive)}
    return found


def _quietly(test: ConditionalMeanTest, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> CMIResult:
    """A study counts what is inconclusive; thousands of warnings would say it again."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return test.fit(x, y, z).result_


def _metrics(outcome: dict[str, float], null: bool) -> Metrics:
    rejected = float(outcome["p"] <= LEVEL)
    return {"false_alarm" if null else "power": rejected, **outcome}


class _Drifting:
    """X given Z is N(Z + shift(Z), 1)."""

    def __init__(self, shift: Callable[[np.ndarray], np.ndarray]) -> None:
        self.shift = shift

    def sample(self, z: np.ndarray, m: int, rng: np.random.Generator) -> np.ndarray:
        return z + self.shift(z) + rng.standard_normal((m, len(z), 1))


def _two_errors(trial: Trial) -> Metrics:
    """X = Z + u, Y = Z + e, and nuisances that are off by 2 n^(-1/4) cos(Z)."""
    n, rng, wrong = trial["n"], trial.rng("data"), trial["wrong"]
    z = rng.standard_normal((n, 1))
    x, y = z + rng.standard_normal((n, 1)), z + rng.standard_normal((n, 1))

    def off(which: str) -> Callable[[np.ndarray], np.ndarray]:
        size = 2 * n**-0.25 if wrong in (which, "both") else 0.0
        return lambda rows: size * np.cos(rows)

    test = ConditionalMeanTest(
        regression=lambda rows: rows + off("regression")(rows),
        generator=_Drifting(off("sampler")),
        coordinates="raw",
        draws=16,
        n_boot=499,
        n_check=0,
        random_state=int(trial.rng("test").integers(2**31)),
    )
    return _metrics({"p": test.fit(x, y, z).pvalue_}, True)


@lru_cache(maxsize=1)
def _digits() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits

    data = load_digits()
    return data.images, np.eye(10)[data.target]


@lru_cache(maxsize=1)
def _chances() -> np.ndarray:
    """Of the ten classes for each digit, from a logistic model of the pixels around the centre."""
    from sklearn.linear_model import LogisticRegression

    images, classes = _digits()
    around = images[:, ~_region(CENTRE)] / 16
    model = LogisticRegression(max_iter=1000).fit(around, classes.argmax(axis=1))
    return model.predict_proba(around)


def _region(dataset: str) -> np.ndarray:
    box = np.zeros((8, 8), dtype=bool)
    if dataset == CORNER:
        box[:2, :2] = True
    else:
        box[2:6, 2:6] = True
    return box


def _images(trial: Trial) -> Metrics:
    """X a box of the image, Y the ten classes, Z the other pixels."""
    rng, box = trial.rng("data"), _region(trial.dataset)
    images, classes = _digits()
    rows = rng.choice(len(images), trial["n"], replace=False)
    images, y = images[rows].copy(), classes[rows]
    if trial.dataset == CORNER:
        images[:, box] = rng.standard_normal((len(rows), int(box.sum())))
    if trial.dataset == DRAWN:
        chances = _chances()[rows]
        y = np.eye(10)[(rng.random((len(rows), 1)) > chances.cumsum(axis=1)[:, :-1]).sum(axis=1)]
        seen = y.std(axis=0) > 0
        y, chances = y[:, seen], chances[:, seen]
    x, z = images[:, box], images[:, ~box]
    z = z[:, z.std(axis=0) > 0]
    options: dict[str, Any] = {"random_state": int(trial.rng("test").integers(2**31))}
    if trial.arm == "exact":  # the truth for Y; for X there is none to be had
        options |= {"regression": lambda _: chances, "n_check": 0}
    result = _quietly(ConditionalMeanTest(**options), x, y, z)
    outcome = {"p": result.pvalue, "conclusive": float(result.conclusive)}
    if result.size_check is not None:
        outcome["size_check"] = result.size_check
    return _metrics(outcome, trial.dataset != CENTRE)


# --- verdicts ------------------------------------------------------------------------------------


def _rate_of(results: Results, metric: str, what: str, **where: Any) -> tuple[int, int, str]:
    values = results.values(metric, **where)
    return int(values.sum()), len(values), what


def _first_and_last(results: Results, **where: Any) -> tuple[int, int] | None:
    """Smallest and largest n among the trials."""
    part = results.where(**where)
    if not len(part):
        return None
    return int(part.frame["n"].min()), int(part.frame["n"].max())


def _claim_size(results: Results) -> Verdict:
    sizes = _first_and_last(results, dataset="null", arm="cmi")
    if sizes is None:
        return needs_more("No run without an effect has finished.")
    small, large = sizes
    parts = []
    for arm, n in (
        ("published, exact", small),
        ("exact", small),
        ("cmi", small),
        ("cmi", large),
    ):
        hits, runs, what = _rate_of(
            results,
            "false_alarm",
            f"{arm}, n = {n}: the rejection rate",
            dataset="null",
            arm=arm,
            n=n,
        )
        parts.append(rate(hits, runs, low=0.02, high=0.10, what=what))
    notes = []
    checks = results.values("size_check", dataset="null", arm="cmi", n=small)
    if len(checks):
        notes.append(f"The self-check said {checks.mean():.3f} on average (n = {small}).")
    networks = _first_and_last(results, dataset="null", arm="published")
    if networks:
        hits, runs, _ = _rate_of(results, "false_alarm", "", dataset="null", arm="published")
        clear = int(results.values("conclusive", dataset="null", arm="published").sum())
        notes.append(
            f"The networks rejected in {hits} of {runs} runs at n = {networks[0]} "
            f"{binomial_interval(hits, runs)}: shown, too few to decide; in {runs - clear} of them "
            "the held-out check of the generator would have refused a conclusion."
        )
    return all_of(*parts, sentence=" ".join(notes))


def _claim_linear(results: Results) -> Verdict:
    parts = [
        rate(
            *_rate_of(results, "power", "", dataset=f"linear-{shape}", arm=arm)[:2],
            low=0.75,
            what=f"{arm}, {shape}: the power",
        )
        for arm in ("exact", "cmi")
        for shape in ("sparse", "dense")
    ]
    return all_of(*parts)


def _claim_even(results: Results) -> Verdict:
    sizes = _first_and_last(results, dataset="even-sparse", arm="cmi")
    if sizes is None:
        return needs_more("No run with an even effect has finished.")
    parts, notes = [], []
    for shape in ("sparse", "dense"):
        where = {"dataset": f"even-{shape}", "n": sizes[1]}
        pair = results.paired("power", "cmi", "gcm", **where)
        what = f"{shape}, n = {sizes[1]}: power minus that of the covariance measure"
        parts.append(greater_than(*pair, margin=0.20, what=what))
        for n in sizes:
            where["n"] = n
            gain = Differences(*results.paired("power", "cmi", "pcm", **where), (0, 1))
            own = results.values("power", arm="cmi", **where)
            if gain.n:
                notes.append(
                    f"{shape}, n = {n}: power {number(own.mean())}, minus that of the projected "
                    f"covariance measure {number(gain.mean)} {gain.interval()}."
                )
    return all_of(*parts, sentence=" ".join(notes))


def _claim_two_errors(results: Results) -> Verdict:
    sizes = _first_and_last(results, dataset="two errors")
    if sizes is None:
        return needs_more("No run with wrong nuisances has finished.")
    parts = []
    for wrong, low, high in (
        ("regression", 0.0, 0.08),
        ("sampler", 0.0, 0.08),
        ("both", 0.08, 1.0),
    ):
        hits, runs, what = _rate_of(
            results,
            "false_alarm",
            f"{wrong} wrong, n = {sizes[1]}: the rejection rate",
            dataset="two errors",
            n=sizes[1],
            wrong=wrong,
        )
        parts.append(rate(hits, runs, low=low, high=high, what=what))
    return all_of(*parts)


def _claim_local(results: Results) -> Verdict:
    frame = results.where(dataset="local").frame
    if frame.empty or frame["n"].nunique() < 2:
        return needs_more("No run with shrinking effects has finished.")
    table = frame.pivot_table(index="seed", columns="n", values="power").dropna()
    steps = np.log2(table.columns.to_numpy(dtype=float))
    slope = (steps - steps.mean()) / ((steps - steps.mean()) ** 2).sum()
    change = (table.to_numpy() @ slope * np.ptp(steps)).round(12)
    parts = [
        between(
            change,
            -0.2,
            0.2,
            f"the change of the power from n = {table.columns[0]} to {table.columns[-1]}",
        )
    ]
    trend = Sample(change)
    p = trend.p(0.0)  # None: every run says the same
    flat = p is None or p >= 0.01
    sentence = f"A trend over n {'does not show' if flat else 'shows'} at the 1 % level."
    parts.append(
        Verdict(
            "reproduced" if flat else "not reproduced",
            sentence,
            trend.mean,
            trend.interval(0.99),
            "no trend (p >= 0.01)",
            trend.n,
        )
    )
    for n in table.columns:
        hits, runs = int(table[n].sum()), len(table)
        parts.append(rate(hits, runs, low=0.15, high=0.95, what=f"n = {n}: the power"))
    return all_of(*parts)


def _claim_images(results: Results) -> Verdict:
    centre = rate(
        *_rate_of(results, "power", "", dataset=CENTRE)[:2],
        low=0.90,
        what="centre box: the share of runs that reject",
    )
    corner = rate(
        *_rate_of(results, "false_alarm", "", dataset=CORNER)[:2],
        high=0.10,
        what="corner of noise: the share of runs that reject",
    )
    drawn = rate(
        *_rate_of(results, "false_alarm", "", dataset=DRAWN, arm="cmi")[:2],
        high=0.10,
        what="centre box, classes drawn given the rest: the share of runs that reject",
    )
    notes = ["Digits of 8 x 8 pixels stand in for faces of 48 x 48."]
    exact, runs, _ = _rate_of(results, "false_alarm", "", dataset=DRAWN, arm="exact")
    check = results.values("size_check", dataset=DRAWN)
    if runs and len(check):
        notes.append(
            "Drawn classes make the centre useless though it hangs on the rest; what the "
            "regressions of Y and of X both miss is then taken for an effect. The self-check "
            f"({number(check.mean())} on average) does not see it; with the true chances of the "
            f"classes the test rejects in {exact} of {runs} {binomial_interval(exact, runs)}."
        )
    trusted = results.values("conclusive", dataset=CENTRE)
    if len(trusted):
        notes.append(
            f"Of the {len(trusted)} tests of the centre the self-check advises against "
            f"{int(len(trusted) - trusted.sum())}."
        )
    return all_of(centre, corner, drawn, sentence=" ".join(notes))


# --- figures -------------------------------------------------------------------------------------


def _dots(figure: Figure, x: list[Any], counts: list[tuple[int, int]], **style: Any) -> None:
    """Rates with their exact 95 % intervals."""
    rates = [hits / runs for hits, runs in counts]
    ends = [binomial_interval(hits, runs) for hits, runs in counts]
    figure.add_scatter(
        x=x,
        y=rates,
        error_y={
            "type": "data",
            "symmetric": False,
            "array": [e.high - r for e, r in zip(ends, rates)],
            "arrayminus": [r - e.low for e, r in zip(ends, rates)],
            "thickness": 1.5,
            "width": 5,
        },
        marker={"size": 9},
        **style,
    )


def _level_line(figure: Figure) -> None:
    figure.add_hline(y=LEVEL, line={"dash": "dot", "color": "#7F7F7F", "width": 1.5})


def _rates_figure(results: Results, arms: list[str]) -> Figure | None:
    """Every arm on every data set at its smallest n."""
    palette = colours(arms)
    figure = new_figure(
        "Share of runs that reject at 5 %, with exact 95 % intervals. Where there is no effect a "
        "test should sit on the dotted line or below; where there is one, higher is better.",
        y="rejection rate",
        height=480,
    )
    frame = results.frame
    if frame.empty:
        return None
    shown = [d for d in dict.fromkeys(frame["dataset"]) if d not in ("two errors", "local")]
    order: list[str] = []
    for arm in arms:
        places: dict[str, tuple[int, int]] = {}
        for metric in ("false_alarm", "power"):
            for dataset in shown:
                part = results.where(arm=arm, dataset=dataset)
                n = int(part.frame["n"].min()) if len(part) else 0
                values = part.values(metric, n=n) if n else []
                if len(values):
                    kind = "no effect" if metric == "false_alarm" else "effect"
                    places[f"{_SHORT.get(dataset, dataset)}<br>{kind}<br>n = {n}"] = (
                        int(values.sum()),
                        len(values),
                    )
        _grouped(figure, arm, palette[arm], places)
        order += [place for place in places if place not in order]
    order.sort(key=lambda place: "no effect" not in place)
    return _finish_groups(figure, order)


_SHORT = {CENTRE: "digits, centre", CORNER: "digits, corner", DRAWN: "digits, drawn"}


def _grouped(figure: Figure, arm: str, colour: str, places: dict[str, tuple[int, int]]) -> None:
    """An arm's rates, beside those of the other arms at each place."""
    if places:
        _dots(figure, list(places), list(places.values()), mode="markers", name=arm)
        figure.data[-1].marker = {"color": colour, "size": 9}


def _finish_groups(figure: Figure, order: list[str]) -> Figure | None:
    _level_line(figure)
    figure.update_yaxes(range=[-0.03, 1.05])
    figure.update_xaxes(categoryorder="array", categoryarray=order)
    figure.update_layout(scattermode="group", scattergap=0.3)
    return figure if figure.data else None


def _null_figure(results: Results, arms: list[str]) -> Figure | None:
    """How p-values are spread where there is no effect."""
    palette = colours(arms)
    figure = new_figure(
        "How the p-values of runs without an effect (smallest n) differ from uniform ones. Above "
        "zero near the left end: too many false alarms. Grey: where 95 % of uniform samples of as "
        "many runs as the method has would stay, pointwise.",
        x="p-value",
        y="share of runs at or below, minus p",
    )
    grid = np.linspace(0.0, 1.0, 201)
    band = 0
    for arm in arms:
        part = results.where(arm=arm, dataset="null")
        if len(part) < 20:
            continue
        p = np.sort(part.values("p", n=int(part.frame["n"].min())).to_numpy())
        share = np.searchsorted(p, grid, side="right") / len(p)
        band = max(band, len(p))
        figure.add_scatter(
            x=grid, y=share - grid, name=arm, mode="lines", line={"color": palette[arm], "width": 2}
        )
    if not figure.data:
        return None
    half = ndtri(0.975) * np.sqrt(grid * (1 - grid) / band)
    figure.add_scatter(
        x=np.concatenate([grid, grid[::-1]]),
        y=np.concatenate([half, -half[::-1]]),
        fill="toself",
        fillcolor="rgba(127,127,127,0.18)",
        line={"width": 0},
        mode="lines",
        hoverinfo="skip",
        showlegend=False,
    )
    return figure


def _even_figure(results: Results, arms: list[str]) -> Figure | None:
    """Power against n, even effects."""
    palette = colours(arms)
    figure = new_figure(
        "Power against an even effect (the square of a combination of X), with exact 95 % "
        "intervals. Covariances and straight lines stay near the 5 % level.",
        y="power",
    )
    order: list[str] = []
    for arm in arms:
        places = {}
        for shape in ("sparse", "dense"):
            part = results.where(arm=arm, dataset=f"even-{shape}")
            for n in sorted(part.frame["n"].unique()) if len(part) else ():
                places[f"{shape}, n = {n}"] = _rate_of(part, "power", "", n=n)[:2]
        _grouped(figure, arm, palette[arm], places)
        order += [place for place in places if place not in order]
    return _finish_groups(figure, order)


def _errors_figure(results: Results) -> Figure | None:
    """Rejections under the null against n, by what is wrong."""
    part = results.where(dataset="two errors")
    if not len(part):
        return None
    palette = colours(ERRORS)
    figure = new_figure(
        "False alarms when the regression, the sampler, or both are off by 2 n^(-1/4) cos(Z). One "
        "wrong nuisance leaves the level where it is; two do not.",
        x="rows",
        y="rejection rate",
        log_x=True,
    )
    sizes = sorted(part.frame["n"].unique())
    for wrong in ERRORS:
        counts = [_rate_of(part, "false_alarm", "", wrong=wrong, n=n)[:2] for n in sizes]
        kept = [(int(n), c) for n, c in zip(sizes, counts) if c[1]]
        if kept:
            _dots(
                figure,
                [n for n, _ in kept],
                [c for _, c in kept],
                mode="lines+markers",
                name=f"{wrong} wrong",
                line={"color": palette[wrong]},
            )
    _level_line(figure)
    figure.update_xaxes(tickvals=[int(n) for n in sizes])
    return figure


def _local_figure(results: Results) -> Figure | None:
    """Power against n where the effect shrinks."""
    part = results.where(dataset="local")
    if not len(part):
        return None
    table = part.frame.pivot_table(index="seed", columns="n", values="power").dropna()
    if table.empty:
        return None
    figure = new_figure(
        "Power against a linear effect of size 1.8/sqrt(n) with exact nuisances: mean and "
        "pointwise 95 % band over seeds. Flat means that the test sees effects of the order "
        "1/sqrt(n).",
        x="rows",
        y="power",
        log_x=True,
    )
    sizes = [int(n) for n in table.columns]
    add_ribbon(figure, sizes, table.to_numpy(), "exact", colours(["exact"])["exact"])
    _level_line(figure)
    figure.update_xaxes(tickvals=sizes)
    figure.update_yaxes(range=[0, 1])
    return figure


# --- a person's table ----------------------------------------------------------------------------

Columns = tuple[list[str], list[str], list[str]]  # Y, X and Z


def _columns_of(
    source: UserData,
    response: str | None,
    candidates: list[str] | None,
    given: list[str] | None,
    ignore: list[str] | None,
    missing: Literal["error", "drop"],
) -> tuple[pd.DataFrame, Columns]:
    """The table without what is ignored, and who is who in it."""
    path = source.path
    names = column_names(path)
    try:
        out = pick_columns(names, ignore, option="ignore") if ignore else []
        names = [name for name in names if name not in out]
        y = pick_columns(names, [response], option="response") if response else []
        x = pick_columns(names, candidates, y, "candidates") if candidates else []
        z = pick_columns(names, given, [*y, *x], "given") if given else []
    except InputError as error:
        raise InputError(f"{path}: {error.message}", error.hint) from error
    used = [*y, *x, *z] if y and x and z else names
    frame = read_table(path, used, numeric=False, missing=missing)
    free = frame.select_dtypes("number").columns.difference([*x, *z], sort=False)
    numeric = [c for c in free if frame[c].nunique() > 1]
    if not y:
        y = numeric[-1:]
    x = x or [c for c in numeric if c not in y][:1]
    if not y or not x:
        raise InputError(
            f"{path}: {len(numeric)} numeric columns vary and have no role yet",
            "two are needed, or name response and candidates",
        )
    z = z or [c for c in names if c not in (*y, *x)]
    if not z:
        raise InputError(f"{path}: no column is left for Z", "name it with given=...")
    return frame, (y, x, z)


class _Table:
    """X and Z of a person's table, and outcomes made from them with and without an effect of X."""

    MOST = 500  # rows a run takes

    def __init__(
        self, name: str, x: np.ndarray, y: np.ndarray, z: np.ndarray, effect: str, strength: float
    ) -> None:
        self.name, self.x, self.z, self.effect, self.strength = name, x, z, effect, strength
        self.roles: dict[str, str] = {}
        smoother = KernelSmoother().fit(z, y)
        self.noise = smoother.left_out_
        self.fitted = y - self.noise
        of_x = KernelSmoother(shared=False).fit(z, x, like=smoother)
        _something_left(smoother.r2_, y, z, "the response")
        _something_left(of_x.r2_, x, z, "the candidates")
        spread = of_x.left_out_.std(axis=0)
        self.residual = of_x.left_out_ / np.where(spread > 0, spread, 1.0)
        self.n = min(len(x), self.MOST)

    def outcome(
        self, rng: np.random.Generator, planted: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """X, a made outcome and Z: fit plus noise of random sign, plus the effect if planted."""
        rows = rng.permutation(len(self.x))[: self.n]
        noise = self.noise[rows] * rng.choice([-1.0, 1.0], (self.n, 1))
        direction = rng.standard_normal(self.x.shape[1])
        signal = self.residual[rows] @ (direction / np.linalg.norm(direction))
        if self.effect == "even":
            signal = signal**2
        signal = (signal - signal.mean()) / max(signal.std(), 1e-12)
        y = self.fitted[rows] + noise
        if planted:
            y = y + self.strength * noise.std() * signal[:, None]
        return self.x[rows], y, self.z[rows]

    @classmethod
    def of(
        cls, frame: pd.DataFrame, name: str, columns: Columns, effect: str, strength: float
    ) -> _Table:
        """Encoded and checked; what was chosen for a person is named in every row of the table."""
        if len(frame) < MIN_ROWS:
            raise InputError(f"{len(frame)} rows, at least {MIN_ROWS} are needed")
        parts = {}
        for role, names in zip(("response", "candidates", "given"), columns):
            try:
                part = encode_columns(frame[names], role)
            except InputError as error:
                hint = f"{error.hint}; ignore=... leaves columns out"
                raise InputError(error.message, hint) from error
            varies = part.values.std(axis=0) > 0
            # other columns of Z may be constant: nobody chose them one by one
            if not (varies.any() if role == "given" else varies.all()):
                flat = part.names[int(np.flatnonzero(~varies)[0])]
                raise InputError(
                    f"{role} column {flat!r} is constant", f"leave it out: ignore={flat}"
                )
            parts[role] = part.values[:, varies]
        y, x, z = parts.values()
        if min(len(y), cls.MOST) <= x.shape[1] + z.shape[1] + 1:
            raise InputError(
                f"{len(y)} rows and {x.shape[1] + z.shape[1]} columns: the F-test needs more rows",
                "name fewer columns with given=...",
            )
        table = cls(name, x, y, z, effect, strength)
        table.roles = dict(zip("yxz", map(_few, columns)))
        return table


def _something_left(r2: np.ndarray, values: np.ndarray, z: np.ndarray, what: str) -> None:
    """Refuse a table in which every effect that could be planted is one of rounding errors."""
    column, _ = determined_by(values, z)
    if ((column >= 0) | (r2 >= NO_VARIATION)).all():
        raise InputError(
            f"nothing is left of {what} once the given columns are known: no effect can be planted",
            "leave the column out that says the same: ignore=..., or name others",
        )


def _few(names: list[str], most: int = 3) -> str:
    """Names in a cell of a table."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return "+".join(names[:most]) + more
