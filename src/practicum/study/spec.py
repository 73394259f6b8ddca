"""What a study is: scales, arms, trials, and the class every ``study.py`` fills in."""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from practicum.errors import InputError

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from practicum.data.kinds import UserData
    from practicum.study.evidence import Verdict
    from practicum.study.results import Results

ScaleName = Literal["smoke", "cpu", "paper"]
Role = Literal["method", "baseline", "cheap", "control"]
Metrics = Mapping[str, Any]  # numbers, and arrays of numbers ("curves")


@dataclass(frozen=True)
class Scale:
    """How large a study is.

    ``smoke`` is the tests' (whole study within 20 s on one core), ``cpu`` the default (within 10
    minutes on two cores), ``paper`` the paper's own setting (a GPU, data of the user's).

    Parameters
    ----------
    name : {"smoke", "cpu", "paper"}
    n_seeds : int, optional
        The user's ``--seeds``; overrides what the study would take.

    Examples
    --------
    >>> Scale("cpu").pick(smoke=5, cpu=100, paper=1000)
    100
    >>> list(Scale("cpu", n_seeds=2).seeds(smoke=3, cpu=10, paper=100))
    [0, 1]
    """

    name: ScaleName = "cpu"
    n_seeds: int | None = None

    def pick(self, *, smoke: Any, cpu: Any, paper: Any) -> Any:
        """The one of three values that belongs to this scale."""
        return {"smoke": smoke, "cpu": cpu, "paper": paper}[self.name]

    def seeds(self, *, smoke: int, cpu: int, paper: int) -> range:
        """``range`` over the seeds: the user's number where given, else this scale's."""
        return range(self.n_seeds or self.pick(smoke=smoke, cpu=cpu, paper=paper))


@dataclass(frozen=True)
class Arm:
    """One of the things compared: a role and one line that says what it is."""

    role: Role
    about: str


@dataclass(frozen=True)
class Measure:
    """A metric as a person reads it; ``better`` decides which arm is ahead in a comparison."""

    label: str
    better: Literal["lower", "higher"]
    unit: str = ""
    # between which every value lies by definition: no accuracy is at -6.8, however few the seeds
    bounds: tuple[float, float] = (-math.inf, math.inf)


@dataclass(frozen=True)
class Trial:
    """One cell of the grid: dataset x arm x seed, and parameters that name the setting.

    ``run`` sees nothing but the trial, so whatever changes with the scale (sizes, numbers of
    steps) belongs in ``params`` - and thereby in the key under which the result is stored.
    """

    slug: str
    dataset: str
    arm: str
    seed: int
    params: tuple[tuple[str, Any], ...] = ()

    def __getitem__(self, name: str) -> Any:
        """The parameter ``name``."""
        for key, value in self.params:
            if key == name:
                return value
        raise KeyError(f"{self.label} has no parameter {name!r}")

    @property
    def label(self) -> str:
        """How a message names this trial, e.g. ``moons/replace/seed 3 (n=100)``."""
        extra = ", ".join(f"{k}={v}" for k, v in self.params)
        return f"{self.dataset}/{self.arm}/seed {self.seed}" + (f" ({extra})" if extra else "")

    def rng(self, stream: str = "") -> np.random.Generator:
        """The trial's generator, seeded by (slug, dataset, seed) alone: arms are *paired*.

        Two arms, or two settings, of one dataset and seed draw the same numbers. Name a
        ``stream`` where one part (the split, say) must not depend on how many numbers
        another part draws.
        """
        text = json.dumps([self.slug, self.dataset, self.seed, stream])
        words = np.frombuffer(hashlib.sha256(text.encode()).digest(), dtype=np.uint32)
        return np.random.default_rng(np.random.SeedSequence(words.tolist()))

    def key(self, code: str, data: str) -> str:
        """Under which the result is stored: changes with the method's code and the data."""
        cell = [self.slug, self.dataset, self.arm, self.seed, list(self.params), code, data]
        return hashlib.sha256(json.dumps(cell).encode()).hexdigest()


Claim = Callable[["Results"], "Verdict"]


class Study(ABC):
    """One method's study: what is run, and what counts as evidence for each claim.

    A subclass fills in ``slug``, ``arms`` (the method first), ``measures`` (the headline first),
    ``claims`` (one function for every claim of the card), and the methods below. Instances are
    pickled to worker processes: keep paths and settings on ``self``, load data inside ``run``
    (with ``functools.lru_cache`` on a module-level function where trials share it).
    """

    slug: ClassVar[str]
    arms: ClassVar[Mapping[str, Arm]]
    measures: ClassVar[Mapping[str, Measure]]
    claims: ClassVar[Mapping[str, Claim]]

    # set by `compare`: the user's own data, and the options that differ from their defaults
    source: UserData | None = None
    options: Mapping[str, Any] = MappingProxyType({})

    @abstractmethod
    def trials(self, scale: Scale) -> Iterable[Trial]:
        """The grid; cheap, no data loaded. Build the cells with :meth:`trial`."""

    @abstractmethod
    def run(self, trial: Trial) -> Metrics:
        """One cell, in a worker process: numbers, and arrays of numbers as curves.

        All randomness comes from ``trial.rng()``.
        """

    @abstractmethod
    def figures(self, results: Results) -> Mapping[str, Figure]:
        """Title -> plotly figure; the caption goes in ``figure.layout.meta["caption"]``.

        Draw what the results hold: after a partial run or on a user's data some arms or
        settings may be missing; leave out what cannot be drawn.
        """

    @classmethod
    @abstractmethod
    def on(cls, source: UserData, **options: Any) -> Study:
        """The same arms on a person's own data (``practicum compare``).

        Options are keyword-only, annotated and have defaults: the command line and the page
        read them from the signature. Refuse at once what the data cannot support.
        """

    def group(self, trial: Trial) -> Hashable | None:
        """Trials of one group are handed to :meth:`run_many` together (None: on its own)."""
        return None

    def run_many(self, trials: Sequence[Trial]) -> Iterator[Metrics]:
        """Run a group at once (stacked or batched), yielding in order.

        The numbers must not depend on which trials are in the group: a resumed run hands over
        only what is missing. The contract test compares with :meth:`run` to the last bit.
        """
        for trial in trials:
            yield self.run(trial)

    def trial(self, dataset: str, arm: str, seed: int, **params: Any) -> Trial:
        """A cell of this study; parameters are plain numbers, strings or booleans, or None."""
        if arm not in self.arms:
            raise ValueError(f"{self.slug}: unknown arm {arm!r}; there are {', '.join(self.arms)}")
        plain = tuple((name, _plain(value)) for name, value in sorted(params.items()))
        for name, value in plain:
            if not isinstance(value, str | int | float | None):  # a tuple is stored as a list
                kind = type(value).__name__
                raise ValueError(f"{self.slug}: parameter {name!r} is {kind}; write it as text")
            if name in COLUMNS:
                raise ValueError(f"{self.slug}: a parameter cannot be called {name!r}")
        return Trial(self.slug, dataset, arm, int(seed), plain)

    def data_fingerprint(self) -> str:
        """What the results depend on besides code: the user's file and options, or nothing."""
        if self.source is None:
            return ""
        return f"{self.source.fingerprint} {json.dumps(dict(self.options), sort_keys=True)}"


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's, so that a grid written with NumPy names the same trials."""
    return value.item() if isinstance(value, np.generic) else value


COLUMNS = ("dataset", "arm", "seed", "seconds")  # of the table of results


@dataclass(frozen=True)
class Outcome:
    """A finished trial: scalar metrics, curves, and the seconds it took."""

    trial: Trial
    metrics: Mapping[str, float]
    curves: Mapping[str, np.ndarray] = field(default_factory=dict)
    seconds: float = 0.0


def split_metrics(trial: Trial, metrics: Metrics) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Scalars and curves of what ``run`` returned; anything else is an error naming the metric."""
    scalars: dict[str, float] = {}
    curves: dict[str, np.ndarray] = {}
    taken = {*COLUMNS, *(name for name, _ in trial.params)}
    for name, value in metrics.items():
        if name in taken:
            raise InputError(f"{trial.label}: the metric {name!r} has the name of a column")
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise InputError(
                f"{trial.label}: metric {name!r} is {type(value).__name__}, not a number or array"
            )
        if array.ndim:
            curves[name] = array.astype(float) if array.dtype.kind != "f" else array
        else:
            scalars[name] = float(array)
    return scalars, curves
