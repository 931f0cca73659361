"""Read an answer that lists every ACL of a cluster, in steps.

**Invariant:** a listing is complete or an error. Codes that this version does not know are kept.

Source: KIP-140, KIP-290; Kafka 4.3 DescribeAclsResponse.
"""

from __future__ import annotations

from typing import Final

import msgspec

from authorizerd.acl.listing import ACLS_PER_STEP, Listing
from authorizerd.acl.steps import Steps
from authorizerd.protocol.kafka.acls import DescribeAclsAnswer
from authorizerd.protocol.kafka.api import APIS, ApiKey
from authorizerd.protocol.kafka.body_reader import BodyReader
from authorizerd.protocol.kafka.error_codes import ApiError
from authorizerd.protocol.kafka.messages import decode_response

LISTED_MAX: Final = 8_000_000
"""The maximum number of patterns and bindings in one listing: about 1 GiB of memory."""
THROTTLE_BYTES: Final = 4
"""The throttle time comes first. The bytes after it are equal if the ACLs and their order are."""


class ListingHead(msgspec.Struct, frozen=True):
    """The start of an answer. ``throttle_ms`` is how long the broker asks to wait."""

    throttle_ms: int
    error: ApiError | None


def read_listing_head(version: int, body: bytes | bytearray) -> ListingHead:
    """Return the start of a DescribeAcls answer.

    Raises:
        DecodeError: the bytes are not such an answer.
    """
    is_flexible = APIS[ApiKey.DESCRIBE_ACLS].is_flexible(version)
    reader = BodyReader(body, flexible=is_flexible)
    throttle_ms = reader.int32("throttle time")
    code = reader.int16("error code")
    text = reader.nullable_string("error message")
    return ListingHead(max(throttle_ms, 0), ApiError(code, text) if code else None)


def read_listing(version: int, body: bytes | bytearray) -> Steps[Listing]:
    """Return, in steps, the ACLs of a DescribeAcls answer without an error.

    Raises:
        DecodeError: the bytes are not such an answer, or it is cut, or bytes follow it.
    """
    listing, _ = yield from read_placed_listing(version, body)
    return listing


def read_placed_listing(version: int, body: bytes | bytearray) -> Steps[tuple[Listing, int | None]]:
    """Return, in steps, the ACLs of a DescribeAcls answer, and its log offset or None.

    Raises as ``read_listing``.
    """
    assert version > 0, "version 0 has no pattern types"
    answer: DescribeAclsAnswer = yield from decode_response(
        ApiKey.DESCRIBE_ACLS, version, body, items_max=LISTED_MAX, is_exact=True
    )
    assert answer.error is None, "an error has no listing"
    listing = Listing()
    acls = answer.acls
    while acls:
        for acl in acls[-ACLS_PER_STEP:]:
            listing.add(acl)
        del acls[-ACLS_PER_STEP:]
        yield
    return listing, answer.offset
