"""Predictions of the next gradient ("hints"), from nothing but the past.

A predictor sees the gradients and actions of the rounds that are over, never the current one.
Pass one to ``run_oco(..., hints=...)``, or its short form: ``"none"``, ``"last"``, ``48`` (the
value 48 rounds back), ``"mean:10"``, or an array of recorded predictions.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from practicum.errors import InputError
from practicum.optimize.optimistic_ftrl.checks import as_rows, finite


@dataclass(frozen=True)
class Past:
    """What a predictor may look at: the rounds that are over.

    Attributes
    ----------
    gradients : (t, ..., d) array, read-only
    actions : (t, ..., d) array, read-only

    Examples
    --------
    >>> import numpy as np
    >>> Past(np.zeros((3, 2)), np.zeros((3, 2))).t
    3
    """

    gradients: np.ndarray
    actions: np.ndarray

    @property
    def t(self) -> int:
        """How many rounds are over; also the index of the coming one."""
        return len(self.gradients)


class Predictor:
    """No prediction at all; the base of the others.

    Examples
    --------
    >>> import numpy as np
    >>> Predictor()(Past(np.ones((3, 2)), np.ones((3, 2)))) is None
    True
    """

    def begin(self, n_rounds: int, shape: tuple[int, ...]) -> None:
        """Called once before the first round; ``shape`` is that of a gradient."""

    def __call__(self, past: Past) -> np.ndarray | None:
        return None


class LastGradient(Predictor):
    """The gradient of the round before.

    Examples
    --------
    >>> import numpy as np
    >>> LastGradient()(Past(np.array([[1.0], [2.0]]), np.zeros((2, 1)))).tolist()
    [2.0]
    """

    def __call__(self, past: Past) -> np.ndarray | None:
        return past.gradients[-1] if past.t else None


class MovingAverage(Predictor):
    """The mean of the last ``window`` gradients.

    Parameters
    ----------
    window : int
        At least 1.

    Examples
    --------
    >>> import numpy as np
    >>> MovingAverage(2)(Past(np.array([[9.0], [1.0], [2.0]]), np.zeros((3, 1)))).tolist()
    [1.5]
    """

    def __init__(self, window: int) -> None:
        if window < 1:
            raise InputError(f"moving average over {window} rounds", "give at least 1")
        self.window = window

    def __call__(self, past: Past) -> np.ndarray | None:
        return past.gradients[-self.window :].mean(axis=0) if past.t else None


class Seasonal(Predictor):
    """The gradient one season ago: ``lag`` rounds back, or one ``period`` back in time.

    Parameters
    ----------
    lag : int, optional
        In rounds; smaller than the number of rounds.
    period : optional
        In the unit of ``timestamps`` (a timedelta for dates); positive; needs ``timestamps``.
    timestamps : (T,) array, optional
        One a round, increasing.
    warmup : (n, d) array, optional
        Gradients from before the first round, so that the first season has hints too.

    Raises
    ------
    InputError
        If the lag or period is not positive or reaches back beyond the first round, or the
        timestamps do not increase.

    Examples
    --------
    >>> import numpy as np
    >>> Seasonal(lag=2)(Past(np.array([[7.0], [8.0]]), np.zeros((2, 1)))).tolist()
    [7.0]
    """

    def __init__(
        self,
        lag: int | None = None,
        *,
        period: Any = None,
        timestamps: Any = None,
        warmup: Any = None,
    ) -> None:
        if (lag is None) == (period is None):
            raise InputError("a seasonal hint needs either lag=... or period=...")
        if lag is not None and lag < 1:
            raise InputError(f"seasonal lag {lag}", "give a whole number of rounds, 1 or more")
        if period is not None and timestamps is None:
            raise InputError("a period needs timestamps", "give timestamps=..., or lag=ROUNDS")
        if period is not None and not period > 0 * period:
            raise InputError(
                f"a season of {_length(period)}: it must be positive", "give one such as 7D"
            )
        self.lag, self.period = lag, period
        self.timestamps = None if timestamps is None else check_timestamps(timestamps)
        self.warmup = None if warmup is None else finite("warmup", warmup)

    def begin(self, n_rounds: int, shape: tuple[int, ...]) -> None:
        if self.lag is not None and self.lag >= n_rounds and self.warmup is None:
            raise InputError(
                f"seasonal lag {self.lag} with {n_rounds} rounds: no round would have a hint",
                f"give a lag below {n_rounds}",
            )
        if self.timestamps is not None and len(self.timestamps) != n_rounds:
            raise InputError(f"{len(self.timestamps)} timestamps for {n_rounds} rounds")
        if self.period is not None and self.timestamps[-1] - self.timestamps[0] < self.period:
            raise InputError(
                f"a season of {_length(self.period)}, but the times span "
                f"{_length(self.timestamps[-1] - self.timestamps[0])}: no round would have a hint",
                "give a shorter period",
            )

    def __call__(self, past: Past) -> np.ndarray | None:
        if self.lag is not None:
            i = past.t - self.lag
            if i >= 0:
                return past.gradients[i]
            if self.warmup is not None and -i <= len(self.warmup):
                return self.warmup[i]
            return None
        wanted = self.timestamps[past.t] - self.period
        i = int(np.searchsorted(self.timestamps[: past.t], wanted, side="right")) - 1
        return past.gradients[i] if i >= 0 else None


def _length(period: Any) -> str:
    """A span of time in words."""
    if isinstance(period, np.timedelta64):
        return f"{period / np.timedelta64(1, 'D'):.6g} days"
    return str(period)


def check_timestamps(timestamps: Any) -> np.ndarray:
    """Timestamps as an array that increases.

    Parameters
    ----------
    timestamps : (T,) array-like

    Raises
    ------
    InputError
        Naming the first row that does not come after the one before.

    Examples
    --------
    >>> check_timestamps([1, 2, 5]).tolist()
    [1, 2, 5]
    """
    times = np.asarray(timestamps)
    bad = np.flatnonzero(~(times[1:] > times[:-1]))
    if bad.size:
        i = int(bad[0])
        raise InputError(
            f"timestamps do not increase: row {i + 2} holds {times[i + 1]} after {times[i]}",
            "sort the rows by time and drop repeated ones",
        )
    return times


class Recorded(Predictor):
    """Predictions that were recorded beforehand, one row a round.

    Parameters
    ----------
    hints : (T, ..., d) array

    Raises
    ------
    InputError
        If the shape does not fit the stream, or a hint is NaN or infinite.

    Examples
    --------
    >>> import numpy as np
    >>> Recorded([[1.0], [2.0]])(Past(np.zeros((1, 1)), np.zeros((1, 1)))).tolist()
    [2.0]
    """

    def __init__(self, hints: Any) -> None:
        self.hints = finite("hints", hints)

    def begin(self, n_rounds: int, shape: tuple[int, ...]) -> None:
        if self.hints.shape not in ((n_rounds, *shape), (n_rounds, *shape[1:])):
            raise InputError(
                f"hints have shape {self.hints.shape}, expected {(n_rounds, *shape)}",
                "one predicted gradient per round",
            )

    def __call__(self, past: Past) -> np.ndarray | None:
        return self.hints[past.t]


class Callback(Predictor):
    """A function of one's own: ``f(past) -> (d,) array or None``.

    Parameters
    ----------
    f : callable
        Receives a :class:`Past`.

    Examples
    --------
    >>> import numpy as np
    >>> double = Callback(lambda past: 2 * past.gradients[-1])
    >>> double(Past(np.ones((1, 2)), np.ones((1, 2)))).tolist()
    [2.0, 2.0]
    """

    def __init__(self, f: Callable[[Past], Any]) -> None:
        self.f = f

    def __call__(self, past: Past) -> np.ndarray | None:
        return self.f(past)


class Regression(Predictor):
    """A scikit-learn regressor that predicts the next gradient from the last ``lags``.

    It is refitted on the past every ``every`` rounds, or fed round by round where it has
    ``partial_fit`` and ``online=True``.

    Parameters
    ----------
    regressor : estimator with ``fit`` and ``predict`` (several outputs when d > 1)
    lags : int
        How many past gradients make the features.
    every : int
        Rounds between refits.
    window : int
        How many of the latest rounds a refit uses.
    online : bool
        Use ``partial_fit`` after every round instead.

    Raises
    ------
    InputError
        If the regressor lacks ``fit`` and ``predict`` (or ``partial_fit``).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> gradients = np.sin(np.arange(60.0))[:, None]
    >>> hint = Regression(LinearRegression(), lags=2)(Past(gradients, gradients))
    >>> bool(abs(hint[0] - np.sin(60.0)) < 1e-9)
    True
    """

    def __init__(
        self,
        regressor: Any,
        lags: int = 3,
        *,
        every: int = 50,
        window: int = 2000,
        online: bool = False,
    ) -> None:
        needed = ("partial_fit", "predict") if online else ("fit", "predict")
        lacking = [name for name in needed if not hasattr(regressor, name)]
        if lacking:
            raise InputError(f"{type(regressor).__name__} has no {' and no '.join(lacking)}")
        if lags < 1 or every < 1 or window <= lags:
            raise InputError(
                f"lags={lags}, every={every}, window={window}", "give 1 <= lags < window"
            )
        self.regressor, self.lags, self.every = regressor, lags, every
        self.window, self.online = window, online
        self._fitted_at = -1

    def begin(self, n_rounds: int, shape: tuple[int, ...]) -> None:
        from sklearn.base import clone

        if len(shape) > 1:
            raise InputError("a regressor predicts for one run at a time", "leave n_runs out")
        self.regressor, self._fitted_at = clone(self.regressor), -1

    def __call__(self, past: Past) -> np.ndarray | None:
        t = past.t
        if t < self.lags + 3:
            return None
        if self.online:
            self._feed(past)
        elif self._fitted_at < 0 or t - self._fitted_at >= self.every:
            self._refit(past)
        features = past.gradients[t - self.lags :].reshape(1, -1)
        return np.asarray(self.regressor.predict(features), dtype=float).reshape(-1)

    def _refit(self, past: Past) -> None:
        recent = past.gradients[-self.window :]
        X = np.lib.stride_tricks.sliding_window_view(recent, self.lags, axis=0)[:-1]
        X = X.swapaxes(1, 2).reshape(len(X), -1)
        y = recent[self.lags :]
        self.regressor.fit(X, y[:, 0] if y.shape[1] == 1 else y)
        self._fitted_at = past.t

    def _feed(self, past: Past) -> None:
        start = self.lags if self._fitted_at < 0 else past.t - 1
        for i in range(start, past.t):
            y = past.gradients[i]
            X = past.gradients[i - self.lags : i].reshape(1, -1)
            self.regressor.partial_fit(X, y if len(y) == 1 else y[None])
        self._fitted_at = past.t


def as_predictor(hints: Any, timestamps: Any = None, warmup: Any = None) -> Predictor:
    """A predictor from its short form.

    Parameters
    ----------
    hints : Predictor, str, int, array or callable
        ``"none"``, ``"last"``, ``"mean:W"``, ``48`` or ``"48"`` (rounds back), a period such as
        ``"7D"`` (with timestamps), recorded predictions (T, d), a function of :class:`Past`, or a
        scikit-learn regressor.
    timestamps : (T,) array, optional
    warmup : (n, d) array, optional
        Gradients from before the first round, for seasonal hints.

    Raises
    ------
    InputError
        If it is none of these.

    Examples
    --------
    >>> as_predictor("mean:5").window
    5
    """
    if isinstance(hints, Predictor):
        return hints
    if isinstance(hints, str):
        return _named(hints.strip(), timestamps, warmup)
    if isinstance(hints, int | np.integer) and not isinstance(hints, bool):
        return Seasonal(int(hints), timestamps=timestamps, warmup=warmup)
    if hasattr(hints, "predict"):
        return Regression(hints)
    if callable(hints):
        return Callback(hints)
    return Recorded(hints)


def _named(text: str, timestamps: Any, warmup: Any) -> Predictor:
    if text == "none":
        return Predictor()
    if text == "last":
        return LastGradient()
    kind, _, number = text.partition(":")
    if kind == "mean" and re.fullmatch("[0-9]+", number):
        return MovingAverage(int(number))
    if re.fullmatch("-?[0-9]+", text):
        return Seasonal(int(text), timestamps=timestamps, warmup=warmup)
    import pandas as pd

    try:
        found = pd.Timedelta(text)
        period = None if found is pd.NaT else found.to_timedelta64()  # "nan" is NaT
    except ValueError:
        period = None
    if period is not None:
        _refuse_undated(text, timestamps)
        return Seasonal(period=period, timestamps=timestamps)
    raise InputError(
        f"hints {text!r} are not known",
        "use none, last, mean:WINDOW, a number of rounds, or (with timestamps) a period such as 7D",
    )


def _refuse_undated(text: str, timestamps: Any) -> None:
    if timestamps is None:
        raise InputError(
            f"hints {text!r} are a period and need times",
            "name their column with --time (timestamps=...), or give a number of rounds",
        )
    if not np.issubdtype(np.asarray(timestamps).dtype, np.datetime64):
        raise InputError(
            f"hints {text!r} need dates, the times are numbers such as {timestamps[0]}",
            "write times as 2023-01-02T08:00, or give a number of rounds",
        )


def warn_leak(hints: np.ndarray, gradients: np.ndarray) -> bool:
    """Warn when hints equal the gradients they should predict in over 99 % of the rounds.

    Parameters
    ----------
    hints, gradients : (T, ..., d) arrays

    Warns
    -----
    UserWarning
        When the predictions look ahead.

    Examples
    --------
    >>> import numpy as np
    >>> warn_leak(np.zeros((3, 1)), np.ones((3, 1)))
    False
    """
    told = hints.any(axis=-1)
    same = (hints == gradients).all(axis=-1) & told
    leak = bool(told.any() and same.sum() > 0.99 * told.size)
    if leak:
        warnings.warn(
            f"the hints equal the gradients they predict in {int(same.sum())} of {told.size} "
            "rounds: do they look ahead? (shift the column, or regret 0 means nothing)",
            UserWarning,
            stacklevel=3,
        )
    return leak


def check_hint(hint: Any, shape: tuple[int, ...]) -> np.ndarray:
    """One round's hint as float64 of the learner's shape."""
    array = np.asarray(hint, dtype=np.float64) if not isinstance(hint, np.ndarray) else hint
    if len(shape) == 2 and array.shape == shape[1:]:
        array = np.broadcast_to(array, shape)
    return as_rows("hint", array, shape)
