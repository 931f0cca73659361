"""The sender: every request is sent once, and its latency counts from when it was due."""

import socket
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.tools.bench.servers import Answer, send, send_and_close, serving
from tools.bench.figures import MeasurementError, percentile
from tools.bench.loads import measure_rate
from tools.bench.protocols import ANSWERED, post
from tools.bench.sender import NUMBER, Plan, Report, run_load

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ntrue"
REFUSAL = b"HTTP/1.1 503 Unavailable\r\nContent-Length: 0\r\n\r\n"
REQUESTS = [post("localhost", "/path", b'{"number":%d}' % number) for number in range(8)]
STALL_SECONDS = 0.2


def load(answer: Answer, **fields: Any) -> tuple[Report, list[bytes]]:  # noqa: ANN401
    with serving(answer) as ((host, port), received):
        known = {"requests": REQUESTS, "rate": 1000.0, "connections": 1}
        return run_load(Plan(address=f"{host}:{port}", **{**known, **fields})), received


@pytest.mark.parametrize("fields", [{}, {"connections": 3}, {"is_fresh": True}])
def test_every_request_is_sent_once_and_answered(fields: dict[str, Any]) -> None:
    report, received = load(send(ANSWER), seconds=0.016, **fields)
    assert report.asked == report.answered == len(received) == len(report.times_ms) == 16
    assert Counter(received) == Counter(2 * REQUESTS)


def test_load_begins_with_the_request_that_is_named() -> None:
    _, received = load(send(ANSWER), seconds=0.002, first=len(REQUESTS) + 5)
    assert received == REQUESTS[5:7]


def test_stall_counts_for_all_requests_that_were_due_during_it() -> None:
    """A closed loop would count it once, however many requests had to wait."""
    answered = 0

    def answer(peer: socket.socket, request: bytes) -> None:
        nonlocal answered
        answered += 1
        if answered == 1:
            time.sleep(STALL_SECONDS)
        peer.sendall(ANSWER)

    report, _ = load(answer, rate=100.0, seconds=0.1)
    # The last one was due 90 ms after the first, and the half of them 40 ms.
    assert percentile(report.times_ms, 50) >= (STALL_SECONDS - 0.05) * 1000
    assert max(report.times_ms) >= STALL_SECONDS * 1000


@pytest.mark.parametrize(
    ("answer", "complaint"), [(send(REFUSAL), "answered 503"), (send_and_close(b""), "closed")]
)
def test_anything_but_an_answer_ends_a_load(answer: Answer, complaint: str) -> None:
    with pytest.raises(MeasurementError, match=complaint):
        load(answer, seconds=0.1)


def test_refusals_are_counted_if_the_load_may_be_refused() -> None:
    """Requests that are due while a client waits after a refusal count as refused as well."""
    report, received = load(send(REFUSAL), rate=200.0, seconds=0.495, may_refuse=True)
    assert report.answered == 0
    assert report.refused == 99
    assert report.outcomes["503"] == len(received) < 50


def test_lost_connections_are_opened_again_if_the_load_may_be_refused() -> None:
    report, _ = load(send_and_close(ANSWER), rate=100.0, seconds=0.3, may_refuse=True)
    assert report.outcomes[ANSWERED] > 1


def test_closed_loop_measures_a_rate_and_the_times_of_one_request_at_a_time() -> None:
    alone, _ = load(send(ANSWER), rate=0.0, seconds=0.05)
    assert alone.per_second > 0
    assert len(alone.times_ms) == alone.answered >= 1
    together, _ = load(send(ANSWER), rate=0.0, seconds=0.05, connections=3)
    assert (together.answered >= 1, together.times_ms) == (True, [])


def test_each_request_gets_another_number() -> None:
    numbered = post("localhost", "/", b"{}", request_id=NUMBER.decode())
    _, received = load(send(ANSWER), requests=[numbered], seconds=0.003)
    assert len(set(received)) == 3
    assert b"X-Request-ID: 0000000002\r\n" in received[2]


def test_rate_without_answers_is_an_error() -> None:
    """An error of the harness must never be published as a figure."""
    with serving(send(REFUSAL)) as ((host, port), _), pytest.raises(Exception, match="answered"):
        measure_rate(Plan(address=f"{host}:{port}", requests=REQUESTS, seconds=0.1))


def test_script_of_wrk_is_where_it_is_expected() -> None:
    assert Path("tools/bench/wrk.lua").exists()
