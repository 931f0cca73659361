"""Listings of every ACL: the bytes of brokers and ours, cut, odd and large."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.listing import derive_id
from authorizerd.acl.model import Acl
from authorizerd.acl.steps import finish
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.acl_client import (
    decode_describe_acls_response,
    read_listing,
    read_listing_head,
)
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from tests.support.acl_messages import DescribeAclsBody, encode_describe_acls_error
from tests.support.acls import acl
from tests.support.strategies import acls, any_text, int8s

VERSIONS = (1, 2, 3)
any_acls = acls(unknown_codes=True) | st.builds(
    Acl, int8s, any_text, int8s, any_text, any_text, int8s, int8s
)


def encode(version: int, bindings: list[Acl]) -> bytes:
    body = DescribeAclsBody(version)
    body.add(bindings)
    return b"".join(finish(body.encode()))


@pytest.mark.parametrize("version", VERSIONS)
@given(st.lists(any_acls, max_size=6, unique=True))
def test_listing_has_every_acl(version: int, bindings: list[Acl]) -> None:
    """Unknown codes are kept raw. The general decoder reads the same."""
    body = encode(version, bindings)
    listing = finish(read_listing(version, bytearray(body)))
    assert dict(listing.items()) == {derive_id(each): each for each in bindings}
    decoded = decode_describe_acls_response(version, body)
    assert isinstance(decoded, list)
    assert set(decoded) == set(bindings)
    assert read_listing_head(version, body).error is None


@pytest.mark.parametrize("version", VERSIONS)
def test_cut_or_prolonged_listing_is_rejected(version: int) -> None:
    body = encode(version, [acl(topic="t"), acl(group="g", deny=True), acl(cluster=True)])
    for end in range(len(body)):
        with pytest.raises(DecodeError):
            finish(read_listing(version, body[:end]))
    with pytest.raises(DecodeError, match="1 bytes too many"):
        finish(read_listing(version, body + b"\0"))


@given(st.binary(max_size=40))
def test_any_bytes_are_a_listing_or_an_error(data: bytes) -> None:
    for version in VERSIONS:
        try:
            if read_listing_head(version, data).error is None:
                finish(read_listing(version, data))
        except DecodeError:
            pass


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("throttle_ms", [0, 1234, -1])
def test_error_and_throttle_time_are_read_first(version: int, throttle_ms: int) -> None:
    error = ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no")
    body = encode_describe_acls_error(version, error)
    throttled = throttle_ms.to_bytes(4, "big", signed=True) + body[4:]
    head = read_listing_head(version, throttled)
    assert (head.error, head.throttle_ms) == (error, max(throttle_ms, 0))


def test_large_listing_is_read_in_steps() -> None:
    """Many patterns, and many ACLs of one pattern."""
    for bindings in (
        [acl(topic=f"t{number}") for number in range(2_000)],
        [acl(f"User:{number}") for number in range(2_000)],
    ):
        assert len(list(read_listing(3, encode(3, bindings)))) > 30
