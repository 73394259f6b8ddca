"""Recorded threads: read, corrupt offline, write, and look at them."""

from __future__ import annotations

import difflib
import html
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from practicum.agents.agent_resilience.edits import Edit
from practicum.agents.agent_resilience.faults import Fault, TaskKind
from practicum.agents.agent_resilience.voices import Posted
from practicum.errors import InputError


@dataclass(frozen=True)
class TraceMessage:
    """A message of a recorded run.

    Parameters
    ----------
    task_id : str
    step : int
    sender : str
    receivers : tuple of str
    content : str
    original : str
        Before a fault or a defence changed it; empty where nothing did.
    edits : tuple of Edit
    note : str
    injected : str
        What a fault had made of it, where a defence then rewrote it.

    Examples
    --------
    >>> TraceMessage("t", 0, "coder", ("checker",), "x = 1").sender
    'coder'
    """

    task_id: str
    step: int
    sender: str
    receivers: tuple[str, ...]
    content: str
    original: str = ""
    edits: tuple[Edit, ...] = ()
    note: str = ""
    injected: str = ""


def read_trace(path: str | Path) -> list[TraceMessage]:
    """Messages of a JSON Lines file with ``task_id, step, sender, receivers, content``.

    Parameters
    ----------
    path : str or Path

    Raises
    ------
    InputError
        Naming the line and the field.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "trace.jsonl"
    >>> line = '{"task_id": "t", "step": 0, "sender": "a", "receivers": ["b"], "content": "hi"}'
    >>> _ = file.write_text(line)
    >>> read_trace(file)[0].receivers
    ('b',)
    """
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not text in UTF-8"
        raise InputError(f"{path}: cannot be read ({reason})") from error
    messages = [
        _message(line, f"{path}, line {number}")
        for number, line in enumerate(lines, start=1)
        if line.strip()
    ]
    if not messages:
        raise InputError(f"{path}: no messages")
    return messages


def _message(line: str, where: str) -> TraceMessage:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not JSON ({getattr(error, 'msg', error)})") from error
    wanted = {"task_id": str, "step": int, "sender": str, "receivers": list, "content": str}
    if not isinstance(record, dict):
        raise InputError(f"{where}: an object expected")
    for name, kind in wanted.items():
        value = record.get(name)
        if name == "task_id" and isinstance(value, int):
            record[name] = value = str(value)
        if not isinstance(value, kind):
            found = "nothing" if value is None else type(value).__name__
            raise InputError(
                f"{where}: {name} is {found}, {kind.__name__} expected",
                f"fields: {', '.join(wanted)}",
            )
    edits = tuple(Edit(**e) for e in record.get("edits", ()))
    return TraceMessage(
        record["task_id"],
        record["step"],
        record["sender"],
        tuple(map(str, record["receivers"])),
        record["content"],
        edits=edits,
        **{name: str(record.get(name) or "") for name in ("original", "note", "injected")},
    )


def trace_lines(messages: Sequence[TraceMessage]) -> str:
    """The messages as JSON Lines; what was edited is written along.

    Parameters
    ----------
    messages : sequence of TraceMessage

    Raises
    ------
    TypeError
        Not messages.

    Examples
    --------
    >>> trace_lines([TraceMessage("t", 0, "a", (), "hi")])[:15]
    '{"task_id": "t"'
    """
    lines = []
    for m in messages:
        record: dict[str, Any] = {**vars(m), "receivers": list(m.receivers)}
        record["edits"] = [vars(e) for e in m.edits]
        lines.append(
            json.dumps({k: v for k, v in record.items() if v or k == "step"}, ensure_ascii=False)
        )
    return "\n".join(lines) + "\n"


def from_thread(task_id: str, thread: Sequence[Posted]) -> list[TraceMessage]:
    """The thread of a run as a trace.

    Parameters
    ----------
    task_id : str
    thread : sequence of Posted

    Raises
    ------
    TypeError
        Not a thread.

    Examples
    --------
    >>> from_thread("t", [Posted("a", ("b",), "hi", 0)])[0].content
    'hi'
    """
    return [
        TraceMessage(
            task_id,
            m.step,
            m.sender,
            m.receivers,
            m.content,
            m.original,
            m.edits,
            m.note,
            m.injected,
        )
        for m in thread
    ]


def inject_trace(
    messages: Sequence[TraceMessage],
    fault: Fault,
    faulty: str,
    *,
    kind: TaskKind = "prose",
    seed: int = 0,
) -> list[TraceMessage]:
    """A recorded run in which one agent was faulty; nothing is asked of a model but the injector.

    What others would have answered to the corrupted messages is not known: replies stay as they
    were recorded.

    Parameters
    ----------
    messages : sequence of TraceMessage
    fault : Fault
    faulty : str
        A sender of the trace.
    kind : {"code", "number", "choice", "prose"}
    seed : int

    Raises
    ------
    InputError
        The trace has no such sender; or the fault acts on profiles alone, which a trace has not.

    Examples
    --------
    >>> from practicum.agents.agent_resilience import AutoInject
    >>> trace = [TraceMessage("t", 0, "a", ("b",), "It is 12")]
    >>> inject_trace(trace, AutoInject(1.0, 1.0), "a")[0].original
    'It is 12'
    """
    if fault.idle("message", "route"):
        raise InputError(
            f"{type(fault).__name__} acts on neither messages nor who gets them: a recorded trace "
            "would stay as it is",
            "use AutoInject or RoutingFault",
        )
    senders = sorted({m.sender for m in messages})
    if faulty not in senders:
        close = difflib.get_close_matches(faulty, senders, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise InputError(
            f"the trace has no messages of {faulty!r}", f"{hint}its senders: {', '.join(senders)}"
        )
    everyone = sorted({*senders, *(r for m in messages for r in m.receivers)})
    out = []
    for i, m in enumerate(messages):
        if m.sender != faulty:
            out.append(m)
            continue
        rng = random.Random(f"{seed}|{m.task_id}|{m.step}|{i}")
        made = fault.message(m.content, rng, kind)
        routed = fault.route(m.receivers, [e for e in everyone if e != faulty], rng)
        original = m.content if made.text != m.content else m.original
        note = m.note if routed == m.receivers else f"meant for {', '.join(m.receivers)}"
        out.append(
            replace(
                m,
                content=made.text,
                original=original,
                edits=made.edits,
                receivers=routed,
                note=note,
            )
        )
    return out


# --- looking at a thread -------------------------------------------------------------------------

STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.3rem } h2 { font-size: 1.05rem; margin: 2.2rem 0 .6rem }
article { border: 1px solid #8886; border-radius: .5rem; margin: .7rem 0; overflow: hidden }
header { padding: .4rem .8rem; background: #8881; display: flex; gap: .6rem; flex-wrap: wrap }
header b { font-weight: 600 } header span { opacity: .75 }
.touched { border-color: #d55e00; border-width: 2px }
.badge { background: #d55e00; color: #fff; border-radius: .3rem; padding: 0 .4rem }
.badge.defence { background: #0072b2 }
pre { margin: 0; padding: .6rem .8rem; white-space: pre-wrap; overflow-wrap: anywhere;
      font: 13px/1.45 ui-monospace, monospace }
del, ins { display: block; text-decoration: none; margin: 0 -.8rem; padding: 0 .8rem }
del { background: #d55e0022 } ins { background: #d55e0055 }
del::before { content: "\\2212 " } ins::before { content: "+ " }
.rewritten del { background: #0072b222 } .rewritten ins { background: #0072b244 }
"""


def thread_html(
    threads: Mapping[str, Sequence[TraceMessage]], title: str = "Message threads"
) -> str:
    """A self-contained page of threads; what a fault or a defence changed is marked line by line.

    Parameters
    ----------
    threads : mapping of heading to messages
    title : str

    Raises
    ------
    TypeError
        Not threads.

    Examples
    --------
    >>> page = thread_html({"t": [TraceMessage("t", 0, "a", ("b",), "new", "old")]})
    >>> "<ins>new</ins>" in page and "<del>old</del>" in page
    True
    """
    body = [f"<h1>{html.escape(title)}</h1>", f"<p>{_legend(threads)}</p>"]
    for heading, messages in threads.items():
        body.append(f"<h2>{html.escape(heading)}</h2>")
        body += [_article(m) for m in messages]
        if not messages:
            body.append("<p>No messages.</p>")
    return (
        "<!doctype html><html lang=en><meta charset=utf-8>"
        '<meta name=viewport content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style>\n"
        + "\n".join(body)
        + "</html>\n"
    )


def _legend(threads: Mapping[str, Sequence[TraceMessage]]) -> str:
    messages = [m for thread in threads.values() for m in thread]
    hit = sum(bool(m.edits) for m in messages)
    edits = sum(len(m.edits) for m in messages)
    return (
        f"{len(messages)} messages, {hit} of them with {edits} injected edits (orange: − as the "
        "agent wrote it, + as it was delivered; blue: rewritten by a defence)."
    )


def _article(m: TraceMessage) -> str:
    touched = bool(m.edits)
    badges = ""
    if touched:
        operators = ", ".join(dict.fromkeys(e.operator for e in m.edits))
        badges += f"<span class=badge>{len(m.edits)} injected: {html.escape(operators)}</span>"
    if m.note:
        badges += f'<span class="badge defence">{html.escape(m.note)}</span>'
    to = ", ".join(m.receivers) or "nobody"
    classes = "touched" if touched else "rewritten" if m.original else ""
    return (
        f'<article class="{classes}"><header><b>{html.escape(m.sender)}</b>'
        f"<span>to {html.escape(to)}</span><span>step {m.step + 1}</span>{badges}</header>"
        f"<pre>{_marked(m)}</pre></article>"
    )


def _marked(m: TraceMessage) -> str:
    if m.injected:  # twice changed: by the fault, then by a defence
        undone = _differences(m.injected, m.content)
        return (
            f"{_differences(m.original, m.injected)}</pre>"
            f'<pre class="rewritten"><b>Delivered instead:</b>\n{undone}'
        )
    if not m.original:
        return html.escape(m.content)
    return _differences(m.original, m.content)


def _differences(old: str, new: str) -> str:
    """The new text, line by line, with what was there before."""
    before, after = old.splitlines(), new.splitlines()
    parts: list[str] = []
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, before, after, False).get_opcodes():
        if tag == "equal":
            parts.append("".join(html.escape(line) + "\n" for line in after[j1:j2]))
            continue
        parts += [f"<del>{html.escape(line) or ' '}</del>" for line in before[i1:i2]]
        parts += [f"<ins>{html.escape(line) or ' '}</ins>" for line in after[j1:j2]]
    return "".join(parts)
