from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.protocol.decisions.stream import (
    Ask,
    Hello,
    StreamServerConnection,
    encode_answer,
    encode_hello,
)
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.framing import frame
from authorizerd.protocol.kafka.error_codes import ErrorCode
from authorizerd.replay.load.errors import LoadError
from authorizerd.replay.load.lanes.surfaces import (
    Answer,
    HttpSurface,
    StreamSurface,
    Surface,
    check_welcome,
)

WELCOME = encode_hello(ErrorCode.NONE, 7) + encode_answer(0, 0, 7, b"\0")


def http(status: int, body: bytes, *, length: str = "Content-Length") -> bytes:
    head = b"HTTP/1.1 %d Whatever\r\n%b: %d\r\n\r\n" % (status, length.encode(), len(body))
    return head + body


DENIED = b'{"evaluations":[{"decision":false,"context":{"offset":7,"reason":"","rule":""}}]}'
FORBIDDEN = b'{"evaluations":[{"decision":false,"context":{"error":{"status":403,"message":""}}}]}'


def greet(surface: Surface) -> bool:
    """Return True once the target has accepted the greeting."""
    answer = surface.next_answer()
    if answer is not None:
        check_welcome(answer)
    return answer is not None


def test_stream_greets_with_token_and_question() -> None:
    connection = StreamServerConnection(1 << 20)
    connection.receive_data(StreamSurface("id.secret").greeting())
    assert connection.next_frame() == Hello("hello", 1, "id.secret")
    asked = connection.next_frame()
    assert isinstance(asked, Ask)
    assert len(asked.questions) == 1


def test_every_http_request_has_the_token() -> None:
    head = HttpSurface("localhost:8181", "id.secret").request(b"{}")
    assert head == (
        b"POST /access/v1/evaluations HTTP/1.1\r\nHost: localhost:8181\r\n"
        b"Authorization: Bearer id.secret\r\nContent-Type: application/json\r\n"
        b"Content-Length: 2\r\n\r\n{}"
    )
    assert b"Authorization" not in HttpSurface("localhost:8181", None).greeting()


@pytest.mark.parametrize(
    ("surface", "said", "complaint"),
    [
        (StreamSurface(None), encode_hello(ErrorCode.SASL_AUTHENTICATION_FAILED, -1),
         "it rejects the token (58 SASL_AUTHENTICATION_FAILED)"),
        (StreamSurface(None), encode_hello(ErrorCode.UNSUPPORTED_VERSION, -1),
         "it rejects the hello (35 UNSUPPORTED_VERSION)"),
        (StreamSurface(None),
         encode_hello(ErrorCode.NONE, 7)
         + encode_answer(0, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, 7, b""),
         "authorizerd.callers.ask"),
        (StreamSurface(None), encode_hello(ErrorCode.NONE, 7) + encode_answer(0, 0, 7, b""),
         "it answered a question without a decision"),
        (HttpSurface("h:1", None), http(401, b"expected a token"), "rejects the token (HTTP 401)"),
        (HttpSurface("h:1", None), http(200, FORBIDDEN), "authorizerd.callers.ask"),
        (HttpSurface("h:1", None), http(404, b""), "no AuthZEN endpoint"),
        (HttpSurface("h:1", None), http(500, b""), "it answered with HTTP 500"),
        (HttpSurface("h:1", None), http(200, b"hello"), "not a list of decisions"),
        (HttpSurface("h:1", None), b"SSH-2.0-x\r\n\r\n", "not HTTP"),
    ],
)  # fmt: skip
def test_rejected_greeting_names_the_reason(surface: Surface, said: bytes, complaint: str) -> None:
    surface.receive_data(said)
    with pytest.raises(LoadError) as raised:
        greet(surface)
    assert complaint in str(raised.value)


@pytest.mark.parametrize("said", [b"HTTP/1.1 400 Bad\r\n\r\n", frame(b"\xc1"), frame(b"\x90")])
def test_answer_in_another_protocol_is_an_error(said: bytes) -> None:
    surface = StreamSurface(None)
    surface.receive_data(said)
    with pytest.raises(DecodeError):
        greet(surface)


@pytest.mark.parametrize(
    ("surface", "said"),
    [
        (StreamSurface(None), WELCOME),
        (HttpSurface("h:1", None), http(200, DENIED)),
        (StreamSurface(None), encode_hello(ErrorCode.NONE, -1)
         + encode_answer(0, ErrorCode.AUTHORIZER_NOT_READY, -1, b"")),
        (HttpSurface("h:1", None), http(503, b"AUTHORIZER_NOT_READY")),
    ],
)  # fmt: skip
def test_greeting_is_read_from_any_pieces(surface: Surface, said: bytes) -> None:
    for position in range(len(said)):
        assert not greet(surface)
        surface.receive_data(said[position : position + 1])
    assert greet(surface)


@given(st.lists(st.integers(1, 40), max_size=20))
def test_http_answers_are_read_from_any_pieces(cuts: list[int]) -> None:
    mixed = (
        b'{"evaluations":[{"decision":true,"context":{"offset":9}},'
        b'{"decision":false,"context":{"error":{"status":400}}},{"decision":false}]}'
    )
    data = http(200, mixed) + http(503, b"x", length="content-length") + http(200, DENIED)
    surface, found, position = HttpSurface("h:1", None), list[Answer](), 0
    for size in [*cuts, len(data)]:
        surface.receive_data(data[position : position + size])
        position += size
        while (answer := surface.next_answer()) is not None:
            found.append(answer)
    assert found == [
        Answer(None, None, 9, b"\1\2\0"),
        Answer(None, "HTTP 503", -1, b""),
        Answer(None, None, 7, b"\0"),
    ]


def test_answer_without_an_end_is_rejected() -> None:
    surface = HttpSurface("h:1", None)
    surface.receive_data(b"x" * 70000)
    with pytest.raises(LoadError, match="not HTTP"):
        surface.next_answer()
