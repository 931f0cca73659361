"""The index that a worker process judges by: packed where a job is started, built where it is used.

**Invariant:** equal ACLs under equal settings are indexed once in a process, however many tasks it
runs. The ACLs travel packed, not as the index: to read 505,000 of them and build it takes no longer
than to read the index itself, and the index would be three times as large on its way.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import msgspec

from authorizerd.acl.builder import build
from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.model import Acl, AclAdded
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.replay.acl_set import AclSet

INDEXES_KEPT: Final = 2
"""A candidate and a baseline."""

_ID_BYTES: Final = 16
_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(list[Acl])


class AclIndex(NamedTuple):
    """Hold the index and the settings of one set of ACLs."""

    snapshot: AclSnapshot
    settings: AuthorizerSettings


class IndexKey(NamedTuple):
    """What tells one index from another; small, so that it can be asked for without the ACLs."""

    digest: str
    super_users: tuple[str, ...]
    allow_everyone_if_no_acl_found: bool


def key_of(acl_set: AclSet) -> IndexKey:
    return IndexKey(
        acl_set.digest,
        tuple(sorted(set(acl_set.super_users))),
        acl_set.allow_everyone_if_no_acl_found,
    )


def pack(acl_set: AclSet) -> bytes:
    """Return the ACLs as bytes, without their dates and without repeats."""
    return _encoder.encode(list(dict.fromkeys(dated.acl for dated in acl_set.acls)))


_kept: Final[dict[IndexKey, AclIndex]] = {}


def index_of(key: IndexKey, packed: Callable[[], bytes]) -> AclIndex:
    """Return the index of ``key``, built of what ``packed`` returns where it is not kept yet."""
    index = _kept.get(key)
    if index is None:
        while len(_kept) >= INDEXES_KEPT:
            del _kept[next(iter(_kept))]
        index = _kept[key] = _built(key, packed())
    return index


def build_index(acl_set: AclSet) -> AclIndex:
    """Return the index of ``acl_set``, kept for nobody."""
    return _built(key_of(acl_set), pack(acl_set))


def _built(key: IndexKey, packed: bytes) -> AclIndex:
    settings = AuthorizerSettings(
        super_users=frozenset(key.super_users),
        allow_everyone_if_no_acl_found=key.allow_everyone_if_no_acl_found,
    )
    with _collector_off():
        acls = enumerate(_decoder.decode(packed))
        snapshot = build(AclAdded(number.to_bytes(_ID_BYTES, "big"), acl) for number, acl in acls)
    return AclIndex(snapshot, settings)


@contextmanager
def _collector_off() -> Iterator[None]:
    """Keep the garbage collector from walking an index that grows and holds no garbage."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
