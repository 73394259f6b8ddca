"""Loss reports of the clients of a federation: the log, its checks, and the Gaussian reward."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Float, Int, Real

from practicum.errors import InputError

COLUMNS = ("round", "client", "step", "loss")
VARIANCE_FLOOR = 1e-16


def gaussian_rewards(
    losses: Real[np.ndarray, "m S"], n: Real[np.ndarray, " m"] | None = None
) -> Float[np.ndarray, " m"]:
    r"""How much each sampled client behaves like the average of the sampled clients.

    With weights :math:`w_k = n_k / \sum_j n_j`, mean :math:`m_s = \sum_k w_k l_k^s` and variance
    :math:`v_s = \sum_k w_k (l_k^s - m_s)^2 + 10^{-16}` over the clients of one round,

    .. math:: \omega_k = \frac{1}{S} \sum_s \exp\left(-\frac{(l_k^s - m_s)^2}{2 v_s}\right)
              \in (0, 1].

    Source: Licciardi et al. 2025, section 3, and the official ``_get_gaussian_rewards``.

    Parameters
    ----------
    losses : array, shape (m, S)
        Mini-batch losses of the m clients of one round at their S local steps.
    n : array, shape (m,), optional
        Samples of each client (equal by default).

    Returns
    -------
    array, shape (m,)

    Raises
    ------
    InputError
        No client, no step, a loss that is not finite, or weights that are not positive.

    Warns
    -----
    UserWarning
        m = 2: both clients always get exp(-1/2), whatever their losses.

    Examples
    --------
    >>> losses = np.array([[2.3, 2.1, 1.9], [2.2, 2.0, 1.8], [2.8, 2.7, 2.6], [2.25, 2.05, 1.85]])
    >>> gaussian_rewards(losses, np.array([100, 100, 50, 150])).round(5).tolist()
    [0.98984, 0.83221, 0.03326, 0.9329]
    """
    losses = np.asarray(losses, dtype=float)
    if losses.ndim != 2:
        raise InputError(
            f"losses of shape {losses.shape}", "one row a client and one column a local step"
        )
    m, steps = losses.shape
    if m == 0 or steps == 0:
        raise InputError(f"losses of shape {(m, steps)}; at least one client and one step expected")
    if not np.isfinite(losses).all():
        bad = np.flatnonzero(~np.isfinite(losses).all(1)).tolist()
        raise InputError(
            f"losses of the clients at rows {bad} are NaN or infinite",
            "leave them out of the round",
        )
    if m == 2:
        warnings.warn(
            "rewards of two clients carry no information (both are exp(-1/2)); sample at least 3",
            UserWarning,
            stacklevel=2,
        )
    weights = np.ones(m) if n is None else np.asarray(n, dtype=float)
    if len(weights) != m or not (weights > 0).all():
        raise InputError(f"{len(weights)} sample counts for {m} clients; one positive count each")
    return _rewards(losses, weights)


def _rewards(losses: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Of one round, or of a stack of rounds: losses (..., m, S), n (..., m)."""
    w = (n / n.sum(-1, keepdims=True))[..., None]
    deviation = losses - (w * losses).sum(-2, keepdims=True)
    variance = (w * deviation**2).sum(-2, keepdims=True) + VARIANCE_FLOOR
    return np.exp(-(deviation**2) / (2 * variance)).mean(-1)


@dataclass
class LossLog:
    """Loss reports: one row for each client and round in which it trained.

    Parameters
    ----------
    n_clients : int
        K; clients are numbered 0 .. K-1.
    names : list, optional
        What the clients are called outside (column ``client`` of a file).

    Attributes
    ----------
    excluded : numpy.ndarray of int, shape (K,)
        Reports left out because a loss was NaN or infinite (a diverged client).

    Examples
    --------
    >>> log = LossLog(4)
    >>> log.add(0, np.array([0, 2, 3]), np.array([[1.0, 0.9], [1.2, 1.0], [np.nan, 1.0]]))
    >>> len(log), log.excluded.tolist()
    (2, [0, 0, 0, 1])
    """

    n_clients: int
    names: list | None = None
    excluded: np.ndarray = field(init=False)
    _rounds: list[int] = field(init=False, default_factory=list)
    _clients: list[np.ndarray] = field(init=False, default_factory=list)
    _losses: list[np.ndarray] = field(init=False, default_factory=list)
    _sizes: list[np.ndarray] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        if self.n_clients < 1:
            raise InputError(f"n_clients is {self.n_clients}; a federation has at least one client")
        self.excluded = np.zeros(self.n_clients, dtype=int)
        if self.names is None:
            self.names = list(range(self.n_clients))

    def __len__(self) -> int:
        """Reports (client-rounds) in the log."""
        return sum(len(c) for c in self._clients)

    @property
    def n_rounds(self) -> int:
        """Rounds in the log."""
        return len(self._rounds)

    @property
    def per_round(self) -> int:
        """m: the median number of clients that reported in a round."""
        return int(np.median([len(clients) for clients in self._clients]))

    @property
    def published_can_split(self) -> bool:
        """Whether there are the 2 m clients below which the official code never splits."""
        return self.n_clients >= 2 * self.per_round

    def add(
        self,
        round: int,
        clients: Int[np.ndarray, " m"],
        losses: Real[np.ndarray, "m S"],
        n: Real[np.ndarray, " m"] | None = None,
    ) -> None:
        """Append one round; reports with a loss that is not finite are left out and counted."""
        losses = np.asarray(losses, dtype=float)
        if losses.shape[1] == 0:
            raise InputError(f"round {round}: no local step (S = 0)", "report at least one loss")
        sizes = np.ones(len(clients)) if n is None else np.asarray(n, dtype=float)
        fine = np.isfinite(losses).all(1)
        np.add.at(self.excluded, clients[~fine], 1)
        if fine.any():
            self._rounds.append(int(round))
            self._clients.append(np.asarray(clients)[fine])
            self._losses.append(losses[fine])
            self._sizes.append(sizes[fine])

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """(clients, losses, sample counts) round by round."""
        yield from zip(self._clients, self._losses, self._sizes, strict=True)

    def first(self, n_rounds: int) -> LossLog:
        """The log as it stood after ``n_rounds`` rounds."""
        return self.take(range(min(n_rounds, self.n_rounds)))

    def take(self, rounds: object) -> LossLog:
        """Only the rounds at these positions (repeats allowed: a bootstrap of rounds)."""
        part = LossLog(self.n_clients, self.names)
        for i in rounds:  # type: ignore[attr-defined]
            part._rounds.append(self._rounds[i])
            part._clients.append(self._clients[i])
            part._losses.append(self._losses[i])
            part._sizes.append(self._sizes[i])
        return part

    def rewards(self) -> Float[np.ndarray, "T K"]:
        """Gaussian reward of each client in each round, NaN where it was not sampled.

        Rounds with fewer than three reports carry no information and stay empty.
        """
        table = np.full((self.n_rounds, self.n_clients), np.nan)
        counts = np.array([len(clients) for clients in self._clients], dtype=int)
        for m in np.unique(counts[counts >= 3]):
            rounds = np.flatnonzero(counts == m)  # all of one size at once
            clients, losses, sizes = (
                np.stack([part[t] for t in rounds])
                for part in (self._clients, self._losses, self._sizes)
            )
            table[rounds[:, None], clients] = _rewards(losses, sizes)
        return table

    def mean_losses(self) -> Float[np.ndarray, "T K"]:
        """Loss of each client in each round, mean over its steps; NaN where it was not sampled."""
        table = np.full((self.n_rounds, self.n_clients), np.nan)
        for t, (clients, losses, _) in enumerate(self):
            table[t, clients] = losses.mean(1)
        return table

    def step_losses(self) -> Float[np.ndarray, "T K S"]:
        """All losses, NaN where a client was not sampled."""
        table = np.full((self.n_rounds, self.n_clients, self._losses[0].shape[1]), np.nan)
        for t, (clients, losses, _) in enumerate(self):
            table[t, clients] = losses
        return table

    def co_samples(self) -> Int[np.ndarray, "K K"]:
        """In how many rounds two clients were both sampled (diagonal: each client's rounds)."""
        seen = np.isfinite(self.mean_losses()).astype(float)
        return (seen.T @ seen).astype(int)

    def to_frame(self) -> pd.DataFrame:
        """Long form: ``round, client, step, loss, n``, as :func:`read_loss_log` reads it."""
        parts = [
            pd.DataFrame(
                {
                    "round": number,
                    "client": np.repeat([self.names[c] for c in clients], losses.shape[1]),
                    "step": np.tile(np.arange(losses.shape[1]), len(clients)),
                    "loss": losses.ravel(),
                    "n": np.repeat(sizes, losses.shape[1]),
                }
            )
            for number, (clients, losses, sizes) in zip(self._rounds, self, strict=True)
        ]
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=[*COLUMNS])


def as_loss_log(frame: pd.DataFrame | Mapping | list, name: str = "the loss log") -> LossLog:
    """Check a loss log in long form and turn it into a :class:`LossLog`.

    Parameters
    ----------
    frame : pandas.DataFrame, or what makes one (a dict of columns, a list of records)
        Columns ``round, client, step, loss`` and perhaps ``n`` (samples of the client).
    name : str
        How messages call the log (its file).

    Raises
    ------
    InputError
        A column, or an entry other than a loss, is missing; a (round, client, step) occurs twice; a
        report lacks steps that others have; fewer than 3 clients, or no round with 3 of them.

    Warns
    -----
    UserWarning
        Losses are NaN or infinite (their reports are left out and counted in ``excluded``), or one
        client's losses are of another magnitude (a sum instead of a mean, another task).

    Examples
    --------
    >>> rows = [(t, c, s, 1 / (t + s + 1)) for t in range(2) for c in range(3) for s in range(2)]
    >>> log = as_loss_log(pd.DataFrame(rows, columns=["round", "client", "step", "loss"]))
    >>> log.n_rounds, log.n_clients
    (2, 3)
    """
    frame = pd.DataFrame(frame)
    _refuse_columns(frame, name)
    names = _in_order(frame["client"].unique().tolist())
    if len(names) < 3:
        raise InputError(f"{name}: {len(names)} clients; rewards need at least 3 in a round")
    wide = frame.pivot(index=["round", "client"], columns="step", values="loss")
    _refuse_missing_steps(frame, wide, name)
    sizes = frame.groupby(["round", "client"])["n"].first() if "n" in frame else None
    place = {client: i for i, client in enumerate(names)}
    log = LossLog(len(names), names)
    for number, part in wide.groupby(level="round", sort=True):
        clients = np.array([place[c] for c in part.index.get_level_values("client")])
        n = None if sizes is None else sizes.loc[part.index].to_numpy()
        log.add(int(number), clients, part.to_numpy(), n)
    _check(log, name)
    return log


def _refuse_columns(frame: pd.DataFrame, name: str) -> None:
    absent = [c for c in COLUMNS if c not in frame]
    if absent:
        raise InputError(
            f"{name} has no column {', '.join(absent)}",
            f"a loss log has the columns {', '.join(COLUMNS)} and perhaps n; "
            f"found: {', '.join(map(str, frame.columns))}",
        )
    for column in ("round", "step", "loss", *(["n"] if "n" in frame else [])):
        if not pd.api.types.is_numeric_dtype(frame[column]):
            wrong = pd.to_numeric(frame[column], errors="coerce").isna() & frame[column].notna()
            row = int(wrong.to_numpy().argmax())
            raise InputError(
                f"{name}, column {column}, row {row + 1}: a number expected, found "
                f"{frame[column].iloc[row]!r}"
            )
    for column in ("round", "client", "step"):
        empty = frame[column].isna()
        if empty.any():
            raise InputError(
                f"{name}, column {column}, row {int(empty.to_numpy().argmax()) + 1}: nothing there "
                f"({int(empty.sum())} such rows)",
                "every loss needs its round, client and step",
            )
    twice = frame.duplicated(["round", "client", "step"])
    if twice.any():
        row = frame[twice].iloc[0]
        raise InputError(
            f"{name}: round {row['round']}, client {row['client']}, step {row['step']} occurs "
            f"twice ({int(twice.sum())} such rows)",
            "keep one loss for each round, client and step",
        )
    if "n" in frame and not (frame["n"] > 0).all():
        raise InputError(f"{name}, column n: {frame['n'].min()} samples; at least 1 expected")


def _in_order(names: list) -> list:
    """Numbers by value, anything else by its text."""
    try:
        return sorted(names)
    except TypeError:
        return sorted(names, key=str)


def _refuse_missing_steps(frame: pd.DataFrame, wide: pd.DataFrame, name: str) -> None:
    reported = frame.groupby(["round", "client"]).size()
    short = reported[reported < wide.shape[1]]
    if len(short):
        number, client = short.index[0]
        raise InputError(
            f"{name}: round {number}, client {client} reports {short.iloc[0]} of "
            f"{wide.shape[1]} steps ({len(short)} such reports)",
            "every report needs the same steps; drop the reports that were cut off",
        )


def _check(log: LossLog, name: str) -> None:
    if log.excluded.any():
        who = ", ".join(f"{log.names[k]} ({log.excluded[k]})" for k in np.flatnonzero(log.excluded))
        warnings.warn(
            f"{name}: reports with NaN or infinite losses left out, by client: {who}",
            UserWarning,
            stacklevel=3,
        )
    if not any(len(clients) >= 3 for clients, _, _ in log):
        raise InputError(
            f"{name}: no round has 3 clients or more; Gaussian rewards need m >= 3",
            "sample more clients a round",
        )
    table = log.mean_losses()
    seen = np.isfinite(table).any(0)
    typical = np.full(log.n_clients, np.nan)
    typical[seen] = np.nanmedian(np.abs(table[:, seen]), axis=0)
    centre = np.nanmedian(typical)
    odd = np.flatnonzero(typical > 20 * centre) if centre > 0 else []
    if len(odd):
        warnings.warn(
            f"{name}: client {log.names[odd[0]]} reports losses of about {typical[odd[0]]:.3g} "
            f"where others report {centre:.3g}: a sum instead of a mean, or another task?",
            UserWarning,
            stacklevel=3,
        )


def read_loss_log(path: str | Path) -> LossLog:
    """Read a loss log from a file: ``round,client,step,loss`` and perhaps ``n``.

    Parameters
    ----------
    path : str or Path
        CSV, TSV, Parquet or JSON lines.

    Raises
    ------
    InputError
        The file cannot be read, or what :func:`as_loss_log` refuses; the file is named.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "losses.csv"
    >>> rows = [(t, c, 0, 1 + c / 10) for t in range(2) for c in range(3)]
    >>> frame = pd.DataFrame(rows, columns=["round", "client", "step", "loss"])
    >>> frame.to_csv(path, index=False)
    >>> read_loss_log(path).n_rounds
    2
    """
    from practicum.data.table import read_table

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        frame = read_table(path, numeric=False, missing="drop")
    if caught and all(c in frame for c in COLUMNS):
        # rows without a loss are gone: so is the rest of their report, which counts as diverged
        steps = frame["step"].nunique()
        every = read_table(path, ["client"], numeric=False, missing="keep")["client"].dropna()
        lost = _in_order(list(set(every.unique()) - set(frame["client"].unique())))
        if lost:
            warnings.warn(
                f"{path}: no finite losses at all from {', '.join(map(str, lost))}: left out",
                UserWarning,
                stacklevel=2,
            )
        reported = frame.groupby(["round", "client"])["step"].transform("size")
        cut = frame.loc[reported < steps, "client"]
        if len(cut):
            frame = frame[reported == steps]
            who = ", ".join(map(str, _in_order(cut.unique().tolist())))
            message = f"{path}: reports with NaN or infinite losses left out, of clients {who}"
            warnings.warn(message, UserWarning, stacklevel=2)
    return as_loss_log(frame, str(path))
