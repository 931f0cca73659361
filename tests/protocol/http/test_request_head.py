"""Request heads, checked while they arrive and parsed once complete."""

import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.protocol.http.request_head import (
    BadRequest,
    HttpLimits,
    RefusedError,
    check_beginning,
    holds_request,
    parse_head,
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


@pytest.mark.parametrize("name", [b"X-A", b"x", b"!#$%&'*+-.^_`|~09aZ"])
@pytest.mark.parametrize("value", [b"", b"b", b"b c", b"\xff\t~"])
@pytest.mark.parametrize("blanks", [b"", b" ", b"\t \t"])
def test_header_is_read_without_blanks_around_it(name: bytes, value: bytes, blanks: bytes) -> None:
    line = name + b":" + blanks + value + blanks
    _, headers, _, _ = parse_head(b"GET / HTTP/1.1\r\nHost: x\r\n%b\r\nB: c\r\n\r\n" % line, 9)
    assert headers == {b"host": b"x", name.lower(): value, b"b": b"c"}


@given(st.binary(max_size=12), st.sampled_from([0, 1, 2]))
def test_a_head_is_valid_exactly_if_llhttp_reads_it_so(part: bytes, place: int) -> None:
    """Except methods that this server has not, and what a strict reader rejects."""
    pieces = [b"Host: x", b"A: b"]
    pieces.insert(place, part)
    head = b"GET / HTTP/1.1\r\n" + b"\r\n".join(pieces) + b"\r\n\r\n"
    head = head[: head.find(b"\r\n\r\n") + 4]
    try:
        headers = parse_head(head, 100)[1]
    except RefusedError:
        return
    seen: dict[bytes, list[bytes]] = {}

    class Reader:
        def on_header(self, name: bytes, value: bytes) -> None:
            seen.setdefault(name.lower(), []).append(value.strip(b" \t"))

    httptools.HttpRequestParser(Reader()).feed_data(head)
    assert headers == {name: b", ".join(values) for name, values in seen.items()}
