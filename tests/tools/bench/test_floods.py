"""Floods: the requests, and the counting of answers."""

from __future__ import annotations

import socket
import time
from itertools import count, pairwise

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
from tests.tools.bench.servers import send, send_and_close, serving
from tools.bench.flood_load import Flood, Plan, flood
from tools.bench.flood_surfaces import (
    ADMIN,
    ANSWERED,
    CLOSED,
    HTTP,
    Surface,
    outcomes_of,
    surfaces,
)
from tools.bench.floods import FULL, QUICK, TIMES, flood_plans
from tools.bench.polite_client import ClientPlan, ClientReport, ask_steadily
from tools.bench.sets import wide

OK = encode_response(text_response(200, "fine"))
REFUSED = encode_response(text_response(503, "HTTP/1.1 in words"))
STREAM_ANSWERS = (
    encode_hello(ErrorCode.NONE, 5) + encode_answer(1, 0, 5, b"\1") + encode_answer(2, 89, 5, b"")
)
CASES = {
    "http": (OK + REFUSED + OK, {ANSWERED: 2, "503": 1}),
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
    outcomes = outcomes_of(protocol)
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    for start, end in pairwise(places):
        if start < end:
            outcomes.take(data[start:end])
    assert outcomes.counts == counted


def test_requests_have_the_stated_sizes(surface: Surface) -> None:
    configuration = configured()
    if surface.outcomes == "http":
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
    if surface.outcomes == "kafka":
        kafka = KafkaServerConnection(configuration.socket_request_max_bytes)
        kafka.receive_data(data)
        return kafka.next_request() is not None
    stream = StreamServerConnection(configuration.stream_frame_max_bytes)
    stream.receive_data(surface.opening + data)
    assert stream.next_frame() is not None, "the hello"
    return stream.next_frame() is not None


def test_every_surface_has_every_flood(surface: Surface) -> None:
    plans = flood_plans(surface, "127.0.0.1:1", FULL, 1000.0)
    rate = f"{TIMES} times the rate"
    assert plans.keys() >= {flood.value for flood in Flood}
    assert (rate in plans) == (surface.endpoint != ADMIN)
    assert all(plan.requests_per_second == 10_000 for name, plan in plans.items() if name == rate)
    assert plans[Flood.IDLE.value].connections == 2000
    slow = (Flood.READERS.value, Flood.WRITERS.value)
    assert sum(plans[name].connections for name in slow) == 500
    assert len(flood_plans(surface, "127.0.0.1:1", QUICK, 1000.0)) == 2


def test_flood_counts_answers_and_closed_connections() -> None:
    with serving(send_and_close(REFUSED)) as ((host, port), _):
        report = flood(
            Plan(
                address=f"{host}:{port}",
                outcomes="http",
                connections=3,
                seconds=0.3,
                first=b"ask",
            )
        )
    assert report.opened == 3
    assert report.outcomes == {"503": 3, CLOSED: 3}


def test_polite_client_counts_refusals_and_continues() -> None:
    def ask(answer: bytes) -> ClientReport:
        with serving(send_and_close(answer)) as ((host, port), _):
            plan = ClientPlan(
                address=f"{host}:{port}", outcomes="http", opening=b"", request=b"ask",
                requests_per_second=100, seconds=0.3,
            )  # fmt: skip
            return ask_steadily(plan)

    served, refused = ask(OK), ask(REFUSED)
    assert served.timed > 0
    assert 0 < served.at(50) <= served.at(99) <= served.max_ms
    assert (refused.timed, set(refused.refused) >= {"503"}) == (0, True)


def test_latency_of_a_polite_client_counts_from_when_its_request_was_due() -> None:
    """One stall of 300 ms delays the 30 requests that are due during it."""
    answered = count()

    def stall_once(peer: socket.socket, request: bytes) -> None:
        if next(answered) == 10:
            time.sleep(0.3)
        peer.sendall(OK)

    with serving(stall_once) as ((host, port), received):
        plan = ClientPlan(
            address=f"{host}:{port}", outcomes="http", opening=b"", request=b"ask",
            requests_per_second=100, seconds=0.595, connections=1,
        )  # fmt: skip
        report = ask_steadily(plan)
    assert report.timed == len(received) == 60
    assert report.at(90) > 150
    assert report.max_ms >= 300


def test_requests_due_after_a_refusal_count_as_refused() -> None:
    with serving(send(REFUSED)) as ((host, port), received):
        plan = ClientPlan(
            address=f"{host}:{port}", outcomes="http", opening=b"", request=b"ask",
            requests_per_second=200, seconds=0.495, connections=2,
        )  # fmt: skip
        report = ask_steadily(plan)
    assert report.timed == 0
    assert sum(report.refused.values()) == 100
    assert report.refused["503"] == len(received) < 50


def test_only_requests_that_the_sockets_accept_count_as_offered() -> None:
    """Nobody reads here, so the buffers of the connections soon are full."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        host, port = deaf.getsockname()
        report = flood(
            Plan(
                address=f"{host}:{port}", outcomes="http", connections=1, seconds=0.5,
                again=b"x" * (1 << 20), requests_per_second=1000,
            )
        )  # fmt: skip
    assert report.offered < 50
