"""Read the history of the ACLs from a log directory, or from a checkpoint file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec.structs import replace

from authorizerd.acl.model import Acl, AclAdded, Change
from authorizerd.image.errors import ChangeError
from authorizerd.metadata.directory import OFFSET_MAX, LogFiles
from authorizerd.metadata.errors import MetadataLogError
from authorizerd.metadata.live_files import read_live
from authorizerd.metadata.past.past_log import PastLog, TimedBatch
from authorizerd.replay.acl_set import DatedAcl
from authorizerd.replay.acls.log import apply_dated, find_log, read_earliest
from authorizerd.replay.errors import AclSourceError
from authorizerd.replay.verify.history import ALWAYS, History, State


def read_history(path: Path) -> History:
    """Return all states of a log directory, or of a checkpoint file. Blocks.

    Raises:
        AclSourceError: there is no log, or it is damaged.
    """

    def read(files: LogFiles) -> History:
        return _read_states(files, str(path))

    try:
        return read_live(find_log(path), lambda files: read_earliest(files, read, is_whole=True))
    except (MetadataLogError, ChangeError) as error:
        raise AclSourceError(str(path), str(error).removeprefix(f"{path}: ")) from error
    except OSError as error:
        raise AclSourceError(str(path), str(error)) from error


def _read_states(files: LogFiles, source: str) -> History:
    states: list[State] = []
    live: dict[bytes, DatedAcl] = {}
    bindings: set[Acl] = set()
    offset, end_ms, first_ms = None, None, None
    for changes, timed in read_visible(PastLog(files).read(OFFSET_MAX)):
        offset, end_ms = timed.changes.last_offset, timed.time_ms
        if first_ms is None and not timed.is_checkpoint:
            first_ms = end_ms
        if states and not changes:
            continue
        acls = apply_visible(live, bindings, changes)
        time_ms = ALWAYS if end_ms is None else end_ms
        states.append(State(tuple(changes), acls, time_ms, offset))
    if states and states[0].time_ms == ALWAYS and first_ms is not None:
        states[0] = replace(states[0], time_ms=first_ms)
    return History(source, states, offset, end_ms)


def apply_visible(
    live: dict[bytes, DatedAcl], bindings: set[Acl], changes: Iterable[Change]
) -> tuple[Acl, ...]:
    """Apply changes as ``apply_dated``, and return their ACLs, also of removals."""
    acls: list[Acl] = []
    for change in changes:
        if isinstance(change, AclAdded):
            acls.append(change.acl)
        elif change.id in live:
            acls.append(live[change.id].acl)
        apply_dated(live, bindings, (change,), None)
    return tuple(acls)


def read_visible(log: Iterable[TimedBatch]) -> Iterator[tuple[list[Change], TimedBatch]]:
    """Yield the changes of a whole checkpoint, then of each batch, with the last part of each."""
    changes: list[Change] = []
    last: TimedBatch | None = None
    for timed in log:
        if last is not None and last.is_checkpoint and not timed.is_checkpoint:
            yield changes, last
            changes = []
        changes += timed.changes.changes
        if timed.changes.is_end and not timed.is_checkpoint:
            yield changes, timed
            changes = []
        last = timed
    if last is not None and last.is_checkpoint:
        yield changes, last
