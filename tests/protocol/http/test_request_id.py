"""``X-Request-ID``: each answer repeats the id of its request, and no other."""

from itertools import zip_longest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.protocol.http.connection import Interim, ServerConnection
from authorizerd.protocol.http.messages import Response
from authorizerd.protocol.http.request_head import HttpLimits, find_echo

LIMITS = HttpLimits(body_bytes_max=10, request_line_bytes_max=100, header_bytes_max=200)
OK = Response(status=200, body=b"ok")
ID, ECHO = b"X-Request-ID: r-17\r\n", b"\r\nX-Request-ID: r-17\r\n"


def answer_to(data: bytes) -> bytes:
    connection = ServerConnection(LIMITS)
    connection.receive_data(data)
    while isinstance(event := connection.next_event(), Interim):
        pass
    assert event is not None
    return connection.send(OK)


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n%b\r\n",
        b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n%b\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%b\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1\r\n%b\r\na",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n%b\r\n0\r\n\r\n",
    ],
)
def test_answer_has_the_id_of_its_request(data: bytes) -> None:
    assert ECHO in answer_to(data % ID)
    assert b"Request-ID" not in answer_to(data % b"")


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n%b\r\n",
        b"GET  / HTTP/1.1\r\nHost: x\r\n%b\r\n",
        b"GET / HTTP/2.0\r\nHost: x\r\n%b\r\n",
        b"FETCH / HTTP/1.1\r\nHost: x\r\n%b\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n%bno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n%b\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n%b" + b"a: b\r\n" * 101 + b"\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n%bA: " + b"a" * 200 + b"\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n%b\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n%b\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nExpect: tea\r\nContent-Length: 1\r\n%b\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n%b\r\nx\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n%b\r\nb\r\n",
    ],
)
def test_refusal_has_the_id_if_the_head_is_complete(data: bytes) -> None:
    """The client can then tell which of its requests is wrong."""
    answer = answer_to(data % ID)
    assert ECHO in answer
    assert b"\r\nConnection: close\r\n" in answer
    assert b"Request-ID" not in answer_to(data % b"")


@given(st.lists(st.sampled_from([b"", b"a", b"b c", b"\xff"]), max_size=6), st.booleans())
def test_id_of_a_request_is_only_in_its_own_answer(ids: list[bytes], arrives_at_once: bool) -> None:
    """This holds for requests that arrive together, and for the refusal of a later one."""
    connection = ServerConnection(LIMITS)
    requests = [
        b"GET / HTTP/1.1\r\nHost: x\r\n%b\r\n" % (b"x-request-ID:%b\r\n" % each if each else b"")
        for each in ids
    ]
    endless = b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 210
    pieces = [b"".join(requests) + endless] if arrives_at_once else [*requests, endless]
    for piece, each in zip_longest(pieces, [*ids, b""]):
        connection.receive_data(piece or b"")
        assert connection.next_event() is not None
        answer = connection.send(OK)
        assert answer.count(b"\r\nX-Request-ID: ") == bool(each)
        assert not each or b"\r\nX-Request-ID: %b\r\n" % each in answer
    assert connection.closed


@pytest.mark.parametrize(
    ("head", "echo"),
    [
        (b"G / H\r\nX-Request-ID: a\r\n\r\n", b"X-Request-ID: a\r\n"),
        (b"G / H\r\nx-request-id:\ta b \t\r\nA: b\r\n\r\n", b"X-Request-ID: a b\r\n"),
        (b"G / H\r\nX-REQUEST-ID: a\r\nX-Request-ID: b\r\n\r\n", b"X-Request-ID: a, b\r\n"),
        (b"G / H\r\nX-Request-ID:\r\n\r\n", b"X-Request-ID: \r\n"),
        (b"G / H\r\nX-Request-ID: a\rSet-Cookie: b\r\n\r\n", b""),
        (b"G / H\r\nX-Request-ID: a\nSet-Cookie: b\r\n\r\n", b""),
        (b"G / H\r\nX-Request-ID: a\x00\r\n\r\n", b""),
        (b"G / H\r\nA: X-Request-ID: a\r\n\r\n", b""),
        (b"G / H\r\nX-Request-ID : a\r\n\r\n", b""),
    ],
)
def test_id_cannot_add_a_header(head: bytes, echo: bytes) -> None:
    """Only printable texts and tabs are repeated."""
    assert find_echo(head) == echo


def test_id_of_an_incomplete_request_is_known_from_its_head() -> None:
    """The server repeats it if the request takes too long, or too much memory."""
    connection = ServerConnection(LIMITS)
    assert connection.echo == b""
    connection.receive_data(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n" + ID)
    assert connection.next_event() is None
    assert connection.echo == b""
    connection.receive_data(b"\r\n")
    assert connection.echo == ID
    assert connection.next_event() is None
    assert connection.echo == ID
    connection.receive_data(b"abGET / HTTP/1.1\r\n")
    assert connection.next_event() is not None
    assert ECHO in connection.send(OK)
    assert connection.echo == b""
    connection.close()
    assert connection.echo == b""
