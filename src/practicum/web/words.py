"""How numbers, times and verdicts are written on the page."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

from practicum.study import evidence
from practicum.study.evidence import number

MARKS = {**evidence.MARKS, "not run": "·"}


def duration(seconds: float | None) -> str:
    """``40 s``, ``3 min 20 s``, ``2 h 5 min``."""
    if seconds is None:
        return ""
    whole = round(seconds)
    if whole < 1:
        return "less than 1 s"
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def when(text: str | None) -> str:
    """A stored time, to the minute."""
    return f"{dt.datetime.fromisoformat(text):%Y-%m-%d %H:%M} UTC" if text else ""


def day(stamp: float) -> str:
    """A timestamp, to the minute."""
    return f"{dt.datetime.fromtimestamp(stamp, dt.UTC):%Y-%m-%d %H:%M} UTC"


def css(status: str) -> str:
    """A verdict as the name of a style."""
    return status.replace(" ", "-")


def metrics(values: Mapping[str, object]) -> str:
    """``error=0.12, heads=0.7``."""
    return ", ".join(
        f"{name}={number(value) if isinstance(value, float) else value}"
        for name, value in values.items()
    )
