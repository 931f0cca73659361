"""The znodes for a set of ACLs, the ACLs that ZooKeeper or an old broker cannot hold, and dumps.

A dump is a text with a znode in each line:

    {"path":"/kafka-acl","data":null}
    {"path":"/kafka-acl/Topic/orders","data":"{\"acls\":[…],\"version\":1}"}
    {"path":"/kafka-acl-changes/acl_changes_","data":"TOPIC:orders","sequential":true}

``data`` is the text in the znode. Paths begin at the cluster's chroot. A dump may contain all
znodes of a cluster: those that hold no ACLs are ignored, change events too.

**Invariant:** each ACL is in exactly one znode, or in the losses with its reason. Only ALLOW ACLs
may be lost: ``find_lost_denials`` returns the losses that stop an export. A written dump, created
line by line, is what an export to a ZooKeeper without ACLs creates. Each line of a dump is one
znode, or an error with its number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from authorizerd.acl.model import Acl, PatternType
from authorizerd.acl.snapshot import is_grant
from authorizerd.acl.text.decoding_errors import DECODING_ERRORS, describe_decoding_error
from authorizerd.management.formats.model import AclsRead, AclsWritten, AclTextError, Loss
from authorizerd.management.zookeeper import broker_version, znode
from authorizerd.management.zookeeper.paths import (
    EXTENDED_CHANGES,
    EXTENDED_ROOT,
    LITERAL_CHANGES,
    LITERAL_ROOT,
    PATTERN_ROOTS,
    PERMISSION_TYPE_NAMES,
    PREFIXED_ROOT,
    RESOURCE_TYPE_NAMES,
    Pattern,
    parse_path,
    pattern_path,
    why_not_a_znode,
)

JUTE_MAX_BUFFER: Final = 0xFFFFF
"""ZooKeeper's default limit for a request, in bytes; a server rejects longer ones."""
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

    oldest: broker_version.BrokerVersion = broker_version.NEWEST
    request_bytes_max: int = JUTE_MAX_BUFFER


class Export(msgspec.Struct, frozen=True):
    """The ACLs of each pattern, in the order of patterns' paths, and the losses."""

    patterns: Mapping[Pattern, tuple[Acl, ...]]
    losses: tuple[Loss, ...]


def plan_export(acls: Iterable[Acl], target: Target) -> Export:
    """Divide ACLs into the ACLs of each new pattern's znode, and losses."""
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
    """Like ``plan_export``, but without a limit on the size of a pattern's ACLs."""
    patterns: dict[Pattern, list[Acl]] = {}
    losses: list[Loss] = []
    for acl in dict.fromkeys(acls):
        reason = next(_reasons(acl, target), None)
        if reason is None:
            patterns.setdefault(Pattern.of(acl), []).append(acl)
        else:
            losses.append(Loss(acl, reason))
    ordered = sorted(patterns, key=pattern_path)
    return Export({each: tuple(patterns[each]) for each in ordered}, tuple(losses))


def find_oversized(pattern: Pattern, acls: Sequence[Acl], target: Target) -> list[Loss]:
    """Return the losses of a pattern whose ACLs do not fit in one request; empty if they do."""
    data, path = znode.write_acls(acls), pattern_path(pattern).encode()
    event = znode.new_change_event(pattern, target.oldest)
    size = len(data) + len(event.data) + PATHS_IN_REQUEST * len(path) + REQUEST_OVERHEAD
    if size <= target.request_bytes_max:
        return []
    reason = (
        f"the {len(acls)} ACLs of {pattern_path(pattern)} need a request of {size} bytes, more "
        f"than jute.maxbuffer, {target.request_bytes_max}"
    )
    return [Loss(acl, reason) for acl in acls]


def _reasons(acl: Acl, target: Target) -> Iterator[str]:
    if acl.pattern_type not in tuple(PATTERN_ROOTS):
        kind = PatternType.read(acl.pattern_type).name
        yield f"ZooKeeper has no place for patterns of type {kind} (code {acl.pattern_type})"
    if acl.permission_type not in tuple(PERMISSION_TYPE_NAMES):
        yield f"Kafka's code {acl.permission_type} has no name as a permission type in ZooKeeper"
    for reason in (
        broker_version.why_unreadable(acl, target.oldest),
        why_not_a_znode(acl.resource_name),
        znode.why_no_principal(acl.principal),
    ):
        if reason is not None:
            yield reason


def find_lost_denials(losses: Iterable[Loss]) -> list[Loss]:
    """Return the losses that would extend access: of all ACLs except ALLOW."""
    return [loss for loss in losses if loss.acl is not None and not is_grant(loss.acl)]


class DumpedZnode(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A line of a dump. ``sequential``: ZooKeeper appends a number to the path at the creation."""

    path: str
    data: str | None
    sequential: bool = False


_DECODER: Final = msgspec.json.Decoder(DumpedZnode)
_ENCODER: Final = msgspec.json.Encoder()


def read_dump(text: str) -> AclsRead:
    acls: dict[Acl, None] = {}
    lines: dict[Pattern, int] = {}
    has_root = False
    # splitlines would also cut names at Unicode's line separators.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip(" \t\r"):
            continue
        node = _read_line(number, line)
        has_root = has_root or node.path == LITERAL_ROOT or node.path.startswith(f"{LITERAL_ROOT}/")
        try:
            pattern = parse_path(node.path)
            if pattern is None:
                continue
            if pattern in lines:
                raise AclTextError(node.path, f"this znode is also in line {lines[pattern]}")
            lines[pattern] = number
            acls |= dict.fromkeys(znode.read_acls(pattern, (node.data or "").encode()))
        except AclTextError as error:
            raise AclTextError(f"line {number}", f"{error.place}: {error.reason}") from None
    if not has_root:
        raise AclTextError(
            "document",
            f"no znode {LITERAL_ROOT} found: expected a dump of a cluster's ACLs, with paths "
            "below its chroot",
        )
    return AclsRead(tuple(acls))


def _read_line(number: int, line: str) -> DumpedZnode:
    try:
        return _DECODER.decode(line)
    except DECODING_ERRORS as error:
        fault = describe_decoding_error(error)
        reason = f'expected a znode as JSON, {{"path":"…","data":"…"}}: {fault}'
        raise AclTextError(f"line {number}", reason) from None


def write_dump(acls: Sequence[Acl], target: Target | None = None) -> AclsWritten:
    """Return a dump with the ACLs, Kafka's parents of their znodes, and the change events."""
    target = target or Target()
    export = plan_export(acls, target)
    lines = (_ENCODER.encode(each).decode() + "\n" for each in _list_znodes(export, target))
    return AclsWritten("".join(lines), export.losses)


def _list_znodes(export: Export, target: Target) -> Iterator[DumpedZnode]:
    for path in list_parents(target.oldest):
        yield DumpedZnode(path, None)
    for pattern, acls in export.patterns.items():
        yield DumpedZnode(pattern_path(pattern), znode.write_acls(acls).decode())
        event = znode.new_change_event(pattern, target.oldest)
        yield DumpedZnode(event.path, event.data.decode(), sequential=True)


def list_parents(oldest: broker_version.BrokerVersion) -> list[str]:
    """Return the znodes that brokers create at their start, each after its parent.

    Source: Kafka 3.9 KafkaZkClient.createAclPaths.
    """
    types = [RESOURCE_TYPE_NAMES[each] for each in broker_version.list_types(oldest)]
    paths = [LITERAL_ROOT, *(f"{LITERAL_ROOT}/{each}" for each in types), LITERAL_CHANGES]
    if oldest >= broker_version.PREFIXES_SINCE:
        paths += [EXTENDED_ROOT, PREFIXED_ROOT, *(f"{PREFIXED_ROOT}/{each}" for each in types)]
        paths.append(EXTENDED_CHANGES)
    return paths
