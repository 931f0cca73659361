"""Read the ACLs of a log directory or a checkpoint without a daemon.

Nothing is locked and nothing is changed, so a directory in use can be read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from authorizerd.acl.builder import SnapshotBuilder
from authorizerd.acl.filters import scan_acls
from authorizerd.acl.model import Acl, AclFilter, ResourceType
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.metadata.replay import read_changes

RESOURCE_FLAGS: Final = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
    "delegation-token": ResourceType.DELEGATION_TOKEN,
    "user-principal": ResourceType.USER,
}
"""The flags of ``acls`` and ``explain`` that name a resource."""


def read_snapshot(path: Path) -> AclSnapshot:
    """Return the ACLs at the end of a log directory, or of a checkpoint file.

    Raises:
        MetadataLogError: there is no log, or it is damaged.
        ChangeError: its records contradict each other.
    """
    builder = SnapshotBuilder()
    offset = -1
    for batch in read_changes(path):
        builder.apply_changes(batch.changes)
        offset = batch.last_offset
    return builder.freeze(offset)


class SnapshotAcls:
    """The ACLs of a snapshot, which ``authorizerd acls`` can read like a server's."""

    def __init__(self, snapshot: AclSnapshot) -> None:
        self._snapshot = snapshot

    async def describe(self, filter: AclFilter) -> list[Acl]:
        """Return the ACLs that ``filter`` matches, without waiting."""
        return [acl for found in scan_acls(self._snapshot, filter) for _, acl in found]
