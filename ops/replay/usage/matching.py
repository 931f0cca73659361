"""Which ACLs a recorded request used: those that speak of it and say what was decided.

**Invariant:** an ALLOW is used by what was allowed, a denial by what was denied.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from authorizerd.acl.decision import matching_acls
from authorizerd.acl.model import Acl, PatternType, PermissionType, Question
from authorizerd.acl.patterns import is_wildcard
from authorizerd.replay.acl_set import AclSet, DatedAcl
from authorizerd.replay.judging.index import build_index

INDEXES_KEPT: Final = 2
"""In a worker: those of the ACLs that are, and of those suggested."""

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(AclSet)


class Use(NamedTuple):
    """An ACL's number, and whether no other ACL would have decided the same."""

    number: int
    is_alone: bool


class UseIndex:
    """The ACLs of a set, each once and by number, and what finds those that speak of a request."""

    def __init__(self, acl_set: AclSet) -> None:
        self.acls = tuple(item.acl for item in distinct(acl_set))
        self.index = build_index(acl_set)
        self.super_users = self.index.settings.super_users
        self._numbers = {acl: number for number, acl in enumerate(self.acls)}

    def __contains__(self, acl: Acl) -> bool:
        return acl in self._numbers

    def uses(self, question: Question, *, was_allowed: bool) -> list[Use]:
        """Return the ACLs that decided the question so; all of them, not the one audited.

        The question is no super user's (``super_users``).
        """
        numbers = [
            self._numbers[acl]
            for acl in matching_acls(self.index.snapshot, question)
            if (acl.permission_type == PermissionType.ALLOW) == was_allowed
        ]
        return [Use(number, len(numbers) == 1) for number in numbers]


class PackedSet(NamedTuple):
    """A set on its way to the workers; ``key`` tells it from others, and from another order."""

    key: str
    packed: bytes


def pack(acl_set: AclSet) -> PackedSet:
    packed = _encoder.encode(acl_set)
    return PackedSet(hashlib.sha256(packed).hexdigest(), packed)


_kept: Final[dict[str, UseIndex]] = {}


def index_of(key: str, packed: Callable[[], bytes]) -> UseIndex:
    """Return the index of ``key``: built once in a worker, for all the tasks that it runs."""
    index = _kept.get(key)
    if index is None:
        while len(_kept) >= INDEXES_KEPT:
            del _kept[next(iter(_kept))]
        index = _kept[key] = UseIndex(_decoder.decode(packed()))
    return index


def distinct(acl_set: AclSet) -> tuple[DatedAcl, ...]:
    """Return each ACL once, in the set's order: a listing may name one twice."""
    first: dict[Acl, DatedAcl] = {}
    for item in acl_set.acls:
        first.setdefault(item.acl, item)
    return tuple(first.values())


def is_wide(acl: Acl) -> bool:
    """Say whether ``acl`` is an ALLOW for more names than one."""
    return acl.permission_type == PermissionType.ALLOW and (
        acl.pattern_type == PatternType.PREFIXED or is_wildcard(acl.pattern_type, acl.resource_name)
    )
