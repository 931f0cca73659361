"""All ACLs of a cluster that lists bindings without ids, by ids that are derived from the bindings.

**Invariant:** the same binding always has the same id, in every process and version. So two
listings are compared by ids, and a binding keeps its id in a log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from itertools import chain
from typing import Final

import msgspec
from msgspec.structs import astuple

from authorizerd.acl.difference import AclsById
from authorizerd.acl.index.filter_index import FilterIndex
from authorizerd.acl.model import Acl, AclFilter, PatternType
from authorizerd.acl.steps import Steps, free, in_chunks

ID_BYTES: Final = 16

_SHARDS: Final = 1024
_encode: Final = msgspec.msgpack.Encoder().encode


def derive_id(acl: Acl) -> bytes:
    """Return the id of a binding: 16 bytes of a hash of all its fields."""
    return blake2b(_encode(astuple(acl)), digest_size=ID_BYTES).digest()


class Listing:
    """All ACLs by their ids. With derived ids, a repeated binding counts once.

    They are in many small dictionaries: growing or freeing a large one would block the event loop.
    """

    __slots__ = ("_shards",)

    def __init__(self) -> None:
        self._shards: list[dict[bytes, Acl]] = [{} for _ in range(_SHARDS)]

    def __len__(self) -> int:
        return sum(map(len, self._shards))

    def add(self, acl: Acl) -> None:
        """Add one binding by its derived id."""
        self.put(derive_id(acl), acl)

    def put(self, acl_id: bytes, acl: Acl) -> None:
        """Add one binding by an id of a log."""
        self._shards[(acl_id[-2] & 3) << 8 | acl_id[-1]][acl_id] = acl

    def get(self, acl_id: bytes, /) -> Acl | None:
        """Return the binding with this id, or None."""
        return self._shards[(acl_id[-2] & 3) << 8 | acl_id[-1]].get(acl_id)

    def items(self) -> Iterator[tuple[bytes, Acl]]:
        """Yield each id and its binding."""
        return chain.from_iterable(shard.items() for shard in self._shards)

    def free_in_steps(self) -> Steps[None]:
        """Forget all ACLs, in steps. The listing cannot be used afterwards."""
        return free(self._shards)


class Expectation(msgspec.Struct, frozen=True):
    """The facts that prove that a listing includes certain changes.

    Attributes:
        created: the ids of bindings that it contains.
        deleted: the ids of bindings that it does not contain.
        filters: filters that match none of its bindings.
    """

    created: frozenset[bytes] = frozenset()
    deleted: frozenset[bytes] = frozenset()
    filters: tuple[AclFilter, ...] = ()


def expect(created: list[Acl], deleted: list[AclFilter]) -> Steps[Expectation]:
    """Return, in steps, the facts that prove that ACLs are created, and that filters match none."""
    present: set[bytes] = set()
    absent: set[bytes] = set()
    filters: list[AclFilter] = []
    for acl in created:
        present.add(derive_id(acl))
        yield
    for each in deleted:
        binding = binding_of(each)
        if binding is None:
            filters.append(each)
        else:
            absent.add(derive_id(binding))
        yield
    return Expectation(frozenset(present), frozenset(absent), tuple(filters))


def binding_of(filter: AclFilter) -> Acl | None:
    """Return the only binding that a filter can match, or None if it can match several."""
    is_single = filter.pattern_type in (PatternType.LITERAL, PatternType.PREFIXED) and not (
        filter.resource_name is None or filter.principal is None or filter.host is None
    )
    codes = (filter.resource_type, filter.operation, filter.permission_type)
    # UNKNOWN (0) matches every code that this version does not know, ANY (1) matches all.
    if not is_single or min(codes) <= 1:
        return None
    return Acl(*astuple(filter))


def find_shown(acls: AclsById, expectations: Mapping[int, Expectation]) -> Steps[frozenset[int]]:
    """Return, in steps, the keys of the expectations that a listing meets."""
    shown: set[int] = set()
    filtered: dict[int, list[int]] = {}
    index = FilterIndex()
    for key, each in expectations.items():
        yield
        if any(acls.get(acl_id) is None for acl_id in each.created):
            continue
        if any(acls.get(acl_id) is not None for acl_id in each.deleted):
            continue
        shown.add(key)
        for wanted in each.filters:
            filtered.setdefault(index.add(wanted), []).append(key)
    if filtered:
        yield from _discard_matched(acls, index, filtered, shown)
    return frozenset(shown)


def _discard_matched(
    acls: AclsById,
    index: FilterIndex,
    filtered: Mapping[int, list[int]],
    shown: set[int],
) -> Steps[None]:
    """Discard the keys whose filters match an ACL."""
    for chunk in in_chunks(acls.items()):
        for _, acl in chunk:
            for number in index.look_up(acl):
                shown.difference_update(filtered[number])
        yield
