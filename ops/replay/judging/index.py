"""The index of ACLs that a worker process judges by: packed on the driver, built on the worker.

**Invariant:** a process builds the index of equal ACLs and settings once, however many tasks it
runs. The ACLs are sent packed, not as an index: unpacking 505,000 ACLs and building the index takes
no longer than unpickling an index, which would be three times as large.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec

from authorizerd.acl.builder import build
from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.model import Acl, AclAdded
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.replay.acl_set import AclSet

INDEXES_KEPT: Final = 2
"""A comparison has two sets: a candidate and a baseline, or the old ACLs and the suggested ones."""

_ID_BYTES: Final = 16
_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(list[Acl])

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class WorkerCache(Generic[K, V]):
    """Values that a worker process keeps between tasks: the last ``INDEXES_KEPT``, by key.

    A worker process outlives a job, so the number is bounded.
    """

    def __init__(self) -> None:
        self._kept: dict[K, V] = {}

    def __contains__(self, key: K) -> bool:
        return key in self._kept

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: K, build: Callable[[], V]) -> V:
        """Return the value of ``key``; call ``build`` if it is not kept."""
        if key not in self._kept:
            while len(self._kept) >= INDEXES_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = build()
        return self._kept[key]


class AclIndex(NamedTuple):
    """The index of a set of ACLs, and its settings."""

    snapshot: AclSnapshot
    settings: AuthorizerSettings


class IndexKey(NamedTuple):
    """Identifies an index; small, so that a worker can look it up without the ACLs."""

    digest: str
    super_users: tuple[str, ...]
    allow_everyone_if_no_acl_found: bool


def key_of(acl_set: AclSet) -> IndexKey:
    """Return the key of the index of ``acl_set``."""
    return IndexKey(
        acl_set.digest,
        tuple(sorted(set(acl_set.super_users))),
        acl_set.allow_everyone_if_no_acl_found,
    )


def pack(acl_set: AclSet) -> bytes:
    """Return the ACLs as bytes, without their dates and without repeats."""
    return _encoder.encode(list(dict.fromkeys(dated.acl for dated in acl_set.acls)))


_indexes: Final[WorkerCache[IndexKey, AclIndex]] = WorkerCache()


def index_of(key: IndexKey, packed: Callable[[], bytes]) -> AclIndex:
    """Return the index of ``key``; build it from ``packed()`` unless this process keeps it."""
    return _indexes.get(key, lambda: _build(key, packed()))


def build_index(acl_set: AclSet) -> AclIndex:
    """Return a new index of ``acl_set``, which the process does not keep."""
    return _build(key_of(acl_set), pack(acl_set))


def _build(key: IndexKey, packed: bytes) -> AclIndex:
    settings = AuthorizerSettings(
        super_users=frozenset(key.super_users),
        allow_everyone_if_no_acl_found=key.allow_everyone_if_no_acl_found,
    )
    with collector_off():
        acls = enumerate(_decoder.decode(packed))
        snapshot = build(AclAdded(number.to_bytes(_ID_BYTES, "big"), acl) for number, acl in acls)
    return AclIndex(snapshot, settings)


@contextmanager
def collector_off() -> Iterator[None]:
    """Turn the garbage collector off.

    It would repeatedly walk a growing index or table, which contains no garbage.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
