"""The events of a watch of ACLs: a listing first, and then each change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias


class Acl(NamedTuple):
    """An ACL with Kafka's names. A name that the daemon does not know is UNKNOWN."""

    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission_type: str


class AclChange(NamedTuple):
    """An ACL that was added or removed, and its Kafka id."""

    is_added: bool
    id: str
    acl: Acl


@dataclass(frozen=True, slots=True)
class Listing:
    """All ACLs at a log offset, by their ids. They replace everything that was known before."""

    offset: int
    acls: Mapping[str, Acl]


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of one batch, in order. They became visible together, at this log offset."""

    offset: int
    changes: tuple[AclChange, ...]


@dataclass(frozen=True, slots=True)
class Suspended:
    """The daemon has stopped deciding, so the ACLs may be out of date until ``Resumed``."""

    reason: str


@dataclass(frozen=True, slots=True)
class Resumed:
    """The daemon decides again. The changes made meanwhile follow."""


AclEvent: TypeAlias = Listing | Changes | Suspended | Resumed
