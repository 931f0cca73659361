"""Request heads, checked while they arrive and parsed once complete."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.protocol.http.request_head import (
    REMEMBERED_HEADS_MAX,
    BadRequest,
    HttpLimits,
    RefusedError,
    check_beginning,
    holds_request,
    parse_head,
    remembered_head,
)

LIMITS = HttpLimits(body_bytes_max=8, request_line_bytes_max=20, header_bytes_max=20)


def finding(head: bytes) -> BadRequest | None:
    try:
        check_beginning(head, LIMITS)
    except RefusedError as refused:
        return refused.event
    return None


@given(
    st.lists(
        st.sampled_from([b"GET", b" ", b"/a", b" HTTP/1.1", b"\r", b"\n", b"A: b\r\n"]), min_size=1
    ),
    st.integers(1, 60),
)
def test_rejected_beginning_stays_rejected(pieces: list[bytes], size: int) -> None:
    """The error stays the same when more bytes have arrived."""
    head = b"".join(pieces)
    early = finding(head[:size])
    assert early is None or finding(head) == early


HOST = b"POST / HTTP/1.1\r\nHost: x\r\n"


@pytest.mark.parametrize(
    "whole",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        HOST + b"Content-Length: 0\r\n\r\n",
        HOST + b"content-length:\t12 \r\nA: b\r\n\r\n" + bytes(12),
    ],
)
def test_only_a_whole_request_is_held(whole: bytes) -> None:
    assert holds_request(whole)
    assert holds_request(whole + b"GET")
    assert not any(holds_request(whole[:size]) for size in range(len(whole)))


@pytest.mark.parametrize("body", [b"", b"1\r\na\r\n", b"1\r\na\r\n0\r\n\r\n"])
def test_no_body_in_chunks_counts_as_whole(body: bytes) -> None:
    assert not holds_request(HOST + b"Transfer-Encoding: chunked\r\n\r\n" + body)


def test_cached_head_equals_the_parsed_one() -> None:
    """The cache is limited."""
    head = b"GET /a?b HTTP/1.1\r\nHost: x\r\nA: b\r\n\r\n"
    assert remembered_head(head) == parse_head(head)
    assert remembered_head(head) is remembered_head(head)
    assert remembered_head.cache_info().maxsize == REMEMBERED_HEADS_MAX
    assert parse_head(head).headers == {b"host": b"x", b"a": b"b"}


def test_rejected_head_is_not_cached() -> None:
    for _ in range(2):
        with pytest.raises(RefusedError) as refused:
            remembered_head(b"GET / HTTP/3.0\r\n\r\n")
        assert refused.value.event == BadRequest(505, "HTTP version not supported")
