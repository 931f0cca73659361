"""What can be asked of a log directory or a checkpoint without a daemon: its ACLs, and why.

Nothing is locked and nothing is changed, so a directory in use can be read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from acl.audit import audit_message
from acl.builder import SnapshotBuilder
from acl.decision import AuthorizerSettings, Decision, explain, matching_acls
from acl.filters import acls_of
from acl.model import Acl, AclFilter, Operation, PatternType, PermissionType, Question, ResourceType
from acl.snapshot import AclSnapshot
from metadata.replay import read_changes


def read_snapshot(path: Path) -> AclSnapshot:
    """Return the ACLs at the end of a log directory, or of a checkpoint file.

    Raises:
        MetadataLogError: it is no log, or one that cannot be believed.
        ChangeError: its records do not fit one another.
    """
    builder = SnapshotBuilder()
    offset = -1
    for batch in read_changes(path):
        builder.apply_changes(batch.changes)
        offset = batch.last_offset
    return builder.freeze(offset)


def listed(acls: Iterable[Acl]) -> str:
    """Return ACLs as ``kafka-acls --list`` prints them, in the order of their names.

    Source: Kafka 4.3 AclCommand.
    """
    by_pattern: dict[tuple[int, str, int], list[Acl]] = defaultdict(list)
    for acl in acls:
        by_pattern[acl.resource_type, acl.resource_name, acl.pattern_type].append(acl)
    return "".join(_listed_pattern(by_pattern[pattern]) for pattern in sorted(by_pattern))


def _listed_pattern(acls: list[Acl]) -> str:
    first = acls[0]
    lines = [
        f"Current ACLs for resource `ResourcePattern(resourceType="
        f"{ResourceType.read(first.resource_type).name}, name={first.resource_name}, "
        f"patternType={PatternType.read(first.pattern_type).name})`:"
    ]
    order = sorted(
        acls, key=lambda acl: (acl.principal, acl.host, acl.operation, acl.permission_type)
    )
    lines += [
        f"\t(principal={acl.principal}, host={acl.host}, "
        f"operation={Operation.read(acl.operation).name}, "
        f"permissionType={PermissionType.read(acl.permission_type).name})"
        for acl in order
    ]
    return "\n".join(lines) + "\n\n"


def listed_acls(path: Path, filters: Iterable[AclFilter], principals: Sequence[str]) -> str:
    """Return the ACLs that any of ``filters`` means, as ``kafka-acls --list`` prints them.

    With ``principals``, each one's ACLs under a heading.

    Raises:
        MetadataLogError, ChangeError: as ``read_snapshot``.
    """
    snapshot = read_snapshot(path)
    meant = dict(item for each in filters for item in acls_of(snapshot, each)).values()
    if not principals:
        return listed(meant)
    return "".join(
        f"ACLs for principal `{principal}`\n"
        + listed(acl for acl in meant if acl.principal == principal)
        for principal in principals
    )


def explained(path: Path, settings: AuthorizerSettings, question: Question) -> tuple[Decision, str]:
    """Return the decision, and lines that say what was asked, the rule, and every ACL that speaks.

    Raises:
        MetadataLogError, ChangeError: as ``read_snapshot``.
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
