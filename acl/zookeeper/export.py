"""Which znodes hold a set of ACLs, and which ACLs ZooKeeper or an old broker cannot hold.

**Invariant:** each ACL is in exactly one znode, or in the losses with its reason. Nothing but ALLOW
ACLs may be lost: ``find_lost_denials`` returns those that stop an export.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from authorizerd.acl.formats.model import Loss
from authorizerd.acl.model import Acl, PatternType
from authorizerd.acl.snapshot import is_grant
from authorizerd.acl.zookeeper.broker_version import NEWEST, BrokerVersion, why_unreadable
from authorizerd.acl.zookeeper.change_events import new_change_event
from authorizerd.acl.zookeeper.names import PERMISSION_TYPE_NAMES
from authorizerd.acl.zookeeper.paths import PATTERN_ROOTS, Pattern, pattern_path, why_not_a_znode
from authorizerd.acl.zookeeper.znode import why_no_principal, write_acls

JUTE_MAX_BUFFER: Final = 0xFFFFF
"""ZooKeeper's default limit of one request, in bytes; a server accepts no longer one."""
REQUEST_OVERHEAD: Final = 4096
"""Bytes of a request besides data and paths: headers, the znodes' ACLs, a chroot's path."""
PATHS_IN_REQUEST: Final = 3
"""A request contains the path of the pattern, and at most two shorter ones."""


class Target(msgspec.Struct, frozen=True):
    """What limits an export.

    Attributes:
        oldest: the version of the oldest broker that reads the ACLs.
        request_bytes_max: ``jute.maxbuffer`` of the ZooKeeper servers.
    """

    oldest: BrokerVersion = NEWEST
    request_bytes_max: int = JUTE_MAX_BUFFER


class Export(msgspec.Struct, frozen=True):
    """The ACLs of each pattern, in the order of patterns' paths, and the losses."""

    patterns: Mapping[Pattern, tuple[Acl, ...]]
    losses: tuple[Loss, ...]


def plan_export(acls: Iterable[Acl], target: Target) -> Export:
    """Divide ACLs into those of each new pattern's znode, and losses."""
    divided = divide(acls, target)
    losses = list(divided.losses)
    kept = {}
    for pattern, entries in divided.patterns.items():
        lost = find_oversized(pattern, entries, target)
        if lost:
            losses += lost
        else:
            kept[pattern] = entries
    return Export(kept, tuple(losses))


def divide(acls: Iterable[Acl], target: Target) -> Export:
    """Divide ACLs as ``plan_export``, whatever the size of a pattern's ACLs."""
    patterns: dict[Pattern, list[Acl]] = {}
    losses: list[Loss] = []
    for acl in dict.fromkeys(acls):
        reason = _why_lost(acl, target)
        if reason is None:
            patterns.setdefault(Pattern.of(acl), []).append(acl)
        else:
            losses.append(Loss(acl, reason))
    ordered = sorted(patterns, key=pattern_path)
    return Export({each: tuple(patterns[each]) for each in ordered}, tuple(losses))


def find_oversized(pattern: Pattern, acls: Sequence[Acl], target: Target) -> list[Loss]:
    """Return the losses of a pattern whose ACLs do not fit in one request; empty if they do."""
    data, path = write_acls(acls), pattern_path(pattern).encode()
    event = new_change_event(pattern, target.oldest)
    size = len(data) + len(event.data) + PATHS_IN_REQUEST * len(path) + REQUEST_OVERHEAD
    if size <= target.request_bytes_max:
        return []
    reason = (
        f"the {len(acls)} ACLs of {pattern_path(pattern)} need a request of {size} bytes, more "
        f"than jute.maxbuffer, {target.request_bytes_max}"
    )
    return [Loss(each, reason) for each in acls]


def _why_lost(acl: Acl, target: Target) -> str | None:
    return next(_reasons(acl, target), None)


def _reasons(acl: Acl, target: Target) -> Iterator[str]:
    if acl.pattern_type not in tuple(PATTERN_ROOTS):
        kind = PatternType.read(acl.pattern_type).name
        yield f"ZooKeeper has no place for patterns of type {kind} (code {acl.pattern_type})"
    if acl.permission_type not in tuple(PERMISSION_TYPE_NAMES):
        yield f"Kafka's code {acl.permission_type} has no name as a permission type in ZooKeeper"
    for reason in (
        why_unreadable(acl, target.oldest),
        why_not_a_znode(acl.resource_name),
        why_no_principal(acl.principal),
    ):
        if reason is not None:
            yield reason


def find_lost_denials(losses: Iterable[Loss]) -> list[Loss]:
    """Return the losses that would give access: those of all ACLs but ALLOW."""
    return [each for each in losses if each.acl is not None and not is_grant(each.acl)]
