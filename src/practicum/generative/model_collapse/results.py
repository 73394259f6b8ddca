"""What a generation run returns: a tidy table, intervals, a verdict, a picture."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Float

from practicum.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

Label = Literal["collapse", "plateau", "slowing", "stable", "inconclusive"]

_RESAMPLES = 10_000
FEWEST_SEEDS = 5  # for a sentence: the range of four misses the mean in one case of eight
_FEWEST_GENERATIONS = 4  # to tell a line from a logarithm
_FEWEST_TO_LEVEL = 10  # of fewer, too little of the rise lies behind to see a slow one go on
_LEVEL = 0.1  # share of the rise that the second half of the generations may have added


@dataclass(frozen=True)
class WorkflowVerdict:
    """Whether one workflow collapses.

    Attributes
    ----------
    workflow : str
    label : {"collapse", "plateau", "slowing", "stable", "inconclusive"}
        See :meth:`GenerationResult.verdict`.
    gain : float
        Mean over seeds of loss at the last generation minus loss at generation 1.
    low, high : float
        Its confidence interval (bootstrap over seeds).
    sentence : str
        The verdict in words.

    Examples
    --------
    >>> WorkflowVerdict("replace", "stable", 0.0, -0.1, 0.1, "replace is stable").label
    'stable'
    """

    workflow: str
    label: Label
    gain: float
    low: float
    high: float
    sentence: str


@dataclass(frozen=True)
class GenerationResult:
    """Losses of every workflow, seed and generation.

    Attributes
    ----------
    frame : pandas.DataFrame
        Tidy: workflow, seed, generation, pool_size, train_size, real_fraction, loss, and whatever
        metrics the model has.
    settings : dict
        What was run.
    loss_unit : str or None
        ``"nats"`` when the loss is a negative log-likelihood per item, ``"nats per character"``
        for the language models.

    Examples
    --------
    >>> from practicum.generative.model_collapse import run_generations
    >>> X = np.random.default_rng(0).normal(size=(40, 1))
    >>> result = run_generations(X, "gaussian", "replace", n_generations=30, seeds=range(8))
    >>> result.verdict()["replace"].label
    'collapse'
    """

    frame: pd.DataFrame
    settings: dict
    loss_unit: str | None = None

    @classmethod
    def from_rows(cls, rows: list[dict], settings: dict, loss_unit: str | None) -> GenerationResult:
        """Build a result of one dict per workflow, seed and generation.

        Examples
        --------
        >>> row = {"workflow": "replace", "seed": 0, "generation": 1, "loss": 1.0}
        >>> len(GenerationResult.from_rows([row], {}, None).frame)
        1
        """
        import pandas as pd

        return cls(pd.DataFrame(rows), settings, loss_unit)

    def curves(self, workflow: str, column: str = "loss") -> Float[np.ndarray, "seeds generations"]:
        """One column of a workflow, a row per seed.

        Raises
        ------
        InputError
            If the workflow was not run or there is no such column.

        Examples
        --------
        >>> row = {"workflow": "replace", "seed": 0, "generation": 1, "loss": 1.0}
        >>> GenerationResult.from_rows([row], {}, None).curves("replace").tolist()
        [[1.0]]
        """
        if column not in self.frame or workflow not in set(self.frame["workflow"]):
            raise InputError(
                f"no column {column!r} or workflow {workflow!r} in this result",
                f"columns: {', '.join(self.frame.columns)}",
            )
        part = self.frame[self.frame["workflow"] == workflow]
        return part.pivot(index="seed", columns="generation", values=column).to_numpy()

    @property
    def workflows(self) -> list[str]:
        """The workflows that were run, in order."""
        return list(dict.fromkeys(self.frame["workflow"]))

    def summary(self, ci: float = 0.95, column: str = "loss") -> pd.DataFrame:
        """Mean with a confidence interval over seeds, median and number of infinite values.

        Parameters
        ----------
        ci : float
            Level of the interval: bootstrap over seeds; of fewer than five, their range.
        column : str
            ``"loss"`` or a metric.

        Returns
        -------
        pandas.DataFrame
            workflow, generation, mean, low, high, median, n_seeds, n_infinite.  The median is there
            because a few seeds can carry the mean.

        Raises
        ------
        InputError
            If ci is not strictly between 0 and 1.

        Examples
        --------
        >>> row = {"workflow": "replace", "seed": 0, "generation": 1, "loss": 1.0}
        >>> GenerationResult.from_rows([row], {}, None).summary()["mean"].tolist()
        [1.0]
        """
        import pandas as pd

        if not 0 < ci < 1:
            raise InputError(f"ci={ci}: must lie strictly between 0 and 1")
        parts = []
        for workflow in self.workflows:
            curves = self.curves(workflow, column)
            low, high = bootstrap_mean(curves, ci)
            part = pd.DataFrame({"generation": np.arange(1, curves.shape[1] + 1)})
            part.insert(0, "workflow", workflow)
            with np.errstate(invalid="ignore"):
                part["mean"] = curves.mean(axis=0)
            part["low"], part["high"] = low, high
            part["median"] = np.median(curves, axis=0)
            part["n_seeds"] = len(curves)
            part["n_infinite"] = np.isinf(curves).sum(axis=0)
            parts.append(part)
        return pd.concat(parts, ignore_index=True)

    def verdict(self, ci: float = 0.95) -> dict[str, WorkflowVerdict]:
        """Whether each workflow collapses, levels off, or what can be said instead.

        What counts is the rise of the loss, and what its second half (from generation G/2 to G)
        added to it. A line adds half of the rise there; a logarithm, which is what accumulating can
        cost at most and which never ends, log 2 / log G of it (39 % at 6 generations, 19 % at 40).
        Intervals decide, over seeds.

        * *collapse*: the second half added more than a logarithm would have, and is nearer to a
          line; or the loss became infinite in most seeds.
        * *plateau*: the second half added less than a tenth of the rise, of 10 generations at
          least. A rise that goes on at that pace grows by a tenth when the generations double,
          by a third when there are ten times as many.
        * *slowing*: nearer to a logarithm than to a line, and no level in sight.
        * *stable*: no rise that these seeds can tell from chance.
        * *inconclusive*: a rise of which nothing more can be said; or fewer than four generations
          or five seeds.

        Parameters
        ----------
        ci : float
            Level of the intervals (bootstrap over seeds, paired by seed).

        Returns
        -------
        dict of WorkflowVerdict

        Examples
        --------
        >>> row = {"workflow": "replace", "seed": 0, "generation": 1, "loss": 1.0}
        >>> GenerationResult.from_rows([row], {}, None).verdict()["replace"].label
        'inconclusive'
        """
        return {w: _judge(w, self.curves(w), ci) for w in self.workflows}

    def plot(self, column: str = "loss", ci: float = 0.95) -> go.Figure:
        """Mean of a column over generations, with a ribbon for the interval over seeds.

        Examples
        --------
        >>> row = {"workflow": "replace", "seed": 0, "generation": 1, "loss": 1.0}
        >>> len(GenerationResult.from_rows([row], {}, None).plot().data)
        2
        """
        from practicum.generative.model_collapse.figures import generation_curves

        unit = "nats per item" if self.loss_unit == "nats" else self.loss_unit
        title = column.replace("_", " ")
        if column == "loss":
            title = "loss on real data" + (f" ({unit})" if unit else "")
        return generation_curves(self.summary(ci, column), y_title=title)

    def to_json(self) -> str:
        """Settings, summary, verdicts and all rows as one JSON text.

        Infinite losses are written as the strings ``"inf"`` and ``"-inf"``: JSON has no infinity.

        Examples
        --------
        >>> row = {"workflow": "replace", "seed": 0, "generation": 1, "loss": float("inf")}
        >>> json.loads(GenerationResult.from_rows([row], {}, None).to_json())["rows"][0]["loss"]
        'inf'
        """
        content = {
            "settings": self.settings,
            "loss_unit": self.loss_unit,
            "verdict": {w: vars(v) for w, v in self.verdict().items()},
            "summary": self.summary().to_dict(orient="records"),
            "rows": self.frame.to_dict(orient="records"),
        }
        return json.dumps(plain_numbers(content), indent=1, allow_nan=False)


def plain_numbers(value: Any) -> Any:
    """JSON-safe copy: numpy scalars unwrapped, infinite numbers as strings, NaN as null.

    Examples
    --------
    >>> plain_numbers({"loss": [np.float64(1.5), np.inf, np.nan]})
    {'loss': [1.5, 'inf', None]}
    """
    if isinstance(value, dict):
        return {str(k): plain_numbers(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain_numbers(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None if np.isnan(value) else str(value)
    return value


def bootstrap_mean(values: Float[np.ndarray, "seeds k"], ci: float):
    """Bootstrap interval of the mean over seeds, per column; paired across columns.

    Plain percentiles are too narrow for a few seeds (of ten normal values they miss the mean in one
    case of ten, not in one of twenty), so the tails are widened to those of Student's t (Hesterberg
    2015, "expanded percentile"). It is never wider than the range of the seeds, all there is to go
    by below five of them, and one seed says nothing about the spread.

    Parameters
    ----------
    values : array, shape (seeds, k)
    ci : float
        Level.

    Returns
    -------
    low, high : arrays, shape (k,)

    Examples
    --------
    >>> [float(end[0]) for end in bootstrap_mean(np.ones((5, 1)), 0.95)]
    [1.0, 1.0]
    """
    from scipy.special import ndtr, stdtrit

    n_seeds, columns = values.shape
    if n_seeds < 2:
        return np.full(columns, -np.inf), np.full(columns, np.inf)
    picks = np.random.default_rng(0).integers(n_seeds, size=(_RESAMPLES, n_seeds))
    counts = np.zeros((_RESAMPLES, n_seeds))
    np.add.at(counts, (np.arange(_RESAMPLES)[:, None], picks), 1.0)
    # Infinite losses would turn 0 * inf into NaN: any resample that holds one has an infinite mean.
    finite = np.where(np.isfinite(values), values, 0.0)
    means = counts @ finite / n_seeds
    for sign in (np.inf, -np.inf):
        means[(counts @ (values == sign)) > 0] = sign
    tail = ndtr(np.sqrt(n_seeds / (n_seeds - 1)) * stdtrit(n_seeds - 1, (1 - ci) / 2))
    low, high = np.quantile(means, [tail, 1 - tail], axis=0, method="inverted_cdf")
    return low, high


def bracketed(spread: tuple[float, float, float]) -> str:
    """A mean and its interval; the mean alone where one seed gives no interval.

    Examples
    --------
    >>> bracketed((0.5, 0.25, 0.75)), bracketed((0.5, -np.inf, np.inf))
    ('+0.5 [+0.25, +0.75]', '+0.5')
    """
    mean, low, high = spread
    return f"{mean:+.3g}" + (
        f" [{low:+.3g}, {high:+.3g}]" if low > -np.inf or high < np.inf else ""
    )


def _judge(
    workflow: str, curves: Float[np.ndarray, "seeds generations"], ci: float
) -> WorkflowVerdict:
    n_seeds, G = curves.shape
    infinite = np.isinf(curves[:, -1]).mean()
    if np.isinf(curves[:, 0]).any():
        why = "is undecided: the loss is infinite at generation 1 already"
        return _verdict(workflow, "inconclusive", (np.nan,) * 3, why)
    if infinite > 0.5:
        why = f"collapses: the loss is infinite at generation {G} in {infinite:.0%} of the seeds"
        return _verdict(workflow, "collapse", (np.inf,) * 3, why)
    curves = curves[np.isfinite(curves).all(axis=1)]
    if not len(curves):
        why = "is undecided: the loss is infinite at some generation of every seed"
        return _verdict(workflow, "inconclusive", (np.nan,) * 3, why)
    rise = _spread(curves[:, -1] - curves[:, 0], ci)
    seeds = f"{len(curves)} seed{'s' if len(curves) > 1 else ''}"
    if len(curves) < n_seeds:
        seeds += f" of {n_seeds}, infinite in the others"
    changed = f"the loss changed by {bracketed(rise)} from generation 1 to {G} ({seeds})"
    if G < _FEWEST_GENERATIONS or len(curves) < FEWEST_SEEDS:
        needed = f"{_FEWEST_GENERATIONS} generations and {FEWEST_SEEDS} seeds"
        why = f"is undecided: {changed}; a verdict needs {needed}"
        return _verdict(workflow, "inconclusive", rise, why)
    if rise[1] <= 0:
        words = "does not degrade" if rise[2] < 0 else "shows no clear rise"
        return _verdict(workflow, "stable", rise, f"{words}: {changed}")
    label, why = _judge_rise(curves, ci, changed)
    return _verdict(workflow, label, rise, why)


def _judge_rise(curves, ci: float, changed: str) -> tuple[Label, str]:
    """How a rise goes on: what its second half added, against a line, a logarithm, and a tenth."""
    G = curves.shape[1]
    m = (G + 1) // 2
    early, late = curves[:, m - 1] - curves[:, 0], curves[:, -1] - curves[:, m - 1]
    logarithm = np.log(G / m) / np.log(m)  # second half over first half
    middle = np.sqrt(logarithm * (G - m) / (m - 1))  # halfway from a logarithm's to a line's
    faster = _spread(late - logarithm * early, ci)[1] > 0  # than a logarithm
    if faster and late.mean() > middle * early.mean():
        return "collapse", f"collapses: {changed} and is still rising"
    halves = f"{changed}, of which generations {m} to {G} added {bracketed(_spread(late, ci))}"
    if G >= _FEWEST_TO_LEVEL and _spread(late - _LEVEL * (early + late), ci)[2] < 0:
        return "plateau", f"degrades, then levels off: {halves}"
    data = f"{len(curves)} seeds and {G} generations do not tell"
    if G < _FEWEST_TO_LEVEL:
        data = f"{G} generations are too few to tell"
    if _spread(late - middle * early, ci)[2] < 0:
        pace = "ever more slowly" + ", but faster than a logarithm" * faster
        why = f"degrades, {pace}: {halves}; {data} whether it levels off"
        return "slowing", why
    return "inconclusive", f"degrades: {halves}; {data} how it goes on"


def _spread(values: Float[np.ndarray, " seeds"], ci: float) -> tuple[float, float, float]:
    """Mean over seeds and its interval."""
    low, high = bootstrap_mean(values[:, None], ci)
    return float(values.mean()), float(low[0]), float(high[0])


def _verdict(workflow: str, label: Label, rise, why: str) -> WorkflowVerdict:
    gain, low, high = map(float, rise)
    return WorkflowVerdict(workflow, label, gain, low, high, f"{workflow} {why}.")
