"""The study of cmi-test: size, power, double robustness, local power, images; a person's table."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from scipy.special import ndtri

from practicum.errors import InputError
from practicum.stats.cmi_test.baselines import gcm_test, nested_f_test, pcm_test
from practicum.stats.cmi_test.conditional_mean import MIN_ROWS, ConditionalMeanTest
from practicum.stats.cmi_test.simulate import GaussianDesign
from practicum.stats.cmi_test.smoother import KernelSmoother
from practicum.stats.cmi_test.tables import encode_columns, read_table
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
from practicum.study.evidence import Sample, binomial_interval, differences, number
from practicum.study.plots import add_ribbon, colours, new_figure

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from practicum.data.kinds import UserData

LEVEL = 0.05
SIZES = {"linear": 0.2, "even": 0.5}
ERRORS = ("neither", "regression", "sampler", "both")
CENTRE, CORNER = "digits, centre box", "digits, corner of noise"
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
        "power": Measure("power: runs that reject at 5 % where there is an effect", "higher"),
        "false_alarm": Measure(
            "false alarms: runs that reject at 5 % where there is none", "lower"
        ),
    }

    def __init__(self, table: _Table | None = None) -> None:
        self.table = table

    # --- the grid ---

    def trials(self, scale: Scale) -> Iterable[Trial]:
        if self.table is not None:
            for seed in scale.seeds(smoke=3, cpu=100, paper=500):
                for arm in PEOPLE:
                    yield self.trial(self.table.name, arm, seed, n=self.table.n)
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
        for seed in scale.seeds(smoke=1, cpu=10, paper=500):
            yield self.trial("null", "published", seed, n=small, size=0.0, epochs=epochs)
        for seed in scale.seeds(smoke=1, cpu=3, paper=500):
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
        for seed in scale.seeds(smoke=8, cpu=120, paper=500):
            for n in sizes:
                yield self.trial("local", "exact", seed, n=n, size=1.8 / np.sqrt(n))

    def _images(self, scale: Scale) -> Iterable[Trial]:
        n = scale.pick(smoke=150, cpu=400, paper=400)
        for seed in scale.seeds(smoke=3, cpu=60, paper=100):
            yield self.trial(CENTRE, "cmi", seed, n=n)
        for seed in scale.seeds(smoke=3, cpu=240, paper=500):
            yield self.trial(CORNER, "cmi", seed, n=n)

    # --- a cell ---

    def group(self, trial: Trial) -> Hashable | None:
        """Twenty-five quick cells at a time: handing them out one by one takes longer than some."""
        if trial.arm == "published":
            return None
        return trial.dataset, trial.arm, trial["n"], trial.seed // 25

    def run(self, trial: Trial) -> Metrics:
        if self.table is not None:
            return self._run_table(trial)
        if trial.dataset in (CENTRE, CORNER):
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
            "Size and power": _rates_figure(results, list(self.arms), dict(self.measures)),
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
        effect: Annotated[
            Literal["even", "linear"], "shape of the effect that is planted to measure power"
        ] = "even",
        strength: Annotated[float, "its standard deviation, in units of the noise"] = 0.7,
    ) -> ConditionalMeanStudy:
        """False alarms and power on outcomes made from the table's own X, Z and noise."""
        if strength <= 0:
            raise InputError(f"strength={strength}", "a positive number")
        return cls(_Table.read(source, response, candidates, given, effect, strength))


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
        # on X itself, as in the paper; draws on top of the true mean would change nothing
        assert design is not None
        options |= {"regression": design.mean_given_z, "generator": design.conditional}
        options |= {"coordinates": "raw", "draws": 32, "n_check": 0}
    elif trial.arm == "published, exact":
        assert design is not None
        options |= {"regression": design.mean_given_z, "generator": design.conditional}
        options |= {"preset": "paper", "n_check": 0}
    elif trial.arm == "published":
        from practicum.stats.cmi_test.networks import GenerativeNetwork, NetworkRegressor

        epochs = trial["epochs"]
        options |= {"generator": GenerativeNetwork(epochs), "regression": NetworkRegressor(epochs)}
        options |= {"preset": "paper", "n_check": 0}
    result = ConditionalMeanTest(**options).fit(x, y, z).result_
    found = {"p": result.pvalue, "r2_y": result.r2_y_given_z}
    if result.size_check is not None:
        found["size_check"] = result.size_check
    if trial.arm == "published":
        found |= {"mmd": result.mmd_x_given_z, "conclusive": float(result.conclusive)}
    return found


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


def _images(trial: Trial) -> Metrics:
    """X a box of the image, Y the ten classes, Z the other pixels."""
    rng = trial.rng("data")
    images, classes = _digits()
    rows = rng.choice(len(images), trial["n"], replace=False)
    images, y = images[rows].copy(), classes[rows]
    box = np.zeros(images.shape[1:], dtype=bool)
    if trial.dataset == CENTRE:
        box[2:6, 2:6] = True
    else:
        box[:2, :2] = True
        images[:, box] = rng.standard_normal((len(rows), int(box.sum())))
    x, z = images[:, box], images[:, ~box]
    z = z[:, z.std(axis=0) > 0]
    seed = int(trial.rng("test").integers(2**31))
    test = ConditionalMeanTest(random_state=seed).fit(x, y, z)
    outcome = {"p": test.pvalue_, "size_check": float(test.result_.size_check or 0.0)}
    return _metrics(outcome, trial.dataset == CORNER)


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
        notes.append(
            f"The networks rejected in {hits} of {runs} runs at n = {networks[0]} "
            f"{binomial_interval(hits, runs)}: shown, too few to decide."
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
            gain = Sample(differences(*results.paired("power", "cmi", "pcm", **where)))
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
    change = table.to_numpy() @ slope * np.ptp(steps)
    parts = [
        between(
            change,
            -0.2,
            0.2,
            f"the change of the power from n = {table.columns[0]} to {table.columns[-1]}",
        )
    ]
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
    return all_of(centre, corner, sentence="Digits of 8 x 8 pixels stand in for faces of 48 x 48.")


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


def _rates_figure(results: Results, arms: list[str], measures: dict[str, Measure]) -> Figure | None:
    """Every arm on every data set at its smallest n."""
    palette = colours(arms)
    figure = new_figure(
        "Share of runs that reject at 5 %, with exact 95 % intervals. On the data sets without an "
        "effect (left of the gap) every test should sit on the dotted line; on the others higher "
        "is better.",
        y="rejection rate",
        height=480,
    )
    frame = results.frame
    if frame.empty:
        return None
    shown = [d for d in dict.fromkeys(frame["dataset"]) if d not in ("two errors", "local")]
    for arm in arms:
        places, counts = [], []
        for dataset in shown:
            part = results.where(arm=arm, dataset=dataset)
            if not len(part):
                continue
            n = int(part.frame["n"].min())
            for metric in measures:
                values = part.values(metric, n=n)
                if len(values):
                    kind = "no effect" if metric == "false_alarm" else "effect"
                    places.append(f"{dataset}<br>{kind}, n = {n}")
                    counts.append((int(values.sum()), len(values)))
        if counts:
            colour = {"color": palette[arm], "size": 9}
            _dots(figure, places, counts, mode="markers", name=arm)
            figure.data[-1].marker = colour
    _level_line(figure)
    figure.update_yaxes(range=[-0.02, 1.02])
    figure.update_layout(scattermode="group", scattergap=0.3)
    return figure if figure.data else None


def _null_figure(results: Results, arms: list[str]) -> Figure | None:
    """How p-values are spread where there is no effect."""
    palette = colours(arms)
    figure = new_figure(
        "Sorted p-values of runs without an effect (smallest n), minus what uniform p-values "
        "would give. Above zero near the left end: too many false alarms. Grey: where 95 % of "
        "uniform samples of the method's number of runs stay, pointwise.",
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
        "Power against an even effect (a square of X), sparse (solid) and dense (dashed), with "
        "exact 95 % intervals. Covariances and straight lines stay at the 5 % level.",
        x="rows",
        y="power",
    )
    for arm in arms:
        for shape, dash in (("sparse", "solid"), ("dense", "dash")):
            part = results.where(arm=arm, dataset=f"even-{shape}")
            if not len(part):
                continue
            sizes = sorted(part.frame["n"].unique())
            counts = [_rate_of(part, "power", "", n=n)[:2] for n in sizes]
            _dots(
                figure,
                [int(n) for n in sizes],
                counts,
                mode="lines+markers",
                name=f"{arm}, {shape}",
                line={"color": palette[arm], "dash": dash},
            )
    _level_line(figure)
    figure.update_yaxes(range=[-0.02, 1.02])
    return figure if figure.data else None


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


class _Table:
    """X and Z of a person's table, and outcomes made from them with and without an effect of X."""

    MOST = 500  # rows a run takes

    def __init__(
        self, name: str, x: np.ndarray, y: np.ndarray, z: np.ndarray, effect: str, strength: float
    ) -> None:
        self.name, self.x, self.z, self.effect, self.strength = name, x, z, effect, strength
        smoother = KernelSmoother().fit(z, y)
        self.noise = smoother.left_out_
        self.fitted = y - self.noise
        of_x = KernelSmoother(shared=False).fit(z, x, like=smoother)
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
    def read(
        cls,
        source: UserData,
        response: str | None,
        candidates: list[str] | None,
        given: list[str] | None,
        effect: str,
        strength: float,
    ) -> _Table:
        path = source.path
        named = [*([response] if response else []), *(candidates or []), *(given or [])]
        whole = given is None or response is None or candidates is None
        frame = read_table(path, None if whole else named, numeric=False)
        try:
            return cls._from(frame, source.name, response, candidates, given, effect, strength)
        except InputError as error:
            raise InputError(f"{Path(path)}: {error.message}", error.hint) from error

    @classmethod
    def _from(
        cls,
        frame: Any,
        name: str,
        response: str | None,
        candidates: list[str] | None,
        given: list[str] | None,
        effect: str,
        strength: float,
    ) -> _Table:
        numeric = list(frame.select_dtypes("number").columns)
        if len(frame) < MIN_ROWS:
            raise InputError(f"{len(frame)} rows, at least {MIN_ROWS} are needed")
        if len(numeric) < 2 and not (response and candidates):
            raise InputError(
                f"{len(numeric)} numeric columns", "at least two, or name response and candidates"
            )
        y_name = response or [c for c in numeric if c not in (candidates or [])][-1]
        x_names = candidates or [next(c for c in numeric if c != y_name)]
        absent = [c for c in (y_name, *x_names, *(given or [])) if c not in frame.columns]
        if absent:
            raise InputError(f"no column {absent[0]!r}", f"columns: {', '.join(frame.columns)}")
        z_names = given or [c for c in frame.columns if c not in (y_name, *x_names)]
        if not z_names:
            raise InputError("no column is left for Z", "name it with given=...")
        parts = [encode_columns(frame[names]).values for names in ([y_name], x_names, z_names)]
        y, x, z = parts
        z = z[:, z.std(axis=0) > 0]
        if not z.shape[1] or not (y.std(axis=0) > 0).all() or not (x.std(axis=0) > 0).all():
            raise InputError("a column of the response, the candidates or the rest is constant")
        if min(len(y), cls.MOST) <= x.shape[1] + z.shape[1] + 1:
            raise InputError(
                f"{len(y)} rows and {x.shape[1] + z.shape[1]} columns: the F-test needs more rows",
                "name fewer columns with given=...",
            )
        return cls(name, x, y, z, effect, strength)
