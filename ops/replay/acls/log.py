"""The ACLs of a metadata log, at its end or as of an earlier moment, each with when it was added.

**Invariant:** what shows is what a broker served then: whole batches, and a metadata transaction
only once it has ended. The log is read from as far back as it can be believed, so that as many ACLs
as possible are dated; those that the first checkpoint holds are older than the log tells.
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
    """A moment that the log does not tell of."""


@dataclass(frozen=True, slots=True)
class LogState:
    """The ACLs once the batch that ends at ``offset`` was applied.

    ``stamped_ms`` is that batch's time, milliseconds since 1970; None where a checkpoint is all
    that there is.
    """

    acls: tuple[DatedAcl, ...]
    offset: int
    stamped_ms: int | None


def read_checkpoint(path: Path) -> LogState:
    """Return what one checkpoint file holds; blocks.

    Raises:
        MetadataLogError, ChangeError: it is none, or one that cannot be believed.
    """
    return _state(LogFiles((), (parse_checkpoint_name(path),)), None)


def read_log(log_dir: Path, as_of: AsOf | None, *, now_ms: int) -> LogState:
    """Return the state of the log below ``log_dir`` at ``as_of``, at its end for None; blocks.

    Args:
        now_ms: milliseconds since 1970. The log's end is its state at every time after its last
            batch, but not at one that is still to come.

    Raises:
        OutOfReachError: ``as_of`` is earlier than what is retained, or beyond the end.
        MetadataLogError, ChangeError, OSError: it is no log, or one that cannot be believed.
    """
    files = find_files(log_dir)
    check_names(log_dir, DISK)
    # A log that ends below a checkpoint has lost its end: read with that, it is refused.
    end_min = max((checkpoint.end_offset for checkpoint in files.checkpoints), default=0)
    for start in _starts(files):
        try:
            limit = _limit(start, as_of, now_ms)
            state = _state(start, limit)
        except MetadataLogError:
            continue
        if limit is not None or state.offset + 1 >= end_min:
            return state
    return _state(files, _limit(files, as_of, now_ms))


def _starts(files: LogFiles) -> Iterator[LogFiles]:
    """Yield the ways to read the log from one place on, the earliest place first."""
    first = files.segments[0].base_offset if files.segments else None
    if first == 0:
        yield replace(files, checkpoints=())
    for checkpoint in files.checkpoints:
        if first is None or checkpoint.end_offset >= first:
            yield replace(files, checkpoints=(checkpoint,))


def _limit(files: LogFiles, as_of: AsOf | None, now_ms: int) -> int | None:
    """Return the offset at which ``as_of`` ends the log, None for the log's own end."""
    match as_of:
        case AtTime():
            return _offset_at(files, as_of, now_ms)
        case AtOffset():
            return as_of.offset
    return None


def _offset_at(files: LogFiles, time: AtTime, now_ms: int) -> int:
    """Return the last offset of the last batch stamped at or before ``time``.

    All of the log is looked through, since the clocks of two controllers may differ.
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
        raise OutOfReachError(f"nothing but a checkpoint is there, which tells nothing of {time}")
    if found is None:
        started = format_time(first.placed.batch.max_timestamp_ms)
        raise OutOfReachError(f"the log reaches back to {started} only, not to {time}")
    if time.time_ms > max(last_ms, now_ms):
        raise OutOfReachError(
            f"the log ends at offset {found}, stamped {format_time(last_ms)}, and {time} is in the "
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
                raise OutOfReachError(f"the log does not reach back to offset {limit}")
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
    """Return when a batch of the log was written; a checkpoint's tell nothing of what is in it."""
    return None if batch.is_checkpoint else batch.placed.batch.max_timestamp_ms


class _DatedAcls:
    """ACLs by id, as the changes of a log leave them."""

    def __init__(self) -> None:
        self._acls: dict[bytes, DatedAcl] = {}
        self._bindings: set[Acl] = set()

    def apply(self, changes: Iterable[Change], added_ms: int | None) -> None:
        """Make ``changes``, which all showed at ``added_ms``.

        Raises:
            ChangeError: one of them does not fit those before.
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
        return in_order(self._acls.values())


def in_order(acls: Iterable[DatedAcl]) -> tuple[DatedAcl, ...]:
    """Return ``acls`` in the order of their fields: one state is one tuple, whatever its ids."""
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
