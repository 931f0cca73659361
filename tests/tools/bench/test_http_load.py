"""The load generator counts complete answers with status 200."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from tests.tools.bench.servers import Answer, send, send_and_close, serving
from tools.bench.closed_loop import LoadError
from tools.bench.http_load import drive, post

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 4\r\n\r\ntrue"
REQUESTS = [post("localhost", "/path", b'{"number":%d}' % number) for number in range(8)]


def heads_and_bodies(requests: Sequence[bytes]) -> set[bytes]:
    return {request.partition(b"\r\n\r\n")[2] for request in requests}


def test_every_answer_on_every_connection_is_counted() -> None:
    """The last request of each connection may still be in flight."""
    with serving(send(ANSWER)) as (address, received):
        report = drive(address, REQUESTS, 4, 0.05)
    assert len(received) - 4 <= report.requests <= len(received)
    assert heads_and_bodies(received) == heads_and_bodies(REQUESTS)
    assert report.requests_per_second > 0
    assert 0 < report.at(50) <= report.at(90) <= report.at(99) <= report.max_ms
    assert 0 < report.timed <= report.requests


@pytest.mark.parametrize("connections", [1, 3])
def test_no_request_repeats_before_all_others_were_sent(connections: int) -> None:
    with serving(send(ANSWER)) as (address, received):
        drive(address, REQUESTS, connections, 0.05, first=len(REQUESTS) + 5)
    assert received[0] in REQUESTS[5 : 5 + connections]
    sent = Counter(received)
    assert max(sent.values()) - min(sent.values()) <= 1


def test_answer_may_arrive_in_pieces() -> None:
    pieces = (ANSWER[:7], ANSWER[7:60], ANSWER[60:-1], ANSWER[-1:])
    with serving(send(*pieces)) as (address, received):
        report = drive(address, REQUESTS, 1, 0.05)
    assert len(received) - 1 <= report.requests <= len(received)


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (
            send(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"),
            "answered .*503",
        ),
        (send(b"HTTP/1.1 200 OK\r\n\r\n"), "without Content-Length"),
        (send_and_close(b""), "closed"),
    ],
)
def test_anything_but_a_whole_200_ends_the_load(answer: Answer, complaint: str) -> None:
    with serving(answer) as (address, _), pytest.raises(LoadError, match=complaint):
        drive(address, REQUESTS, 1, 0.05)
