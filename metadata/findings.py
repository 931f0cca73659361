"""What a look at a log directory finds: faults, what is worth knowing, and how much there is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from authorizerd.metadata.batch_file import TornTail


class FaultKind(Enum):
    """What a fault hinders, which is what a repair hangs on."""

    DAMAGE = auto()  # reading cannot pass the batch
    GAP = auto()  # the segment does not follow the one before
    EPOCH = auto()  # reading passes it: only the batch's epoch cannot be
    UNCOVERED = auto()  # the log begins late, and nothing says what was before
    CHECKPOINT = auto()
    AHEAD = auto()  # a checkpoint that ends behind the log's end: one of the two is wrong
    DIRECTORY = auto()  # a name, or meta.properties


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong: at ``position`` of a file, of a batch that begins at ``batch_position``.

    ``offset`` is the first one that cannot be believed. ``right_epoch`` is set for EPOCH.
    """

    kind: FaultKind
    path: Path
    position: int
    offset: int
    reason: str
    batch_position: int = 0
    right_epoch: int = -1

    def __str__(self) -> str:
        if self.kind is FaultKind.DIRECTORY:
            return f"{self.path}: {self.reason}"
        return f"{self.path}: at byte {self.position}, log offset {self.offset}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Note:
    """What is no fault, and worth knowing."""

    path: Path
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


Finding = Fault | Note


@dataclass(slots=True)
class Summary:
    """What was seen; batches and records are those of the segments, control records counted."""

    segments: int = 0
    checkpoints: int = 0
    batches: int = 0
    records: int = 0
    first_offset: int = -1
    was_shut_down_cleanly: bool = False
    torn_tail: TornTail | None = None


def directory_fault(path: Path, reason: str) -> Fault:
    """Return the fault of a name, or of a file that is no part of the log."""
    return Fault(FaultKind.DIRECTORY, path, 0, 0, reason)
