"""Questions to a log directory or a checkpoint without a daemon: its ACLs, and its decisions.

Nothing is locked and nothing is changed, so a directory in use can be read.
"""

from __future__ import annotations

from pathlib import Path

from authorizerd.acl.audit import audit_message
from authorizerd.acl.builder import SnapshotBuilder
from authorizerd.acl.decision import AuthorizerSettings, Decision, explain, matching_acls
from authorizerd.acl.filters import scan_acls
from authorizerd.acl.model import Acl, AclFilter, Question
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.metadata.replay import read_changes


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


def explained(path: Path, settings: AuthorizerSettings, question: Question) -> tuple[Decision, str]:
    """Return the decision, and lines with the question, the rule, and every ACL that matches.

    Raises:
        MetadataLogError, ChangeError: see ``read_snapshot``.
        InvalidQuestionError: the principal is ``User:*``.
    """
    snapshot = read_snapshot(path)
    decision = explain(snapshot, settings, question)
    lines = [audit_message(question, decision, "explain")]
    lines += [f"  {acl}" for acl in sorted(matching_acls(snapshot, question), key=_by_permission)]
    lines.append(f"at log offset {snapshot.offset}, of {len(snapshot.acls)} ACLs")
    return decision, "\n".join(lines) + "\n"


def _by_permission(acl: Acl) -> tuple[int, str]:
    return acl.permission_type, str(acl)
