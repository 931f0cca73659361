"""Divide ACLs into requests that Kafka accepts as a whole.

**Invariant:** no batch exceeds the ACLs or bytes of one request, unless it has a single item.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from authorizerd.acl.grants.reading import join_notes
from authorizerd.acl.model import Acl
from authorizerd.acl.updates import (
    BYTES_PER_REQUEST_MAX,
    RECORDS_PER_REQUEST_MAX,
    record_bytes_max,
)

T = TypeVar("T")


def split_batches(
    items: Iterable[T], acl_of: Callable[[T], Acl], *, acls_max: int = RECORDS_PER_REQUEST_MAX
) -> Iterator[list[T]]:
    """Yield the items in order, in batches of at most one request's size.

    Args:
        acl_of: returns the ACL of an item.
        acls_max: the maximum number of items per batch.
    """
    units = ((item,) for item in items)
    return _split(units, acl_of, acls_max)


def split_joined(
    acls: Iterable[Acl], *, acls_max: int = RECORDS_PER_REQUEST_MAX
) -> Iterator[list[Acl]]:
    """Yield ACLs like ``split_batches``, each in one batch with the notes of its grants."""
    return _split(join_notes(acls), lambda acl: acl, acls_max)


def _split(
    units: Iterable[tuple[T, ...]], acl_of: Callable[[T], Acl], acls_max: int
) -> Iterator[list[T]]:
    batch: list[T] = []
    size = 0
    for unit in units:
        unit_bytes = sum(record_bytes_max(acl_of(item)) for item in unit)
        is_full = len(batch) + len(unit) > acls_max or size + unit_bytes > BYTES_PER_REQUEST_MAX
        if batch and is_full:
            yield batch
            batch, size = [], 0
        batch += unit
        size += unit_bytes
    if batch:
        yield batch
