"""The findings of an inspection: faults, notes, and a summary; and those of ``meta.properties``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.metadata.batch_file import TornTail
from authorizerd.metadata.copy_directory import MARK_NAME, read_mark
from authorizerd.metadata.errors import LogDirectoryError
from authorizerd.metadata.meta_properties import NAME as META_PROPERTIES_NAME
from authorizerd.metadata.meta_properties import check_format_is_finished, read_meta_properties
from authorizerd.metadata.storage import Storage


class FaultKind(Enum):
    """The effect of a fault, which determines how it is repaired."""

    DAMAGE = auto()  # reading cannot pass the batch
    GAP = auto()  # the segment does not follow the previous one
    EPOCH = auto()  # reading can continue: only the batch's epoch is impossible
    UNCOVERED = auto()  # the log begins late, and no checkpoint covers what came before
    CHECKPOINT = auto()
    AHEAD = auto()  # a checkpoint that ends beyond the log's end: one of the two is wrong
    DIRECTORY = auto()  # a name, or meta.properties


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault at ``position`` of a file, in the batch that begins at ``batch_position``.

    ``offset`` is the first offset that cannot be trusted. ``right_epoch`` is set for EPOCH.
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
            return escape_unprintable(f"{self.path}: {self.reason}")
        place = f"at byte {self.position}, log offset {self.offset}"
        return escape_unprintable(f"{self.path}: {place}: {self.reason}")


@dataclass(frozen=True, slots=True)
class Note:
    """Something worth knowing that is not a fault."""

    path: Path
    reason: str

    def __str__(self) -> str:
        return escape_unprintable(f"{self.path}: {self.reason}")


Finding = Fault | Note


@dataclass(slots=True)
class Summary:
    """The counts of an inspection, and the end of the log.

    Batches and records are those of the segments, control records included.
    """

    segments: int = 0
    checkpoints: int = 0
    batches: int = 0
    records: int = 0
    first_offset: int = -1
    was_shut_down_cleanly: bool = False
    torn_tail: TornTail | None = None


def directory_fault(path: Path, reason: str) -> Fault:
    """Return a fault for a name, or for a file that does not belong to the log."""
    return Fault(FaultKind.DIRECTORY, path, 0, 0, reason)


def inspect_properties(log_dir: Path, storage: Storage) -> Iterator[Finding]:
    """Yield the faults of ``meta.properties``, and notes about it."""
    path = log_dir / META_PROPERTIES_NAME
    try:
        check_format_is_finished(log_dir, storage)
        mark = read_mark(log_dir, storage)
        properties = read_meta_properties(log_dir, storage)
    except LogDirectoryError as error:
        yield directory_fault(path, str(error).removeprefix(f"{path}: "))
        return
    if mark is not None and properties is not None:
        of = f"cluster {properties.cluster_id}" if properties.cluster_id else "a cluster"
        reason = f"the log is a copy of {of} (authorizerd.source={mark.source})"
        yield Note(log_dir / MARK_NAME, reason)
    elif properties is None:
        yield Note(path, "missing: the next start creates a cluster id")
    elif properties.node_id < 0 or not properties.cluster_id:
        found = f"{properties.node_id} and {properties.cluster_id!r}"
        reason = f"expected a node.id of at least 0 and a cluster.id, found {found}"
        yield directory_fault(path, reason)
