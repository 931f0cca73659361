"""Decisions over the decision stream, with several questions per frame."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from authorizerd.acl.model import Question
from authorizerd.protocol.decisions.stream import ALLOWED, StreamClientConnection, StreamQuestion
from tools.bench.figures import Row, percentile_rows
from tools.bench.http_decisions import WORKERS, expected_answers
from tools.bench.protocols import STREAM
from tools.bench.run import Run
from tools.bench.sender import Plan, send, send_together
from tools.bench.servers import check_agreement
from tools.bench.sets import kind, kind_with_many_questions
from tools.daemon_process import PATIENT, DaemonProcess, ready_daemon, write_token
from tools.processes import cpu_seconds

_FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
_TIMEOUT_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLoad:
    """Questions per frame, and frames in flight on each connection; latencies at ``rate``."""

    each: int
    in_flight: int
    connections: int = 1
    rate: float = 500.0

    def __str__(self) -> str:
        on = "" if self.connections == 1 else f" on each of {self.connections} connections"
        return f"stream, {self.each} a frame, {self.in_flight} in flight{on}"


USUAL: Final = StreamLoad(each=100, in_flight=16)
LOADS: Final = (
    StreamLoad(each=1, in_flight=64, rate=1000.0),
    StreamLoad(each=10, in_flight=16, rate=1000.0),
    USUAL,
    StreamLoad(each=1000, in_flight=4, rate=100.0),
)
CROWD: Final = StreamLoad(each=100, in_flight=4, connections=4)
"""Enough connections that each of two workers gets some."""


@dataclass(frozen=True, slots=True)
class Counted:
    """The decisions of a load as fast as the daemon answers, and its CPU-seconds."""

    decisions: int
    per_second: float
    cpu: float


class Stream:
    """Asks one daemon; the frames are encoded before."""

    def __init__(
        self, daemon: DaemonProcess, questions: Sequence[Question], token: str | None = None
    ) -> None:
        self._daemon: Final = daemon
        self._questions: Final = questions
        self._hello: Final = StreamClientConnection(_FRAME_BYTES_MAX).hello(token)

    def _plan(self, load: StreamLoad, seconds: float, connections: int, rate: float = 0.0) -> Plan:
        return Plan(
            address=self._daemon.decision_stream,
            protocol=STREAM,
            requests=make_frames(self._questions, load.each),
            opening=self._hello,
            connections=connections,
            in_flight=load.in_flight,
            rate=rate,
            seconds=seconds * 1.2,
            skipped_seconds=seconds * 0.2,
        )

    def count(self, load: StreamLoad, seconds: float) -> Counted:
        """Ask as fast as the daemon answers, each connection from a process of its own."""
        plan = self._plan(load, seconds, 1)
        before = cpu_seconds(self._daemon.process_id)
        reports = send_together(*[plan] * load.connections)
        used = cpu_seconds(self._daemon.process_id) - before
        asked = sum(report.asked for report in reports) * load.each
        return Counted(asked, sum(report.per_second for report in reports) * load.each, used)

    def measure(self, what: str, load: StreamLoad, seconds: float, timed: float) -> Iterator[Row]:
        """Yield the rows of a load."""
        counted = self.count(load, seconds)
        per_cpu = counted.decisions / counted.cpu if counted.cpu else 0.0
        for metric, ours in (
            ("decisions", counted.per_second),
            ("decisions per CPU-second", per_cpu),
        ):
            yield Row(what=what, metric=metric, unit="/s", ours=ours, more_is_better=True)
        plan = self._plan(load, timed, load.connections, load.rate)
        yield from percentile_rows(what, send(plan).times_ms, of=f" at {load.rate:g} frames/s")


def make_frames(questions: Sequence[Question], each: int) -> list[bytes]:
    """Return frames with ``each`` questions, as codes, in turn until all are asked."""
    connection = StreamClientConnection(_FRAME_BYTES_MAX)
    asked: list[StreamQuestion] = [
        (it.principal, it.host, it.operation, it.resource_type, it.resource_name)
        for it in questions
    ]
    starts = range(0, max(1, len(asked) - each + 1), each)
    return [
        connection.ask(number, asked[start : start + each]) for number, start in enumerate(starts)
    ]


def measure_stream(run: Run) -> Iterator[Row]:
    """Measure each load; the stream's answers are checked first."""
    acl_set = run.pick(kind_with_many_questions(), kind())
    questions, expected = [*acl_set.questions()], expected_answers(acl_set)
    place, log_dir, seconds = run.new_place("stream"), run.log_of(acl_set), run.pick(3.0, 0.1)

    def measure(
        settings: Mapping[str, str], loads: Sequence[StreamLoad], more: str = "", token: str = ""
    ) -> Iterator[Row]:
        with ready_daemon(place, log_dir, {**PATIENT, **settings}) as daemon:
            check_stream(daemon, questions[: len(expected)], expected, token or None)
            asking = Stream(daemon, questions, token or None)
            for load in loads:
                timed = run.pick(max(3.0, 1100 / load.rate), 0.1)
                yield from asking.measure(f"{load}{more}", load, seconds, timed)

    yield from measure({}, run.pick((*LOADS, CROWD), (USUAL,)))
    tokens, token = write_token(place)
    yield from measure(tokens, (USUAL,), ", with a token", token)
    workers = {"authorizerd.workers": str(WORKERS)}
    yield from measure(workers, (CROWD,), f", {WORKERS} workers")


def check_stream(
    daemon: DaemonProcess, questions: Sequence[Question], expected: str, token: str | None
) -> None:
    """Compare the stream's answers with an A or a D for each question."""
    host, _, port = daemon.decision_stream.rpartition(":")
    connection = StreamClientConnection(_FRAME_BYTES_MAX)
    with socket.create_connection((host, int(port)), _TIMEOUT_SECONDS) as link:
        link.sendall(connection.hello(token))
        while connection.next_greeting() is None:
            connection.receive_data(link.recv(_FRAME_BYTES_MAX))
        link.sendall(b"".join(make_frames(questions, len(questions))))
        while (answer := connection.next_answer()) is None:
            connection.receive_data(link.recv(_FRAME_BYTES_MAX))
    given = "".join("A" if code == ALLOWED else "D" for code in answer.decisions)
    check_agreement(expected, given, questions, "the stream")
