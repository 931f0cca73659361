"""The JSON documents of ``who-can``, ``what-can`` and ``can``, which docs/questions.md describes.

**Invariant:** programs rely on the names of fields: a change only adds fields. Operations, types
and pattern types have Kafka's names in capitals.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from authorizerd.acl.as_of import format_time
from authorizerd.acl.model import Operation, PatternType
from authorizerd.cli.acl_source import AclSource
from authorizerd.cli.source_settings import Setting
from authorizerd.protocol.decisions.hosts import Hosts


class Source(msgspec.Struct, frozen=True):
    """Where the ACLs are. ``offset`` is null if brokers have listed them.

    ``as_of`` is the time of the offset if ``--as-of`` asked about an earlier moment, else null.
    """

    place: str
    name: str
    offset: int | None
    as_of: str | None
    acls: int
    settings: tuple[Setting, ...]


class Principal(msgspec.Struct, frozen=True):
    """A principal, and the hosts from which it is allowed.

    ``super_user`` is null if the super users are unknown, here and below.
    """

    principal: str
    super_user: bool | None
    hosts: Hosts


class WhoCan(msgspec.Struct, frozen=True):
    """The answer of ``who-can``.

    Attributes:
        host: the host that was asked about; null if every host was.
        principals: those allowed that an ACL or ``super.users`` names.
        everyone_else: what holds for a principal that neither names.
        denied: the named principals that are not allowed, although everyone else is somewhere.
        unknown_settings: the settings that are unknown, and by which more may be allowed.
    """

    operation: str
    resource_type: str
    resource_name: str
    host: str | None
    principals: tuple[Principal, ...]
    everyone_else: Hosts
    denied: tuple[Principal, ...]
    unknown_settings: tuple[str, ...]
    source: Source


class Pattern(msgspec.Struct, frozen=True):
    """A resource pattern."""

    pattern_type: str
    resource_name: str


class Resources(msgspec.Struct, frozen=True, rename={"excepted": "except"}):
    """Resources of one type that a principal may use in the same way.

    Attributes:
        pattern: null for all names that no pattern of anyone's ACLs matches; they are
            allowed by allow.everyone.if.no.acl.found.
        excepted: patterns within this one to which this entry does not apply. Another entry says
            what is allowed there, if anything is.
        known_topics: the names of existing topics to which this entry applies; empty for other
            resource types.
    """

    resource_type: str
    pattern: Pattern | None
    excepted: tuple[Pattern, ...]
    operations: tuple[str, ...]
    hosts: Hosts
    known_topics: tuple[str, ...]


class WhatCan(msgspec.Struct, frozen=True):
    """The answer of ``what-can``. ``named``: an ACL or ``super.users`` names the principal.

    ``unknown_settings`` are those that are unknown, and by which more may be allowed.
    """

    principal: str
    named: bool
    super_user: bool | None
    host: str | None
    resources: tuple[Resources, ...]
    unknown_settings: tuple[str, ...]
    source: Source


class OperationAccess(msgspec.Struct, frozen=True):
    """An operation, whether it is allowed, and from which hosts."""

    operation: str
    allowed: bool
    hosts: Hosts


class Can(msgspec.Struct, frozen=True):
    """The answer of ``can``: every operation that the resource type has.

    ``unknown_settings`` are those that are unknown, and by which more may be allowed.
    """

    principal: str
    named: bool
    super_user: bool | None
    resource_type: str
    resource_name: str
    host: str | None
    operations: tuple[OperationAccess, ...]
    unknown_settings: tuple[str, ...]
    source: Source


def new_source(source: AclSource) -> Source:
    """Return the document of ``source``."""
    return Source(
        place=source.place.value,
        name=source.name,
        offset=source.offset,
        as_of=None if source.moment is None else format_time(source.moment.time_ms),
        acls=len(source.snapshot.acls),
        settings=source.stated,
    )


def name_operations(codes: Iterable[int]) -> tuple[str, ...]:
    """Return Kafka's names of operations, in the order of their codes."""
    return tuple(Operation(code).name for code in sorted(codes))


def new_pattern(pattern_type: int, name: str) -> Pattern:
    """Return the document of a pattern."""
    return Pattern(PatternType(pattern_type).name, name)
