"""The ACLs of a metadata log, at its end or at an earlier moment, with the times they were added.

**Invariant:** the ACLs are those that a broker served at that moment. They include only whole
batches, and only metadata transactions that have ended. To date as many ACLs as possible, reading
starts at the earliest point from which the log is intact. ACLs of the first checkpoint have no
date: they are older than the log.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, TypeVar

from msgspec.structs import astuple

from authorizerd.acl.as_of import AsOf
from authorizerd.acl.errors import DuplicateAclError, DuplicateIdError, UnknownIdError
from authorizerd.acl.model import Acl, AclAdded, Change
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY, OFFSET_MAX, LogFiles
from authorizerd.metadata.errors import MetadataLogError
from authorizerd.metadata.live_files import read_live
from authorizerd.metadata.past.past_log import PastLog, check_time
from authorizerd.replay.acl_set import DatedAcl


@dataclass(frozen=True, slots=True)
class LogState:
    """The ACLs after the batch that ends at ``offset``; None for a source without offsets.

    ``stamped_ms`` is that batch's timestamp, in milliseconds since 1970; None if the state comes
    only from a checkpoint.
    """

    acls: tuple[DatedAcl, ...]
    offset: int | None = None
    stamped_ms: int | None = None


def find_log(path: Path) -> Path:
    """Return the log directory for ``path``, which may also be the metadata topic's directory."""
    is_topic = path.name == METADATA_TOPIC_DIRECTORY and not (path / path.name).is_dir()
    return path.parent if is_topic else path


def read_log(path: Path, as_of: AsOf | None = None) -> LogState:
    """Return the state of a log directory, or of a checkpoint file; blocks.

    Args:
        as_of: the moment of the state; None for the end of the log.

    Raises:
        PastRangeError: the retained part of the log does not reach ``as_of``.
        MetadataLogError, ChangeError: there is no log, or it is damaged.
    """
    if as_of is not None:
        check_time(as_of, time.time_ns() // 1_000_000)
    return read_live(
        path,
        lambda files: read_earliest(
            files, lambda start: _read_from(start, as_of), is_whole=as_of is None
        ),
    )


class _Reached(Protocol):
    """The result of reading a log; ``offset`` is the last one read."""

    @property
    def offset(self) -> int | None: ...


R = TypeVar("R", bound=_Reached)


def read_earliest(files: LogFiles, read: Callable[[LogFiles], R], *, is_whole: bool) -> R:
    """Return the result of ``read`` for the files from the earliest intact starting point on.

    Args:
        is_whole: whether ``read`` reads to the end of the log.

    Raises:
        MetadataLogError: no starting point is intact.
    """
    # A log that ends below a checkpoint has lost its end. Reading both reports the error.
    end_min = max((checkpoint.end_offset for checkpoint in files.checkpoints), default=0)
    for start in _starts(files):
        try:
            state = read(start)
        # Try a later starting point. If none is intact, the last line raises the error.
        except MetadataLogError:
            continue
        if not is_whole or (state.offset is not None and state.offset + 1 >= end_min):
            return state
    return read(files)


def _starts(files: LogFiles) -> Iterator[LogFiles]:
    """Yield the possible starting points for reading the log, earliest first."""
    first = files.segments[0].base_offset if files.segments else None
    if first == 0:
        yield replace(files, checkpoints=())
    for checkpoint in files.checkpoints:
        if first is None or checkpoint.end_offset >= first:
            yield replace(files, checkpoints=(checkpoint,))


def _read_from(files: LogFiles, as_of: AsOf | None) -> LogState:
    log = PastLog(files)
    acls: dict[bytes, DatedAcl] = {}
    bindings: set[Acl] = set()
    offset, stamped_ms = None, None
    for timed in log.read(OFFSET_MAX) if as_of is None else log.read_until(as_of):
        offset = timed.changes.last_offset
        stamped_ms = None if timed.is_checkpoint else timed.time_ms
        apply_dated(acls, bindings, timed.changes.changes, stamped_ms)
    return LogState(sort_acls(acls.values()), offset, stamped_ms)


def apply_dated(
    acls: dict[bytes, DatedAcl],
    bindings: set[Acl],
    changes: Iterable[Change],
    added_ms: int | None,
) -> None:
    """Apply ``changes``, which became visible at ``added_ms``.

    Raises:
        ChangeError: a change contradicts an earlier one.
    """
    for change in changes:
        if type(change) is AclAdded:
            if change.id in acls:
                raise DuplicateIdError(change.id)
            if change.acl in bindings:
                raise DuplicateAclError(change.id, change.acl)
            acls[change.id] = DatedAcl(change.acl, added_ms)
            bindings.add(change.acl)
        else:
            if change.id not in acls:
                raise UnknownIdError(change.id)
            bindings.remove(acls.pop(change.id).acl)


def sort_acls(acls: Iterable[DatedAcl]) -> tuple[DatedAcl, ...]:
    """Return ``acls`` sorted by their fields, so that equal states are equal tuples."""
    return tuple(sorted(acls, key=lambda dated: astuple(dated.acl)))
