"""Tell states of the ACLs apart, regardless of their log offsets.

A cluster's log grows twice per second, even if nobody changes an ACL. So an offset does not show
whether the ACLs are the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

ID_BYTES: Final = 16


def combine_ids(ids: Iterable[bytes]) -> bytes:
    """Return a value that identifies a set of ids, in any order.

    Each ACL and each topic has an id that is never used again, and its content never changes. So
    two sets are equal if their values are: random ids give the same value once in 2^128 times.

    Args:
        ids: of 16 bytes each, all different.
    """
    combined = count = 0
    for count, each in enumerate(ids, 1):  # noqa: B007 - the number of ids
        combined ^= int.from_bytes(each)
    return encode_version(combined, count)


def encode_version(combined: int, count: int) -> bytes:
    """Return the value of ``combine_ids`` for ``count`` ids whose combination by XOR is known."""
    return combined.to_bytes(ID_BYTES) + count.to_bytes(8)
