"""The ACLs of a metadata log, at its end or at an earlier moment, with the times they were added.

**Invariant:** the ACLs are those that a broker served at that moment. They include only whole
batches, and only metadata transactions that have ended. To date as many ACLs as possible, reading
starts at the earliest point from which the log is intact. ACLs of the first checkpoint have no
date: they are older than the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from authorizerd.acl.errors import DuplicateAclError, DuplicateIdError, UnknownIdError
from authorizerd.acl.model import Acl, AclAdded, Change
from authorizerd.metadata.directory import LogFiles, check_names, find_files, parse_checkpoint_name
from authorizerd.metadata.errors import MetadataLogError
from authorizerd.metadata.log import LogBatch, MetadataLog
from authorizerd.metadata.replay import Replay
from authorizerd.metadata.storage import DISK
from authorizerd.replay.acl_set import DatedAcl
from authorizerd.replay.acls.as_of import AsOf, AtOffset, AtTime
from authorizerd.replay.text import format_time


class OutOfReachError(Exception):
    """The log does not cover the requested moment."""


@dataclass(frozen=True, slots=True)
class LogState:
    """The ACLs after the batch that ends at ``offset``.

    ``stamped_ms`` is that batch's timestamp, in milliseconds since 1970; None if the state comes
    only from a checkpoint.
    """

    acls: tuple[DatedAcl, ...]
    offset: int
    stamped_ms: int | None


def read_checkpoint(path: Path) -> LogState:
    """Return the state in one checkpoint file; blocks.

    Raises:
        MetadataLogError, ChangeError: the file is not a checkpoint, or is damaged.
    """
    return _state(LogFiles((), (parse_checkpoint_name(path),)), None)


def read_log(log_dir: Path, as_of: AsOf | None, *, now_ms: int) -> LogState:
    """Return the state of the log in ``log_dir`` at ``as_of``, or at its end for None; blocks.

    Args:
        now_ms: the current time, in milliseconds since 1970. The state at the end of the log is
            valid until then; a later ``as_of`` is rejected.

    Raises:
        OutOfReachError: ``as_of`` is before the retained part of the log, or after its end.
        MetadataLogError, ChangeError, OSError: there is no log, or it is damaged.
    """
    files = find_files(log_dir)
    check_names(log_dir, DISK)
    # A log that ends below a checkpoint has lost its end. Reading both reports the error.
    end_min = max((checkpoint.end_offset for checkpoint in files.checkpoints), default=0)
    for start in _starts(files):
        try:
            limit = _limit(start, as_of, now_ms)
            state = _state(start, limit)
        # Try a later start. If no start is intact, the last line raises the error.
        except MetadataLogError:
            continue
        if limit is not None or state.offset + 1 >= end_min:
            return state
    return _state(files, _limit(files, as_of, now_ms))


def _starts(files: LogFiles) -> Iterator[LogFiles]:
    """Yield the possible starting points for reading the log, earliest first."""
    first = files.segments[0].base_offset if files.segments else None
    if first == 0:
        yield replace(files, checkpoints=())
    for checkpoint in files.checkpoints:
        if first is None or checkpoint.end_offset >= first:
            yield replace(files, checkpoints=(checkpoint,))


def _limit(files: LogFiles, as_of: AsOf | None, now_ms: int) -> int | None:
    """Return the last offset that ``as_of`` includes; None for the end of the log."""
    match as_of:
        case AtTime():
            return _offset_at(files, as_of, now_ms)
        case AtOffset():
            return as_of.offset
    return None


def _offset_at(files: LogFiles, time: AtTime, now_ms: int) -> int:
    """Return the last offset of the last batch stamped at or before ``time``.

    It reads the whole log: timestamps may decrease, since controllers' clocks differ.
    """
    found: int | None = None
    first: LogBatch | None = None
    last_ms = 0
    for batch in MetadataLog(files).batches():
        stamped_ms = _stamped_ms(batch)
        if stamped_ms is None:
            continue
        first = first or batch
        last_ms = stamped_ms
        if stamped_ms <= time.time_ms:
            found = batch.last_offset
    if first is None:
        raise OutOfReachError(f"the log has only a checkpoint, so its state at {time} is unknown")
    if found is None:
        started = format_time(first.placed.batch.max_timestamp_ms)
        raise OutOfReachError(f"the log begins at {started}, after {time}")
    if time.time_ms > max(last_ms, now_ms):
        raise OutOfReachError(
            f"the log ends at offset {found}, at {format_time(last_ms)}, and {time} is in the "
            "future"
        )
    return found


def _state(files: LogFiles, limit: int | None) -> LogState:
    """Return the state after the last batch that ends at or before ``limit``."""
    acls = _DatedAcls()
    replay = Replay()
    log = MetadataLog(files)
    offset, stamped_ms = -1, None
    for batch in log.batches():
        if limit is not None and batch.last_offset > limit:
            if offset < 0:
                raise OutOfReachError(f"the log begins after offset {limit}")
            break
        offset, stamped_ms = batch.last_offset, _stamped_ms(batch)
        for step in replay.steps(batch):
            if step is not None:
                acls.apply(step.changes, stamped_ms)
    else:
        offset = log.progress.last_offset
        if limit is not None and offset < limit:
            raise OutOfReachError(f"the log ends at offset {offset}, before offset {limit}")
    return LogState(acls.sorted(), offset, stamped_ms)


def _stamped_ms(batch: LogBatch) -> int | None:
    """Return when a batch was written; None for a checkpoint: its ACLs are older."""
    return None if batch.is_checkpoint else batch.placed.batch.max_timestamp_ms


class _DatedAcls:
    """ACLs by ID, with the changes of a log applied."""

    def __init__(self) -> None:
        self._acls: dict[bytes, DatedAcl] = {}
        self._bindings: set[Acl] = set()

    def apply(self, changes: Iterable[Change], added_ms: int | None) -> None:
        """Apply ``changes``, which became visible at ``added_ms``.

        Raises:
            ChangeError: a change contradicts an earlier one.
        """
        for change in changes:
            if type(change) is AclAdded:
                if change.id in self._acls:
                    raise DuplicateIdError(change.id)
                if change.acl in self._bindings:
                    raise DuplicateAclError(change.id, change.acl)
                self._acls[change.id] = DatedAcl(change.acl, added_ms)
                self._bindings.add(change.acl)
            else:
                removed = self._acls.pop(change.id, None)
                if removed is None:
                    raise UnknownIdError(change.id)
                self._bindings.remove(removed.acl)

    def sorted(self) -> tuple[DatedAcl, ...]:
        return sort_acls(self._acls.values())


def sort_acls(acls: Iterable[DatedAcl]) -> tuple[DatedAcl, ...]:
    """Return ``acls`` sorted by their fields, so that equal states are equal tuples."""
    return tuple(sorted(acls, key=_fields))


def _fields(dated: DatedAcl) -> tuple[int, str, int, str, str, int, int]:
    acl = dated.acl
    return (
        acl.resource_type,
        acl.resource_name,
        acl.pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission_type,
    )
