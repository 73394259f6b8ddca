r"""Ask a model the same items with ordinary and with replaced symbols, and report what it cost.

:func:`evaluate` takes any chat model, or a function from an item to an answer; its
:class:`AbstractReport` holds every reply beside what was read out of it.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from practicum.errors import InputError
from practicum.language.abstract_reasoning.extraction import extract, is_correct
from practicum.language.abstract_reasoning.items import Compat, Item, make_items, task_names
from practicum.language.abstract_reasoning.metrics import CEILING, FLOOR, Delta, paired_delta
from practicum.language.abstract_reasoning.remap import ALNUM, remap
from practicum.language.abstract_reasoning.solvers import identifiable
from practicum.models.chat.protocol import Chat, Message, Reply, Request

FORMS = ("raw", "full", "operand", "operator")
Solver = Callable[[Item], "str | None"]
SYSTEM = (
    "You are shown worked examples of one hidden rule. Find the rule and answer the last question "
    "by it. Symbols need not have their usual meaning. Finish with: The answer is YOUR ANSWER."
)
STEPS = " Reason step by step before you answer, even though the examples do not."
COT_SUFFIX = "\nLet's think step by step."
SHORT_REPLY, LONG_REPLY = 32, 512


def conversation(item: Item, cot: bool = False) -> list[Message]:
    """An item as a chat: the task, the examples as turns, the query.

    Parameters
    ----------
    item : Item
    cot : bool
        Ask for a chain of thought.

    Raises
    ------
    AttributeError
        If it is no item.

    Examples
    --------
    >>> talk = conversation(Item((("1 + 1 =", "2"),), "1 + 2 =", "3", "+"))
    >>> [m["role"] for m in talk], talk[2]["content"]
    (['system', 'user', 'assistant', 'user'], 'Answer: The answer is 2.')
    """
    hint = f"{item.meta['hint']}\n" if item.meta.get("hint") else ""
    talk: list[Message] = [{"role": "system", "content": SYSTEM + (STEPS if cot else "")}]
    for question, answer in item.examples:
        talk.append({"role": "user", "content": f"{hint}Question: {question}"})
        talk.append({"role": "assistant", "content": f"Answer: The answer is {answer}."})
    asked = f"{hint}Question: {item.query}" + (COT_SUFFIX if cot else "")
    return [*talk, {"role": "user", "content": asked}]


# --- the cells -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Cell:
    task: str
    number: int
    kind: str
    map: int
    item: Item


def _forms_of(item: Item, kinds: Sequence[str]) -> list[str]:
    """The forms an item can be shown in: prose has no symbols, some items name no operator."""
    known = bool(item.meta.get("operators") or item.operator)
    return [
        kind
        for kind in kinds
        if kind == "raw"
        or (item.examples and not item.task.startswith("sr/") and (kind == "full" or known))
    ]


def _cells(
    items: Sequence[Item],
    kinds: Sequence[str],
    maps: int,
    seed: int,
    alphabet: str,
    collision_free: bool,
) -> tuple[list[_Cell], list[str]]:
    cells, notes, counts = [], [], {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for item in items:
            number = counts[item.task] = counts.get(item.task, -1) + 1
            for kind in _forms_of(item, kinds):
                for k in range(1 if kind == "raw" else maps):
                    shown = item
                    if kind != "raw":
                        place = [seed, number, FORMS.index(kind), k, *item.task.encode()]
                        rng = np.random.default_rng(place)
                        shown, _ = remap(item, kind, rng, alphabet, collision_free)
                    cells.append(_Cell(item.task, number, kind, k, shown))
    notes += dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, UserWarning))
    left_out = [kind for kind in kinds if not any(c.kind == kind for c in cells)]
    if left_out:
        notes.append(f"no item can be shown in the form {' or '.join(left_out)}")
    return cells, notes


def _budget(cells: Sequence[_Cell], cot: bool, max_tokens: int | None) -> dict[str, int]:
    """New tokens a reply may have: enough for the longest answer of its set."""
    if max_tokens is not None:
        return {c.task: max_tokens for c in cells}
    least, longest = (LONG_REPLY if cot else SHORT_REPLY), {}
    for cell in cells:
        needed = least + (2 * len(cell.item.answer) if len(cell.item.answer) > 8 else 0)
        longest[cell.task] = max(longest.get(cell.task, 0), needed)
    return longest


def _fitting(
    cells: Sequence[_Cell], window: int | None, budget: Mapping[str, int], cot: bool
) -> tuple[list[_Cell], list[str]]:
    """Examples are left out, openly, where a prompt might be longer than the model's window."""
    if window is None:
        return list(cells), []
    fewest: dict[str, int] = {}
    for cell in cells:
        shots = len(cell.item.examples)
        while shots > 1 and _most_tokens(cell.item.with_shots(shots), cot) > (
            window - budget[cell.task]
        ):
            shots -= 1
        fewest[cell.task] = min(fewest.get(cell.task, shots), shots)
    kept, notes = [], []
    for cell in cells:
        if len(cell.item.examples) > fewest[cell.task]:
            item = cell.item.with_shots(fewest[cell.task])
            cell = _Cell(cell.task, cell.number, cell.kind, cell.map, item)
            note = (
                f"{cell.task}: {fewest[cell.task]} examples are shown, no more are sure to fit "
                f"the model's {window:,} tokens"
            )
            notes += [note] if note not in notes else []
        kept.append(cell)
    return kept, notes


def _most_tokens(item: Item, cot: bool) -> int:
    """No text has more tokens than bytes; a turn of a chat costs a handful more."""
    return sum(len(str(m["content"]).encode()) + 8 for m in conversation(item, cot))


def alphabet_note(chat: Chat, alphabet: str = ALNUM) -> str | None:
    """Ask a model to repeat the alphabet; a note where only the case was lost on the way.

    A server that folds case or normalises Unicode merges symbols that the map keeps apart.

    Parameters
    ----------
    chat : Chat
    alphabet : str

    Raises
    ------
    ChatError
        If the model cannot be used at all.

    Examples
    --------
    >>> from practicum.models.chat import FunctionChat
    >>> alphabet_note(FunctionChat(lambda request: "abc"), "aBc")
    'the model repeats the alphabet in another case: symbols may be merged on the way'
    """
    ask = f"Repeat this line exactly, nothing else: {alphabet}"
    text = chat.reply([{"role": "user", "content": ask}], max_tokens=2 * len(alphabet)).text
    if alphabet not in text and alphabet.casefold() in text.casefold():
        return "the model repeats the alphabet in another case: symbols may be merged on the way"
    return None


# --- asking --------------------------------------------------------------------------------------


def evaluate(
    model: Chat | Solver,
    tasks: str | Sequence[str] | Sequence[Item],
    kinds: Sequence[str] = FORMS,
    *,
    items: int = 24,
    shots: int = 8,
    maps: int = 3,
    cot: bool = False,
    seed: int = 0,
    alphabet: str = ALNUM,
    collision_free: bool = True,
    compat: Compat = "ours",
    max_tokens: int | None = None,
    probe: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> AbstractReport:
    """Ask a model items with ordinary and with replaced symbols.

    Parameters
    ----------
    model : Chat, or a function from an item to an answer
    tasks : str, sequence of str, or items
        Names or categories of generated sets (``"ec,nbr/add_base3"``), or a person's own items.
    kinds : sequence of str
        Forms to show: ``raw``, ``full``, ``operand``, ``operator``.
    items, shots : int
        Items a set, and worked examples in each (generated sets only).
    maps : int
        Random maps an item and kind; averaged before pairing.
    cot : bool
        Ask for a chain of thought.
    seed : int
        Of items and maps.
    alphabet, collision_free
        See :func:`~practicum.language.abstract_reasoning.remap`.
    compat : {"ours", "official"}
        See :func:`~practicum.language.abstract_reasoning.make_items`.
    max_tokens : int, optional
        Of a reply; by default 32 (512 with a chain of thought) and more for long answers.
    probe : bool
        Check first whether the model's server keeps upper and lower case apart.
    progress : callable, optional
        Called as ``progress(done, total)``.

    Returns
    -------
    AbstractReport

    Raises
    ------
    InputError
        A set, a form or a number that does not exist; too small an alphabet.
    ChatError
        The model cannot be used at all.

    Examples
    --------
    >>> from practicum.language.abstract_reasoning.solvers import solve
    >>> report = evaluate(solve, "ec/var_set", items=6, shots=20, maps=1)
    >>> report.deltas["full"].delta
    0.0
    """
    _checked(kinds, items, maps)
    asked = list(_items_of(tasks, items, shots, seed, compat))
    cells, notes = _cells(asked, list(kinds), maps, seed, alphabet, collision_free)
    if isinstance(model, Chat):
        replies, more = _ask(model, cells, cot, max_tokens, probe, progress)
        name, notes = model.name, notes + more
    else:
        name = getattr(model, "__name__", "function")
        replies = [_spoken(model(cell.item)) for cell in cells]
    settings = {
        "model": name,
        "kinds": list(kinds),
        "items": items,
        "shots": shots,
        "maps": maps,
        "cot": cot,
        "seed": seed,
        "collision_free": collision_free,
        "compat": compat,
    }
    rows = [_row(cell, reply) for cell, reply in zip(cells, replies, strict=True)]
    return AbstractReport(name, settings, pd.DataFrame(rows), list(dict.fromkeys(notes)))


def _checked(kinds: Sequence[str], items: int, maps: int) -> None:
    for kind in kinds:
        if kind not in FORMS:
            raise InputError(f"form {kind!r} is not known", "use " + ", ".join(FORMS))
    if len(set(kinds)) < len(kinds) or not kinds:
        raise InputError(f"kinds={','.join(kinds)}: each form once")
    if items < 1 or maps < 1:
        raise InputError(f"items={items}, maps={maps}: at least 1 of each")


def _items_of(
    tasks: str | Sequence[Any], n: int, shots: int, seed: int, compat: Compat
) -> Iterable[Item]:
    if not isinstance(tasks, str) and all(isinstance(t, Item) for t in tasks):
        if not tasks:
            raise InputError("no items to ask")
        return tasks
    names = task_names(tasks)
    return (item for name in names for item in make_items(name, n, shots, seed, compat))


def _spoken(answer: str | None) -> Reply:
    return Reply("" if answer is None else f"The answer is {answer}.")


def _ask(
    chat: Chat,
    cells: list[_Cell],
    cot: bool,
    max_tokens: int | None,
    probe: bool,
    progress: Callable[[int, int], None] | None,
) -> tuple[list[Reply], list[str]]:
    notes = []
    if probe and any(c.kind != "raw" for c in cells) and (note := alphabet_note(chat)):
        notes.append(note)
    budget = _budget(cells, cot, max_tokens)
    fitting, more = _fitting(cells, chat.context_window, budget, cot)
    cells[:] = fitting
    requests = [Request(conversation(c.item, cot), max_tokens=budget[c.task]) for c in cells]
    replies: list[Reply | None] = [None] * len(requests)
    for done, (place, reply) in enumerate(chat.arrivals(requests), start=1):
        replies[place] = reply
        if progress:
            progress(done, len(requests))
    return [r or Reply("", finish_reason="error") for r in replies], notes + more


def _row(cell: _Cell, reply: Reply) -> dict[str, Any]:
    item, failed = cell.item, reply.finish_reason == "error"
    strict, lenient = extract(reply.text), extract(reply.text, "lenient")
    if failed:
        status = "no answer"
    elif not reply.text.strip():
        status = "empty"
    elif lenient is None:
        status = "cut" if reply.finish_reason == "length" else "unparsed"
    else:
        status = "answered"
    return {
        "task": cell.task,
        "number": cell.number,
        "kind": cell.kind,
        "map": cell.map,
        "query": item.query,
        "answer": item.answer,
        "reply": reply.text,
        "strict": strict,
        "lenient": lenient,
        "correct": np.nan if failed else float(is_correct(strict, item)),
        "correct_lenient": np.nan if failed else float(is_correct(lenient, item)),
        "correct_official": np.nan
        if failed
        else float(is_correct(extract(reply.text, "official"), item, "official")),
        "status": status,
        "identifiable": identifiable(item),
        "shots": len(item.examples),
        "tokens": reply.usage.prompt_tokens,
    }


# --- the report ----------------------------------------------------------------------------------

COLUMN = {"strict": "correct", "lenient": "correct_lenient", "official": "correct_official"}


@dataclass
class AbstractReport:
    """What a model answered, and what replacing symbols cost it.

    Parameters
    ----------
    name : str
        The model's.
    settings : mapping
        What was asked.
    items : DataFrame
        One row a reply: task, number, kind, map, query, answer, reply, what was read strictly and
        leniently, right or wrong by each reading (NaN: no answer came), status, identifiable.
    notes : list of str
    reading : {"strict", "lenient", "official"}
        By which the numbers below are computed.

    Attributes
    ----------
    gamma : DataFrame
        Accuracy, sets by forms.
    deltas : dict of Delta
    unparsed : Series
        Share of replies from which no answer could be read, by form.
    unanswered : Series
        Number of requests without a reply, by form.

    Examples
    --------
    >>> from practicum.language.abstract_reasoning.items import make_items
    >>> report = evaluate(lambda item: "0", "bc/add", ["raw"], items=5)
    >>> float(report.gamma.loc["bc/add", "raw"])
    0.0
    """

    name: str
    settings: dict[str, Any]
    items: pd.DataFrame
    notes: list[str] = field(default_factory=list)
    reading: str = "strict"

    @property
    def _right(self) -> str:
        return COLUMN[self.reading]

    @property
    def kinds(self) -> list[str]:
        """The forms that were shown."""
        there = set(self.items["kind"])
        return [kind for kind in FORMS if kind in there]

    @property
    def gamma(self) -> pd.DataFrame:
        """Accuracy, sets by forms."""
        table = self.items.pivot_table(self._right, "task", "kind", sort=False, dropna=False)
        return table.reindex(columns=self.kinds)

    @property
    def overall(self) -> pd.Series:
        """Accuracy by form, every set weighing the same."""
        return self.gamma.mean()

    @property
    def unparsed(self) -> pd.Series:
        """Share of replies that could not be read, by form."""
        read = "strict" if self.reading == "strict" else "lenient"
        came = self.items[self.items["status"] != "no answer"]
        return came[read].isna().groupby(came["kind"]).mean().reindex(self.kinds)

    @property
    def unanswered(self) -> pd.Series:
        """Number of requests to which no reply came, by form."""
        missing = self.items["status"] == "no answer"
        return missing.groupby(self.items["kind"]).sum().reindex(self.kinds)

    def pairs(self, kind: str) -> pd.DataFrame:
        """Right or wrong on the same items, ordinary beside replaced, averaged over maps.

        Items whose examples leave the answer open once symbols are replaced are left out.

        Parameters
        ----------
        kind : {"full", "operand", "operator"}

        Raises
        ------
        InputError
            If that form, or the raw one, was not asked.
        """
        missing = {"raw", kind} - set(self.kinds)
        if missing:
            raise InputError(f"the form {' and '.join(sorted(missing))} was not asked")
        key = ["task", "number"]
        mapped = self.items[self.items["kind"] == kind]
        open_ = mapped["identifiable"].map(lambda value: value is False)
        kept = mapped[~open_.groupby([mapped["task"], mapped["number"]]).transform("any")]
        after = kept.groupby(key, sort=False)[self._right].mean()
        raw = self.items[self.items["kind"] == "raw"]
        before = raw.set_index(key)[self._right]
        return pd.concat({"raw": before, "mapped": after}, axis=1, join="inner").dropna()

    def dropped(self, kind: str) -> int:
        """Items that Delta leaves out because the examples do not determine the answer."""
        rows = self.items[self.items["kind"] == kind]
        open_ = rows[rows["identifiable"].map(lambda value: value is False)]
        return len(open_[["task", "number"]].drop_duplicates())

    @property
    def deltas(self) -> dict[str, Delta]:
        """What replacing each kind of symbols costs; kinds without a single pair are left out."""
        found = {}
        for kind in self.kinds:
            if kind == "raw" or "raw" not in self.kinds:
                continue
            pairs = self.pairs(kind)
            groups = [g for _, g in pairs.groupby("task", sort=False)]
            if groups:
                found[kind] = paired_delta(
                    [g["raw"].to_numpy() for g in groups],
                    [g["mapped"].to_numpy() for g in groups],
                    kind,
                )
        return found

    def read(self, reading: str) -> AbstractReport:
        """The same replies read another way.

        Parameters
        ----------
        reading : {"strict", "lenient", "official"}

        Raises
        ------
        InputError
            If the reading is not known.
        """
        if reading not in COLUMN:
            raise InputError(f"reading {reading!r} is not known", "use " + ", ".join(COLUMN))
        return AbstractReport(self.name, self.settings, self.items, self.notes, reading)

    def sentences(self) -> list[str]:
        """What was found, in plain sentences; a model that cannot do the task is said to be so."""
        said = []
        for kind, d in self.deltas.items():
            said += _delta_sentences(kind, d, self.dropped(kind))
        for kind in self.kinds:
            share, missing = self.unparsed[kind], int(self.unanswered[kind])
            if share > 0:
                said.append(
                    f"{kind}: from {100 * share:.1f} % of the replies no answer could be read "
                    f"({self.reading} reading); they count as wrong."
                )
            if missing:
                said.append(f"{kind}: {missing} requests got no reply; they are not counted.")
        return [*said, *(f"Note: {note}." for note in self.notes)]

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON holds it."""
        rows = json.loads(self.items.to_json(orient="records"))
        return {"name": self.name, "settings": self.settings, "notes": self.notes, "items": rows}

    @classmethod
    def load(cls, path: str | Path) -> AbstractReport:
        """A report that ``run --out`` wrote.

        Parameters
        ----------
        path : str or Path

        Raises
        ------
        InputError
            If the file is missing or holds something else.
        """
        from practicum.data.text import read_utf8

        try:
            found = json.loads(read_utf8(path))
            frame = pd.DataFrame(found["items"])
            frame["correct"].astype(float)
            return cls(found["name"], found["settings"], frame, found["notes"])
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"{path} is no report of abstract-reasoning",
                "write one with: practicum use abstract-reasoning run --out FILE.json",
            ) from error


WHAT = {"full": "all symbols", "operand": "the operands", "operator": "the operator"}


def _delta_sentences(kind: str, d: Delta, dropped: int) -> list[str]:
    lead = (
        f"{kind}: Gamma_raw {d.raw:.3f}{_span(d.raw_interval)}, Gamma_{kind} {d.mapped:.3f}"
        f"{_span(d.mapped_interval)}, Delta {d.delta:.3f}{_span((d.low, d.high))}, p {d.p:.2g} on "
        f"{d.items} items."
    )
    said = [lead]
    if d.raw < FLOOR:
        said.append(
            f"The model cannot do the task at all (Gamma_raw below {FLOOR}): Delta is "
            "uninformative."
        )
    elif min(d.raw, d.mapped) > CEILING:
        said.append("Both are at the ceiling: harder items would tell more.")
    elif d.low <= 0 <= d.high or d.p > 0.05:
        said.append(
            f"No evidence of symbol dependence at this power (detectable: {d.detectable:.2f} "
            "or more)."
        )
    else:
        verb = "costs" if d.delta > 0 else "gains"
        share = f" ({100 * d.delta / d.raw:.0f} % of what it can do)" if d.delta > 0 else ""
        said.append(
            f"Replacing {WHAT[kind]} {verb} {100 * abs(d.delta):.1f} points of accuracy on the "
            f"same items{share}; {d.lost} of {d.items} items flipped from right to wrong, "
            f"{d.gained} the other way."
        )
    if dropped:
        share = dropped / (dropped + d.items)
        said.append(
            f"{dropped} items ({100 * share:.0f} %) dropped because the remapped examples do not "
            f"determine the answer{'; more examples in each would' if share > 0.05 else ''}."
        )
    return said


def _span(interval: tuple[float, float] | None) -> str:
    return f" [{interval[0]:.3f}, {interval[1]:.3f}]" if interval else ""


def compare_reports(
    a: AbstractReport, b: AbstractReport, rng: np.random.Generator | None = None
) -> pd.DataFrame:
    """Two models on the same items: Gamma of each form, and Delta, b minus a, with intervals.

    Parameters
    ----------
    a, b : AbstractReport
        Of runs with the same tasks, seed, shots and maps.
    rng : numpy.random.Generator, optional

    Returns
    -------
    DataFrame
        Rows ``gamma raw`` ..., ``delta full`` ...; columns a, b, difference, low, high, items.

    Raises
    ------
    InputError
        If they share no item.

    Examples
    --------
    >>> from practicum.language.abstract_reasoning.solvers import frequent_answer, solve
    >>> runs = [evaluate(f, "ec/var_set", items=8, maps=1) for f in (frequent_answer, solve)]
    >>> bool(compare_reports(*runs).loc["gamma raw", "difference"] > 0)
    True
    """
    from practicum.language.abstract_reasoning.metrics import paired_interval

    rng = rng or np.random.default_rng(0)
    key = ["task", "number", "kind", "map", "query"]
    both = a.items.merge(b.items, on=key, suffixes=("_a", "_b"))
    if both.empty:
        raise InputError(
            f"the runs of {a.name} and {b.name} share no item",
            "compare runs with the same --tasks, --items, --shots, --maps and --seed",
        )
    rows: dict[str, dict[str, float]] = {}

    def add(name: str, first: pd.Series, second: pd.Series) -> None:
        frame = pd.concat({"a": first, "b": second}, axis=1, join="inner").dropna()
        parts = [g for _, g in frame.groupby("task", sort=False)]
        if parts:
            gaps = [(g["b"] - g["a"]).to_numpy() for g in parts]
            reach = 2 if name.startswith("delta") else 1  # differences of differences
            low, high = (reach * end for end in paired_interval([g / reach for g in gaps], rng))
            means = [float(np.mean([g[side].mean() for g in parts])) for side in ("a", "b")]
            rows[name] = {
                "a": means[0],
                "b": means[1],
                "difference": means[1] - means[0],
                "low": low,
                "high": high,
                "items": len(frame),
            }

    for kind in [k for k in FORMS if (both["kind"] == k).any()]:
        part = both[both["kind"] == kind].groupby(["task", "number"], sort=False)
        add(f"gamma {kind}", part[f"{a._right}_a"].mean(), part[f"{b._right}_b"].mean())
    for kind in [k for k in a.kinds if k != "raw" and k in b.kinds]:
        gaps = [(p["raw"] - p["mapped"]) for p in (a.pairs(kind), b.pairs(kind))]
        add(f"delta {kind}", *gaps)
    return pd.DataFrame(rows).T
