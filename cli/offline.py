"""Read the ACLs of a log directory or a checkpoint without a daemon.

Nothing is locked and nothing is changed, so a directory in use can be read.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from authorizerd.acl.as_of import AsOf, Moment
from authorizerd.acl.builder import SnapshotBuilder
from authorizerd.acl.filters import scan_acls
from authorizerd.acl.model import Acl, AclFilter, ChangeBatch
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.daemon.errors import StartError
from authorizerd.image.changes import ClusterChange, TopicAdded, TopicRemoved
from authorizerd.image.errors import ChangeError
from authorizerd.metadata.past import PastLog, check_time, read_past
from authorizerd.metadata.replay import read_changes


class LogContents(msgspec.Struct, frozen=True):
    """The ACLs of a log at one moment, and the sorted names of its topics.

    The time of ``moment`` is known only if the contents of a certain moment were asked for.
    """

    snapshot: AclSnapshot
    topics: tuple[str, ...]
    moment: Moment


def read_log(path: Path, as_of: AsOf | None = None) -> LogContents:
    """Return the contents of a log directory, or of a checkpoint file.

    Args:
        as_of: the moment of the contents; None for the end of the log.

    Raises:
        MetadataLogError: there is no log, or it is damaged, or does not reach the moment.
        StartError: its records contradict each other.
    """
    if as_of is not None:
        check_time(as_of, time.time_ns() // 1_000_000)

    def read(log: PastLog) -> LogContents:
        assert as_of is not None
        return _build((timed.changes, timed.time_ms) for timed in log.read_until(as_of))

    try:
        if as_of is None:
            return _build((batch, None) for batch in read_changes(path))
        return read_past(path, read)
    except ChangeError as error:
        raise StartError(
            f"{path}: the log contradicts itself: {error}. Run `authorizerd check-log`"
        ) from error


def _build(batches: Iterable[tuple[ChangeBatch, int | None]]) -> LogContents:
    """Return the contents after these changes, each with its time."""
    builder = SnapshotBuilder()
    topics: dict[bytes, str] = {}
    moment = Moment(-1, None)
    for batch, time_ms in batches:
        builder.apply_changes(batch.changes)
        _apply_topics(topics, batch.cluster_changes)
        moment = Moment(batch.last_offset, time_ms)
    return LogContents(builder.freeze(moment.offset), tuple(sorted(topics.values())), moment)


def read_snapshot(path: Path, as_of: AsOf | None = None) -> AclSnapshot:
    """Return the ACLs of a log directory, or of a checkpoint file. See ``read_log``."""
    return read_log(path, as_of).snapshot


def _apply_topics(topics: dict[bytes, str], changes: Iterable[ClusterChange]) -> None:
    """Add and remove topics by their ids.

    Why not ``apply_cluster_changes``? It builds every partition too, which nobody asks for.
    """
    for change in changes:
        if type(change) is TopicAdded:
            topics[change.id] = change.name
        elif type(change) is TopicRemoved:
            topics.pop(change.id, None)


class SnapshotAcls:
    """The ACLs of a snapshot, which ``authorizerd acls`` can read like a server's."""

    def __init__(self, snapshot: AclSnapshot) -> None:
        self._snapshot = snapshot

    async def describe(self, filter: AclFilter) -> list[Acl]:
        """Return the ACLs that ``filter`` matches, without waiting."""
        return [acl for found in scan_acls(self._snapshot, filter) for _, acl in found]
