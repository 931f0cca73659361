"""Floods: the requests, and the counting of answers."""

import socket
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.config.configuration import Configuration, parse
from authorizerd.protocol.decisions.stream import (
    StreamServerConnection,
    encode_answer,
    encode_hello,
)
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.framing import frame
from authorizerd.protocol.http.connection import ServerConnection
from authorizerd.protocol.http.messages import Request, encode_response, text_response
from authorizerd.protocol.http.request_head import BadRequest, HttpLimits
from authorizerd.protocol.kafka.error_codes import ErrorCode
from authorizerd.protocol.kafka.server_connection import KafkaServerConnection
from tests.support.flood_surfaces import ADMIN, HTTP, Surface, surfaces
from tests.tools.bench.servers import send_and_close, serving
from tools.bench.flood_load import CLOSED, Flooder, Plan
from tools.bench.protocols import ANSWERED, reader_of
from tools.bench.sets import wide

OK = encode_response(text_response(200, "fine"))
REFUSED = encode_response(text_response(503, "HTTP/1.1 in words"))
STREAM_ANSWERS = (
    encode_hello(ErrorCode.NONE, 5) + encode_answer(1, 0, 5, b"\1") + encode_answer(2, 89, 5, b"")
)
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nHTTP/\r\n0\r\n\r\n"
CASES = {
    "http": (OK + REFUSED + CHUNKED + OK, {ANSWERED: 3, "503": 1}),
    "stream": (STREAM_ANSWERS, {ANSWERED: 1, "THROTTLING_QUOTA_EXCEEDED": 1}),
    "kafka": (frame(b"one") + frame(b"") + frame(b"three")[:-1], {ANSWERED: 2}),
}


def configured() -> Configuration:
    return parse("node.id=1\nlog.dirs=/log\n", source="test")


@pytest.fixture(params=range(5))
def surface(request: pytest.FixtureRequest) -> Surface:
    question = next(wide(1000, 2).questions())
    hosts = {HTTP: "127.0.0.1:1", ADMIN: "127.0.0.1:2"}
    number: int = request.param
    return surfaces(configured(), question, hosts)[number]


@given(protocol=st.sampled_from(sorted(CASES)), cuts=st.lists(st.integers(0, 300)))
def test_answers_are_counted_however_they_are_split(protocol: str, cuts: list[int]) -> None:
    data, counted = CASES[protocol]
    reader, outcomes = reader_of(protocol), Counter[object]()
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    for start, end in pairwise(places):
        if start < end:
            outcomes.update(reader.feed(data[start:end]))
    assert outcomes == counted


def test_requests_have_the_stated_sizes(surface: Surface) -> None:
    configuration = configured()
    if surface.protocol == "http":
        limit = 4096 if surface.endpoint == ADMIN else configuration.http_request_max_bytes
        for data, kind in (
            (surface.request, Request),
            (surface.costly, Request),
            (surface.largest, Request),
            (surface.largest[:-1], type(None)),
            (surface.oversized, BadRequest),
        ):
            server = ServerConnection(HttpLimits(body_bytes_max=limit))
            server.receive_data(data)
            assert isinstance(server.next_event(), kind)
        return
    for data in (surface.request, surface.costly, surface.largest):
        assert is_read(surface, data)
        assert not is_read(surface, data[:-1])
    with pytest.raises(DecodeError):
        is_read(surface, surface.oversized)


def is_read(surface: Surface, data: bytes) -> bool:
    """Return True if ``data`` is a complete request of the interface."""
    configuration = configured()
    if surface.protocol == "kafka":
        kafka = KafkaServerConnection(configuration.socket_request_max_bytes)
        kafka.receive_data(data)
        return kafka.next_request() is not None
    stream = StreamServerConnection(configuration.stream_frame_max_bytes)
    stream.receive_data(surface.opening + data)
    assert stream.next_frame() is not None, "the hello"
    return stream.next_frame() is not None


def test_flood_counts_answers_and_closed_connections() -> None:
    with serving(send_and_close(REFUSED)) as ((host, port), _):
        report = Flooder(
            Plan(
                address=f"{host}:{port}", protocol="http", connections=3, seconds=0.3, first=b"ask"
            )
        ).run()
    assert report.opened == 3
    assert report.outcomes == {"503": 3, CLOSED: 3}


def test_only_requests_that_the_sockets_accept_count_as_offered() -> None:
    """Nobody reads here, so the buffers of the connections soon are full."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        host, port = deaf.getsockname()
        report = Flooder(
            Plan(
                address=f"{host}:{port}", protocol="http", connections=1, seconds=0.5,
                again=b"x" * (1 << 20), requests_per_second=1000,
            )
        ).run()  # fmt: skip
    assert report.offered < 50
