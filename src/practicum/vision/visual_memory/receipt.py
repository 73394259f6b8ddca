"""What a removal did, said so that it can be filed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from practicum.vision.visual_memory.residue import ErasureReport

CAVEAT = (
    "If the encoder was trained on these images, deleting rows does not remove what the encoder "
    "learnt. Copies made by others (backups, file-system snapshots, spare blocks of a disk) are "
    "outside this folder and were not touched."
)


@dataclass(frozen=True)
class Receipt:
    """The proof of a removal.

    Attributes
    ----------
    n : int
        Rows removed.
    ids : list of str
    erased : bool
        Whether bytes were overwritten, or the rows only retired.
    files : dict of file -> what was done to it
    snapshots : list of str
        Snapshots that held one of the rows and lost it.
    digest_before, digest_after : str
        Of the memory's rows; the second is that of a memory that never held these rows.
    verified : bool
        A byte scan of all files found nothing of them.
    report : ErasureReport or None
    last_of_class : list
        Labels that no row has any more.
    time : str
        UTC.

    Examples
    --------
    >>> from practicum.vision.visual_memory import VisualMemory
    >>> import numpy as np
    >>> memory = VisualMemory(dim=2)
    >>> _ = memory.add(np.eye(2), labels=["cat", "dog"], ids=["tom", "rex"])
    >>> import warnings; warnings.simplefilter("ignore")
    >>> receipt = memory.remove(["rex"])
    >>> receipt.n, receipt.verified
    (1, True)
    """

    n: int
    ids: list[str]
    erased: bool
    files: dict[str, str]
    digest_before: str
    digest_after: str
    verified: bool
    time: str
    snapshots: list[str] = field(default_factory=list)
    last_of_class: list = field(default_factory=list)
    report: ErasureReport | None = None
    caveat: str = CAVEAT

    def to_json(self) -> str:
        """For the file."""
        return json.dumps(asdict(self), indent=2, default=str)

    def __str__(self) -> str:
        if not self.erased:
            return (
                f"{self.n} rows retired: out of every search, still on the disk (compact erases)."
            )
        lines = [f"{self.n} rows erased at {self.time}: {_few(self.ids)}."]
        lines += [f"  {name}: {what}" for name, what in self.files.items()]
        if self.snapshots:
            lines.append(f"  snapshots that lost rows: {', '.join(self.snapshots)}")
        if self.last_of_class:
            lines.append(f"  no row left of: {', '.join(map(str, self.last_of_class))}")
        if self.report and self.report.files:
            lines.append(f"  byte scan: {self.report}")
        lines.append(f"  digest {self.digest_before[:16]} -> {self.digest_after[:16]}")
        lines.append("  VERIFIED" if self.verified else "  NOT VERIFIED: see the byte scan")
        return "\n".join([*lines, self.caveat])


def _few(names: Sequence[str], n: int = 5) -> str:
    more = f" and {len(names) - n} more" if len(names) > n else ""
    return ", ".join(names[:n]) + more
