"""Results of runs as one JSON file, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from practicum.agents.agent_resilience.edits import Edit
from practicum.agents.agent_resilience.team import Result
from practicum.agents.agent_resilience.traces import TraceMessage, from_thread
from practicum.agents.agent_resilience.voices import Posted
from practicum.errors import InputError

VERSION = 1


def results_json(results: Sequence[Result], settings: Mapping[str, Any]) -> str:
    """Results and the settings they were made with, as JSON text.

    Parameters
    ----------
    results : sequence of Result
    settings : mapping

    Raises
    ------
    TypeError
        A setting is no plain value.

    Examples
    --------
    >>> results_json([], {"seeds": 2})
    '{"version": 1, "settings": {"seeds": 2}, "runs": []}'
    """
    runs = []
    for result in results:
        threads = [
            {"arm": arm, "task": task, "seed": seed, "messages": [_posted(m) for m in thread]}
            for (arm, task, seed), thread in result.threads.items()
        ]
        rows = result.frame.astype(object).where(result.frame.notna(), None).to_dict("records")
        runs.append(
            {
                "topology": result.topology,
                "faulty": result.faulty,
                "voice": result.voice,
                "notes": result.notes,
                "rows": rows,
                "threads": threads,
            }
        )
    return json.dumps(
        {"version": VERSION, "settings": dict(settings), "runs": runs}, default=_plain
    )


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is no plain value")


def _posted(message: Posted) -> dict[str, Any]:
    record = {**vars(message), "receivers": list(message.receivers)}
    record["edits"] = [vars(e) for e in message.edits]
    return record


def read_results(path: str | Path) -> tuple[list[Result], dict[str, Any]]:
    """What :func:`results_json` wrote.

    Parameters
    ----------
    path : str or Path

    Raises
    ------
    InputError
        The file cannot be read or is none of ours.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "r.json"
    >>> _ = file.write_text(results_json([], {"seeds": 2}))
    >>> read_results(file)
    ([], {'seeds': 2})
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON ({getattr(error, 'msg', error)})") from error
    try:
        if content["version"] != VERSION:
            raise InputError(f"{path}: version {content['version']}, {VERSION} expected")
        return [_result(run) for run in content["runs"]], dict(content["settings"])
    except (KeyError, TypeError) as error:
        raise InputError(
            f"{path}: not the results of a run ({error})",
            "name the file that practicum use agent-resilience run --out wrote",
        ) from error


def _result(run: Mapping[str, Any]) -> Result:
    threads = {}
    for thread in run["threads"]:
        messages = []
        for m in thread["messages"]:
            edits = tuple(Edit(**e) for e in m["edits"])
            messages.append(Posted(**{**m, "receivers": tuple(m["receivers"]), "edits": edits}))
        threads[thread["arm"], thread["task"], thread["seed"]] = messages
    frame = pd.DataFrame(run["rows"])
    frame["score"] = frame["score"].astype(float)
    return Result(frame, threads, run["notes"], run["topology"], run["faulty"], run["voice"])


def threads_of(result: Result, arm: str, tasks: Sequence[str]) -> dict[str, list[TraceMessage]]:
    """Threads of one arm under readable headings, with the score of each.

    Parameters
    ----------
    result : Result
    arm : str
    tasks : sequence of str
        Ids; none: those in which something was injected, first.

    Raises
    ------
    InputError
        No thread of that arm or task was kept.

    Examples
    --------
    >>> from practicum.agents.agent_resilience import SimTeam, Topology, arithmetic, run_resilience
    >>> sim = SimTeam(0.5, sensitivity=0.5)
    >>> result = run_resilience(Topology.from_name("single"), arithmetic(4), sim, seeds=[0])
    >>> len(threads_of(result, "vanilla", ["sum-1"]))
    1
    """
    kept = {t: (seed, m) for (a, t, seed), m in result.threads.items() if a == arm}
    if not kept:
        there = ", ".join(dict.fromkeys(a for a, _, _ in result.threads)) or "none"
        raise InputError(f"{result.topology}: no threads of the arm {arm!r}", f"arms: {there}")
    if missing := [t for t in tasks if t not in kept]:
        raise InputError(
            f"{result.topology}: no thread of task {missing[0]!r}",
            f"tasks: {', '.join(list(kept)[:6])}{' ...' if len(kept) > 6 else ''}",
        )
    order = tasks or sorted(kept, key=lambda t: not any(m.edits for m in kept[t][1]))
    scores = result.frame[result.frame["arm"] == arm].set_index(["task", "seed"])["score"]
    out = {}
    for task in order:
        seed, thread = kept[task]
        score = scores.get((task, seed), np.nan)
        word = "no answer" if np.isnan(score) else f"score {score:g}"
        out[f"{task} · {result.topology} · {arm} · seed {seed} · {word}"] = from_thread(
            task, thread
        )
    return out
