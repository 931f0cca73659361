"""An open loop: every request is sent, and its latency counts from when it was due."""

from __future__ import annotations

import socket
import time
from collections import Counter

import pytest

from tests.tools.bench.servers import Answer, send, send_and_close, serving
from tools.bench.closed_loop import LoadError
from tools.bench.http_load import post
from tools.bench.steady_load import drive

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ntrue"
REQUESTS = [post("localhost", "/path", b'{"number":%d}' % number) for number in range(8)]
STALL_SECONDS = 0.2


@pytest.mark.parametrize("connections", [1, 3])
def test_every_request_is_sent_once_and_answered(connections: int) -> None:
    with serving(send(ANSWER)) as (address, received):
        report = drive(
            address, REQUESTS, connections=connections, requests_per_second=1000, seconds=0.016
        )
    assert report.requests == len(received) == 16
    assert Counter(received) == Counter(2 * REQUESTS)
    assert 0 < report.at(50) <= report.at(90) <= report.at(99) <= report.max_ms


def test_load_begins_with_the_request_that_is_named() -> None:
    with serving(send(ANSWER)) as (address, received):
        drive(
            address,
            REQUESTS,
            connections=1,
            requests_per_second=1000,
            seconds=0.002,
            first=len(REQUESTS) + 5,
        )
    assert received == REQUESTS[5:7]


def test_stall_counts_for_all_requests_that_were_due_during_it() -> None:
    """A closed loop would count it once, however many requests had to wait."""
    is_first = True

    def answer(peer: socket.socket, request: bytes) -> None:
        nonlocal is_first
        if is_first:
            is_first = False
            time.sleep(STALL_SECONDS)
        peer.sendall(ANSWER)

    with serving(answer) as (address, _):
        report = drive(address, REQUESTS, connections=1, requests_per_second=100, seconds=0.1)
    # The last one was due 90 ms after the first, and the half of them 40 ms.
    assert report.at(50) >= (STALL_SECONDS - 0.05) * 1000
    assert report.max_ms >= STALL_SECONDS * 1000


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (send(b"HTTP/1.1 503 Unavailable\r\nContent-Length: 0\r\n\r\n"), "answered .*503"),
        (send_and_close(b""), "closed"),
    ],
)
def test_anything_but_a_whole_200_ends_the_load(answer: Answer, complaint: str) -> None:
    with serving(answer) as (address, _), pytest.raises(LoadError, match=complaint):
        drive(address, REQUESTS, connections=1, requests_per_second=100, seconds=0.1)
