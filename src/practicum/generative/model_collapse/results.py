"""What a generation run returns: a tidy table, intervals, a verdict, a picture."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from jaxtyping import Float

from practicum.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

Label = Literal["collapse", "plateau", "stable", "inconclusive"]

_RESAMPLES = 2000


@dataclass(frozen=True)
class WorkflowVerdict:
    """Whether one workflow collapses.

    Attributes
    ----------
    workflow : str
    label : {"collapse", "plateau", "stable", "inconclusive"}
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
        ``"nats"`` when the loss is a negative log-likelihood per item.

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
            Level of the interval: percentile bootstrap over seeds.
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
        """Collapse, plateau or stable, per workflow.

        * *collapse*: the loss keeps rising: its rise over the second half of the generations is
          significant, and closer to what a linear rise would add there than to what a logarithmic
          one would (accumulating can cost up to log t nats); or it became infinite in most seeds.
        * *plateau*: a significant rise that levels off.
        * *stable*: no significant rise.
        * *inconclusive*: fewer than four generations or three seeds.

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

        unit = f" ({self.loss_unit} per item)" if self.loss_unit and column == "loss" else ""
        title = "loss on real data" + unit if column == "loss" else column.replace("_", " ")
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
        return json.dumps(_plain(content), indent=1, allow_nan=False)


def _plain(value):
    """JSON-safe copy: numpy scalars unwrapped, non-finite numbers as strings."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None if np.isnan(value) else str(value)
    return value


def bootstrap_mean(values: Float[np.ndarray, "seeds k"], ci: float):
    """Percentile bootstrap interval of the mean over seeds, per column; paired across columns.

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
    n_seeds = len(values)
    if n_seeds < 2:
        return values[0].copy(), values[0].copy()
    picks = np.random.default_rng(0).integers(n_seeds, size=(_RESAMPLES, n_seeds))
    counts = np.zeros((_RESAMPLES, n_seeds))
    np.add.at(counts, (np.arange(_RESAMPLES)[:, None], picks), 1.0)
    # Infinite losses would turn 0 * inf into NaN: any resample that holds one has an infinite mean.
    finite = np.where(np.isfinite(values), values, 0.0)
    means = counts @ finite / n_seeds
    for sign in (np.inf, -np.inf):
        means[(counts @ (values == sign)) > 0] = sign
    tail = (1 - ci) / 2
    low, high = np.quantile(means, [tail, 1 - tail], axis=0, method="inverted_cdf")
    return low, high


def _judge(workflow: str, curves, ci: float) -> WorkflowVerdict:
    n_seeds, generations = curves.shape
    infinite = np.isinf(curves[:, -1]).mean()
    if np.isinf(curves[:, 0]).any():
        why = "the loss is infinite at generation 1 already"
        return _verdict(workflow, "inconclusive", np.nan, np.nan, np.nan, why)
    if infinite > 0.5:
        why = f"the loss is infinite at generation {generations} in {infinite:.0%} of the seeds"
        return _verdict(workflow, "collapse", np.inf, np.inf, np.inf, why)
    curves = curves[np.isfinite(curves).all(axis=1)]
    middle = (generations - 1) // 2
    rises = np.column_stack([curves[:, -1] - curves[:, 0], curves[:, -1] - curves[:, middle]])
    (low, late_low), (high, _) = bootstrap_mean(rises, ci)
    gain, late = rises.mean(axis=0)
    why = (
        f"the loss changed by {gain:+.3g} [{low:+.3g}, {high:+.3g}] from generation 1 to "
        f"{generations} ({n_seeds} seeds)"
    )
    if generations < 4 or n_seeds < 3:
        label: Label = "inconclusive"
        why += "; a verdict needs 4 generations and 3 seeds"
    elif low <= 0:
        label = "stable"
    elif late_low > 0 and late > _leveling_ratio(generations, middle + 1) * (gain - late):
        label = "collapse"
        why += " and is still rising"
    else:
        label = "plateau"
        why += " and levels off"
    return _verdict(workflow, label, gain, low, high, why)


def _leveling_ratio(G: int, m: int) -> float:
    """Rise after generation m over rise before it, between a logarithm's and a line's."""
    return float(np.sqrt(np.log(G / m) / np.log(m) * (G - m) / (m - 1)))


def _verdict(workflow, label, gain, low, high, why) -> WorkflowVerdict:
    words = {
        "collapse": "collapses",
        "plateau": "degrades, then levels off",
        "stable": "is stable",
        "inconclusive": "is undecided",
    }
    sentence = f"{workflow} {words[label]}: {why}."
    return WorkflowVerdict(workflow, label, float(gain), float(low), float(high), sentence)
