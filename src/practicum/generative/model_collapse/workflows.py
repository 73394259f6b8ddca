"""The data workflows: what generation t is trained on."""

from __future__ import annotations

from typing import Literal, get_args

from practicum.errors import InputError

Workflow = Literal["replace", "accumulate", "accumulate-subsample", "accumulate-synthetic"]

#: The paper's three workflows, which ``"all"`` stands for.
WORKFLOWS: tuple[Workflow, ...] = ("replace", "accumulate", "accumulate-subsample")

#: A placebo: accumulate with the real items taken away after generation 1.  What it has in common
#: with accumulate cannot be credited to keeping real data.
CONTROL: Workflow = "accumulate-synthetic"


def check_workflow(name: str) -> Workflow:
    """Return a workflow's name, or say which ones exist.

    Raises
    ------
    InputError
        For any other name.

    Examples
    --------
    >>> check_workflow("replace")
    'replace'
    """
    if name not in get_args(Workflow):
        known = ", ".join(get_args(Workflow))
        raise InputError(f"workflow {name!r} is not known", f"use one of {known}")
    return name
