"""Dumps: ACLs of ZooKeeper in a text, a znode in each line.

    {"path":"/kafka-acl","data":null}
    {"path":"/kafka-acl/Topic/orders","data":"{\"acls\":[…],\"version\":1}"}
    {"path":"/kafka-acl-changes/acl_changes_","data":"TOPIC:orders","sequential":true}

``data`` is the text in the znode. Paths begin at the cluster's chroot. A dump may contain all
znodes of a cluster: those that hold no ACLs are ignored, change events too.

**Invariant:** a written dump, created line by line, is what an export to a ZooKeeper without ACLs
creates. Each line is one znode, or an error with its number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from authorizerd.acl.decoding_errors import DECODING_ERRORS, describe_decoding_error
from authorizerd.acl.formats.model import AclsRead, AclsWritten, AclTextError
from authorizerd.acl.model import Acl
from authorizerd.acl.zookeeper.broker_version import PREFIXES_SINCE, BrokerVersion, list_types
from authorizerd.acl.zookeeper.change_events import new_change_event
from authorizerd.acl.zookeeper.export import Export, Target, plan_export
from authorizerd.acl.zookeeper.names import RESOURCE_TYPE_NAMES
from authorizerd.acl.zookeeper.paths import (
    EXTENDED_CHANGES,
    EXTENDED_ROOT,
    LITERAL_CHANGES,
    LITERAL_ROOT,
    PREFIXED_ROOT,
    Pattern,
    parse_path,
    pattern_path,
)
from authorizerd.acl.zookeeper.znode import read_acls, write_acls


class DumpedZnode(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A line of a dump. ``sequential``: ZooKeeper appends a number to the path at the creation."""

    path: str
    data: str | None
    sequential: bool = False


_DECODER: Final = msgspec.json.Decoder(DumpedZnode)
_ENCODER: Final = msgspec.json.Encoder()


def read_dump(text: str) -> AclsRead:
    """Return the ACLs of a dump.

    Raises:
        AclTextError: a line is malformed, a znode occurs twice, or there is no ``/kafka-acl``.
    """
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
            acls |= dict.fromkeys(read_acls(pattern, (node.data or "").encode()))
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
        yield DumpedZnode(pattern_path(pattern), write_acls(acls).decode())
        event = new_change_event(pattern, target.oldest)
        yield DumpedZnode(event.path, event.data.decode(), sequential=True)


def list_parents(oldest: BrokerVersion) -> list[str]:
    """Return the znodes that brokers create at their start, each after its parent.

    Source: Kafka 3.9 KafkaZkClient.createAclPaths.
    """
    types = [RESOURCE_TYPE_NAMES[each] for each in list_types(oldest)]
    paths = [LITERAL_ROOT, *(f"{LITERAL_ROOT}/{each}" for each in types), LITERAL_CHANGES]
    if oldest >= PREFIXES_SINCE:
        paths += [EXTENDED_ROOT, PREFIXED_ROOT, *(f"{PREFIXED_ROOT}/{each}" for each in types)]
        paths.append(EXTENDED_CHANGES)
    return paths
