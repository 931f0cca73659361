"""Read the ACLs of a log directory or a checkpoint without a daemon.

Nothing is locked and nothing is changed, so a directory in use can be read.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.acl.builder import SnapshotBuilder
from authorizerd.acl.filters import scan_acls
from authorizerd.acl.model import Acl, AclFilter, ResourceType
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.image.changes import ClusterChange, TopicAdded, TopicRemoved
from authorizerd.metadata.replay import read_changes

RESOURCE_FLAGS: Final = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
    "delegation-token": ResourceType.DELEGATION_TOKEN,
    "user-principal": ResourceType.USER,
}
"""The flags of ``acls`` and of the questions about ACLs that name a resource."""


class LogContents(msgspec.Struct, frozen=True):
    """The ACLs at the end of a log, and the sorted names of its topics."""

    snapshot: AclSnapshot
    topics: tuple[str, ...]


def read_log(path: Path) -> LogContents:
    """Return the contents of a log directory, or of a checkpoint file.

    Raises:
        MetadataLogError: there is no log, or it is damaged.
        ChangeError: its records contradict each other.
    """
    builder = SnapshotBuilder()
    topics: dict[bytes, str] = {}
    offset = -1
    for batch in read_changes(path):
        builder.apply_changes(batch.changes)
        _apply_topics(topics, batch.cluster_changes)
        offset = batch.last_offset
    return LogContents(builder.freeze(offset), tuple(sorted(topics.values())))


def read_snapshot(path: Path) -> AclSnapshot:
    """Return the ACLs at the end of a log directory, or of a checkpoint file. See ``read_log``."""
    return read_log(path).snapshot


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
