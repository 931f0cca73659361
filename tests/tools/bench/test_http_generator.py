"""HTTP is asked by wrk, or by our own generator, with the same result."""

from __future__ import annotations

import shutil
import socket
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from tests.tools.bench.servers import Answer, send, send_and_close, serving
from tools.bench.http_generator import PYTHON, WRK, HttpLoad, generate, generator_for
from tools.bench.processes import ProcessError

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ntrue"
REFUSAL = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"
BODIES = [b'{"number":%d}' % number for number in range(5)]
needs_wrk = pytest.mark.skipif(shutil.which(WRK) is None, reason="no wrk")


def refuse_every_second() -> Answer:
    numbers = count()

    def answer(peer: socket.socket, request: bytes) -> None:
        peer.sendall(REFUSAL if next(numbers) % 2 else ANSWER)

    return answer


def load_of(address: tuple[str, int], directory: Path, seconds: float) -> HttpLoad:
    """Return a load on one connection with a token, which begins with the fourth body."""
    bodies, token = directory / "bodies", directory / "token"
    bodies.write_bytes(b"\n".join(BODIES))
    token.write_text("secret\n")
    return HttpLoad(
        host=f"{address[0]}:{address[1]}", path="/ask", bodies=bodies, first=3, connections=1,
        seconds=seconds, token_file=token,
    )  # fmt: skip


@pytest.mark.parametrize(
    "seconds", [pytest.param(1.0, marks=needs_wrk, id=WRK), pytest.param(0.1, id=PYTHON)]
)
def test_bodies_are_asked_in_turn_with_the_token(seconds: float, tmp_path: Path) -> None:
    with serving(send(ANSWER)) as (address, received):
        report = generate(replace(load_of(address, tmp_path, seconds), has_ids=True))
    asked = [request.partition(b"\r\n\r\n")[2] for request in received]
    assert asked == [BODIES[(3 + number) % 5] for number in range(len(asked))]
    assert all(request.startswith(b"POST /ask HTTP/1.1\r\n") for request in received)
    assert all(b"Authorization: Bearer secret\r\n" in request for request in received)
    ids = [request.partition(b"X-Request-ID: ")[2].partition(b"\r\n")[0] for request in received]
    assert ids == [b"request-%08d" % ((3 + number) % 5) for number in range(len(ids))]
    assert len(received) - 1 <= report.requests <= len(received)
    assert report.refused == 0
    assert report.requests_per_second > 0
    assert 0 < report.at(50) <= report.at(99) <= report.max_ms


@needs_wrk
def test_wrk_counts_refusals_and_leaves_them_out_of_the_rate(tmp_path: Path) -> None:
    with serving(refuse_every_second()) as (address, _):
        report = generate(load_of(address, tmp_path, 1))
    assert report.refused == pytest.approx(report.requests / 2, abs=1)
    assert report.requests_per_second < report.requests * 0.6


@needs_wrk
@pytest.mark.parametrize("answer", [send(REFUSAL), send_and_close(b"")], ids=["503", "closed"])
def test_load_without_a_decision_fails(answer: Answer, tmp_path: Path) -> None:
    with (
        serving(answer) as (address, _),
        pytest.raises(ProcessError, match=r"requests failed, .* answered with 2xx"),
    ):
        generate(load_of(address, tmp_path, 1))


def test_our_own_generator_replaces_a_missing_wrk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    assert generator_for(3.0) == WRK
    assert generator_for(0.1) == PYTHON, "wrk counts whole seconds"
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert generator_for(3.0) == PYTHON
