"""Answers in parts: a client of the standard library reads what the connection writes."""

import io
from http.client import HTTPResponse, IncompleteRead
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.protocol.http.connection import ServerConnection
from authorizerd.protocol.http.messages import Request, text_response
from authorizerd.protocol.http.request_head import HttpLimits
from authorizerd.protocol.http.streamed import LAST_CHUNK, Send, StreamedResponse, encode_chunk

REQUEST = b"%b / HTTP/%b\r\nHost: h\r\n%b\r\n"


async def _write(send: Send) -> None:
    raise AssertionError("the connection writes nothing by itself")


ANSWER = StreamedResponse(
    write=_write, content_type="text/event-stream", headers=((b"Cache-Control", b"no-store"),)
)


class _Socket:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


def read_answer(data: bytes, method: str = "GET") -> HTTPResponse:
    response = HTTPResponse(cast("object", _Socket(data)), method=method)  # type: ignore[arg-type]
    response.begin()
    return response


def ask(data: bytes) -> ServerConnection:
    connection = ServerConnection(HttpLimits(body_bytes_max=100))
    connection.receive_data(data)
    assert isinstance(connection.next_event(), Request)
    return connection


PARTS = st.lists(st.binary(min_size=1, max_size=40), max_size=6)


@given(PARTS)
def test_parts_of_a_newer_answer_are_read_as_one_body(parts: list[bytes]) -> None:
    """The connection stays open, and answers the next request."""
    connection = ask(2 * REQUEST % (b"GET", b"1.1", b"", b"GET", b"1.1", b""))
    data = connection.start(ANSWER) + b"".join(map(connection.part, parts)) + connection.end()
    response = read_answer(data)
    assert response.read() == b"".join(parts)
    assert response.getheader("Transfer-Encoding") == "chunked"
    assert response.getheader("Content-Length") is None
    assert response.getheader("Content-Type") == "text/event-stream"
    assert response.getheader("Cache-Control") == "no-store"
    assert not response.will_close
    assert isinstance(connection.next_event(), Request)
    assert connection.send(text_response(200, "ok")).endswith(b"ok\n")


@given(PARTS.filter(bool), st.data())
def test_a_newer_answer_that_is_cut_off_is_not_read_as_a_whole(
    parts: list[bytes], data: st.DataObject
) -> None:
    connection = ask(REQUEST % (b"GET", b"1.1", b""))
    head = connection.start(ANSWER)
    body = b"".join(map(connection.part, parts)) + connection.end()
    left = data.draw(st.integers(0, len(body) - len(LAST_CHUNK)))
    with pytest.raises((IncompleteRead, ValueError)):
        read_answer(head + body[:left]).read()


@given(PARTS)
def test_an_older_answer_ends_with_its_connection(parts: list[bytes]) -> None:
    """HTTP/1.0 has no chunks."""
    connection = ask(REQUEST % (b"GET", b"1.0", b"Connection: keep-alive\r\n"))
    data = connection.start(ANSWER) + b"".join(map(connection.part, parts)) + connection.end()
    response = read_answer(data)
    assert response.read() == b"".join(parts)
    assert response.getheader("Transfer-Encoding") is None
    assert response.getheader("Connection") == "close"
    assert connection.closed


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_an_answer_to_head_has_no_body(version: bytes) -> None:
    connection = ask(REQUEST % (b"HEAD", version, b""))
    head = connection.start(ANSWER)
    assert not connection.has_body
    assert connection.end() == b""
    assert read_answer(head, "HEAD").read() == b""
    assert connection.closed == (version == b"1.0")


@pytest.mark.parametrize("closes", [True, False])
def test_the_connection_ends_after_the_body_if_it_is_to(closes: bool) -> None:
    connection = ask(REQUEST % (b"GET", b"1.1", b""))
    head = connection.start(ANSWER, close=closes)
    assert not connection.closed
    connection.end()
    assert connection.closed == closes
    assert (b"Connection: close\r\n" in head) == closes


def test_a_header_cannot_break_its_line() -> None:
    """An answer is still owed, so the server can report the fault."""
    connection = ask(REQUEST % (b"GET", b"1.1", b""))
    with pytest.raises(ValueError, match="invalid header"):
        connection.start(StreamedResponse(write=_write, headers=((b"A", b"b\r\nC: d"),)))
    assert connection.send(text_response(500, "fault")).startswith(b"HTTP/1.1 500")


def test_an_empty_chunk_is_never_sent() -> None:
    """It would end the body."""
    with pytest.raises(AssertionError):
        encode_chunk(b"")


def test_answer_repeats_the_requests_id() -> None:
    connection = ask(REQUEST % (b"GET", b"1.1", b"X-Request-ID: seven\r\n"))
    assert read_answer(connection.start(ANSWER)).getheader("X-Request-ID") == "seven"
