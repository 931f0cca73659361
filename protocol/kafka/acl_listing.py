"""Read an answer that lists every ACL of a cluster, in steps, without an entity for each of them.

**Invariant:** a listing is complete or an error. Codes that this version does not know are kept.

Source: KIP-140, KIP-290; Kafka 4.3 DescribeAclsResponse.
"""

from __future__ import annotations

from typing import Final

import msgspec

from authorizerd.acl.listing import Listing
from authorizerd.acl.model import Acl
from authorizerd.acl.steps import Steps
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.api import APIS, ApiKey
from authorizerd.protocol.kafka.body_reader import BodyReader
from authorizerd.protocol.kafka.error_codes import ApiError
from authorizerd.protocol.kafka.offset_tag import read_offset_tag

LISTED_MAX: Final = 8_000_000
"""The maximum number of patterns and bindings in one listing: about 1 GiB of memory."""
THROTTLE_BYTES: Final = 4
"""The throttle time comes first. The bytes after it are equal if the ACLs and their order are."""

_TEXTS_KEPT: Final = 4096


class ListingHead(msgspec.Struct, frozen=True):
    """The start of an answer. ``throttle_ms`` is how long the broker asks to wait."""

    throttle_ms: int
    error: ApiError | None


def read_listing_head(version: int, body: bytes | bytearray) -> ListingHead:
    """Return the start of a DescribeAcls answer.

    Raises:
        DecodeError: the bytes are not such an answer.
    """
    return _read_head(_new_reader(version, body))


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
    reader = _new_reader(version, body)
    head = _read_head(reader)
    assert head.error is None, "an error has no listing"
    listing = Listing()
    texts: dict[str, str] = {}
    try:
        for _ in range(reader.array_length("resources")):
            yield from _read_resource(reader, listing, texts)
            if reader.ends_step():
                yield
        offset = read_offset_tag(reader)
        reader.expect_end("DescribeAcls response")
    except DecodeError:
        yield from listing.free_in_steps()
        raise
    return listing, offset


def _read_resource(reader: BodyReader, listing: Listing, texts: dict[str, str]) -> Steps[None]:
    """Add the ACLs of one resource pattern. ``texts`` has one copy of each recurring text."""
    resource_type = reader.int8("resource type")
    name = reader.string("resource name")
    pattern_type = reader.int8("pattern type")
    for _ in range(reader.array_length("acls")):
        principal, host = reader.string("principal"), reader.string("host")
        operation, permission_type = reader.int8("operation"), reader.int8("permission type")
        reader.end_structure()
        if len(texts) > _TEXTS_KEPT:
            texts.clear()
        principal, host = texts.setdefault(principal, principal), texts.setdefault(host, host)
        listing.add(
            Acl(resource_type, name, pattern_type, principal, host, operation, permission_type)
        )
        if reader.ends_step():
            yield
    reader.end_structure()


def _new_reader(version: int, body: bytes | bytearray) -> BodyReader:
    is_flexible = APIS[ApiKey.DESCRIBE_ACLS].is_flexible(version)
    return BodyReader(body, flexible=is_flexible, items_max=LISTED_MAX)


def _read_head(reader: BodyReader) -> ListingHead:
    throttle_ms = reader.int32("throttle time")
    code = reader.int16("error code")
    text = reader.nullable_string("error message")
    return ListingHead(max(throttle_ms, 0), ApiError(code, text) if code else None)
