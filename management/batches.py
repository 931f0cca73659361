"""Divide ACLs into requests that Kafka accepts as a whole.

**Invariant:** no batch exceeds the ACLs or bytes of one request, unless it has a single ACL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

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
    batch: list[T] = []
    size = 0
    for item in items:
        item_bytes = record_bytes_max(acl_of(item))
        if batch and (len(batch) == acls_max or size + item_bytes > BYTES_PER_REQUEST_MAX):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += item_bytes
    if batch:
        yield batch
