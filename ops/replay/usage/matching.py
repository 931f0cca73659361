"""Find the ACLs that a recorded request used: those that match it and decide as was recorded.

**Invariant:** an ALLOW is used by allowed requests, a DENY by denied ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from authorizerd.acl.matching import matching_acls
from authorizerd.acl.model import Acl, PatternType, PermissionType, Question
from authorizerd.acl.patterns import is_wildcard
from authorizerd.replay.acl_set import AclSet, DatedAcl
from authorizerd.replay.judging.index import WorkerCache, build_index

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(AclSet)


class Use(NamedTuple):
    """An ACL's number, and whether it was the only ACL that gave this decision."""

    number: int
    is_alone: bool


class UseIndex:
    """The distinct ACLs of a set, numbered, and an index that finds those matching a request."""

    def __init__(self, acl_set: AclSet) -> None:
        self.acls = tuple(item.acl for item in distinct(acl_set))
        self.index = build_index(acl_set)
        self.super_users = self.index.settings.super_users
        self._numbers = {acl: number for number, acl in enumerate(self.acls)}

    def __contains__(self, acl: Acl) -> bool:
        return acl in self._numbers

    def uses(self, question: Question, *, was_allowed: bool) -> list[Use]:
        """Return every ACL that decides as recorded; the audit log names only one of them.

        The question must not be a super user's (``super_users``).
        """
        numbers = [
            self._numbers[acl]
            for acl in matching_acls(self.index.snapshot, question)
            if (acl.permission_type == PermissionType.ALLOW) == was_allowed
        ]
        return [Use(number, len(numbers) == 1) for number in numbers]


class PackedSet(NamedTuple):
    """A set for the workers. ``key`` depends on the ACLs' order, which gives them their numbers."""

    key: str
    packed: bytes


def pack(acl_set: AclSet) -> PackedSet:
    """Return ``acl_set`` as bytes, with its key."""
    packed = _encoder.encode(acl_set)
    return PackedSet(hashlib.sha256(packed).hexdigest(), packed)


_indexes: Final[WorkerCache[str, UseIndex]] = WorkerCache()


def index_of(key: str, packed: Callable[[], bytes]) -> UseIndex:
    """Return the index of ``key``; build it from ``packed()`` unless this process keeps it."""
    return _indexes.get(key, lambda: UseIndex(_decoder.decode(packed())))


def distinct(acl_set: AclSet) -> tuple[DatedAcl, ...]:
    """Return each ACL once, in the set's order; a listing may contain one twice."""
    first: dict[Acl, DatedAcl] = {}
    for item in acl_set.acls:
        first.setdefault(item.acl, item)
    return tuple(first.values())


def is_wide(acl: Acl) -> bool:
    """Return True if ``acl`` is an ALLOW for more than one name."""
    return acl.permission_type == PermissionType.ALLOW and (
        acl.pattern_type == PatternType.PREFIXED or is_wildcard(acl.pattern_type, acl.resource_name)
    )
