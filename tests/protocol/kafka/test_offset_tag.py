"""Our tagged field in the ACL requests and responses."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.expected_offset import ANY_OFFSET, OFFSET_MAX
from authorizerd.acl.model import AclFilter
from authorizerd.acl.steps import finish
from authorizerd.protocol import primitives as wire
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.acl_client import (
    decode_create_acls_response,
    decode_delete_acls_response,
    decode_describe_acls_response,
    encode_describe_acls_request,
    read_placed_listing,
)
from authorizerd.protocol.kafka.acl_types import OFFSET_TAG
from authorizerd.protocol.kafka.acls import FilterResult
from tests.support.acl_messages import (
    decode_create_acls,
    decode_delete_acls,
    decode_describe_acls,
    encode_all_created,
    encode_create_acls,
    encode_creations,
    encode_delete_acls,
    encode_deletions,
    encode_listing,
    joined,
)
from tests.support.acls import acl

FLEXIBLE = [2, 3]
OTHER_TAG = wire.unsigned_varint(0) + wire.unsigned_varint(3) + b"abc"
ACL = acl("User:a", topic="t")


def tags(*values: bytes) -> bytes:
    """Return tagged fields with our tag, one for each value."""
    fields = (
        wire.unsigned_varint(OFFSET_TAG) + wire.unsigned_varint(len(value)) + value
        for value in values
    )
    return wire.unsigned_varint(len(values)) + b"".join(fields)


def creation(version: int, end: bytes) -> bytes:
    """Return a request that ends with ``end`` instead of no tagged fields."""
    return bytes(finish(encode_creations(version, [ACL])))[:-1] + end


def test_tag_is_far_from_those_of_kafka_and_its_vendors() -> None:
    """A Java client reads a tag into an int."""
    assert OFFSET_TAG == 0x41434C
    assert 1_000_000 < OFFSET_TAG < 2**31


def test_bytes_of_the_field_are_as_documented() -> None:
    written = finish(encode_creations(3, [], 258))
    assert written.hex(" ") == "01 01 cc 86 85 02 08 00 00 00 00 00 00 01 02"
    assert finish(encode_creations(3, [])).hex(" ") == "01 00"
    assert finish(encode_creations(1, [], 258)) == bytes(4)


@pytest.mark.parametrize("version", FLEXIBLE)
@given(offset=st.integers(ANY_OFFSET, OFFSET_MAX))
def test_requests_carry_an_offset(version: int, offset: int) -> None:
    created = finish(encode_creations(version, [ACL], offset))
    deleted = finish(encode_deletions(version, [AclFilter()], offset))
    assert finish(decode_create_acls(version, created)) == ([ACL], offset)
    assert finish(decode_delete_acls(version, deleted)) == ([AclFilter()], offset)


@pytest.mark.parametrize("version", FLEXIBLE)
def test_listing_is_asked_for_its_offset(version: int) -> None:
    asked = encode_describe_acls_request(version, AclFilter(), asks_offset=True)
    assert decode_describe_acls(version, asked) == (AclFilter(), ANY_OFFSET)


def test_version_without_tagged_fields_asks_for_no_offset() -> None:
    asked = encode_describe_acls_request(1, AclFilter(), asks_offset=True)
    assert decode_describe_acls(1, asked) == (AclFilter(), None)
    assert finish(decode_create_acls(1, finish(encode_creations(1, [ACL])))) == ([ACL], None)


def test_listing_with_an_expected_offset_is_rejected() -> None:
    """It would look as if the listing were compared with something."""
    body = encode_describe_acls_request(3, AclFilter())[:-1] + tags(struct.pack(">q", 7))
    with pytest.raises(DecodeError, match="expected -1 in a DescribeAcls request, found 7"):
        decode_describe_acls(3, body)


@pytest.mark.parametrize("version", FLEXIBLE)
def test_other_tagged_fields_are_skipped(version: int) -> None:
    ours = tags(struct.pack(">q", 9))[1:]
    end = wire.unsigned_varint(2) + OTHER_TAG + ours
    assert finish(decode_create_acls(version, creation(version, end))) == ([ACL], 9)
    assert finish(decode_create_acls(version, creation(version, b"\1" + OTHER_TAG)))[1] is None


@pytest.mark.parametrize(
    ("end", "text"),
    [
        (tags(b""), "expected an int64 of 8 bytes, found 0 bytes"),
        (tags(bytes(7)), "expected an int64 of 8 bytes, found 7 bytes"),
        (tags(bytes(9)), "expected an int64 of 8 bytes, found 9 bytes"),
        (tags(struct.pack(">q", -2)), "expected an offset, or -1 for any, found -2"),
        (tags(bytes(8), bytes(8)), "expected at most one, found another"),
        (tags(bytes(8))[:-1], "8 bytes announced, 7 left"),
    ],
)
def test_malformed_field_is_an_error_of_the_request(end: bytes, text: str) -> None:
    """If it were ignored, a change would be made without its condition."""
    deletion = bytes(finish(encode_deletions(3, [AclFilter()])))[:-1] + end
    listing = encode_describe_acls_request(3, AclFilter())[:-1] + end
    with pytest.raises(DecodeError, match=text):
        finish(decode_create_acls(3, creation(3, end)))
    with pytest.raises(DecodeError, match=text):
        finish(decode_delete_acls(3, deletion))
    with pytest.raises(DecodeError):
        decode_describe_acls(3, listing)


@pytest.mark.parametrize("version", FLEXIBLE)
def test_clients_of_kafka_read_answers_with_an_offset(version: int) -> None:
    """kio skips tagged fields that it does not know, as Kafka's client does."""
    listed = joined(encode_listing(version, [ACL], offset=11))
    assert decode_describe_acls_response(version, listed) == [ACL]
    created = joined(encode_create_acls(version, [None], 11))
    assert created == b"".join(encode_all_created(version, 1, 11))
    assert decode_create_acls_response(version, created) == [None]
    deleted = joined(encode_delete_acls(version, [FilterResult()], 11))
    assert decode_delete_acls_response(version, deleted) == [FilterResult(matches=[])]


@pytest.mark.parametrize("version", FLEXIBLE)
@pytest.mark.parametrize("offset", [None, 0, OFFSET_MAX])
def test_listing_tells_its_offset(version: int, offset: int | None) -> None:
    body = joined(encode_listing(version, [ACL], offset=offset))
    listing, found = read_placed_listing(version, body)
    assert ([acl for _, acl in listing.items()], found) == ([ACL], offset)
