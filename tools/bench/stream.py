"""Decisions over the decision stream, with several questions per frame."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from authorizerd.acl.index.builder import build
from authorizerd.acl.model import Question
from authorizerd.protocol.decisions.stream import ALLOWED, StreamClientConnection, StreamQuestion
from tools.bench.figures import Row
from tools.bench.http_decisions import WORKERS
from tools.bench.loads import FULL, QUICK, Process, Target, compare
from tools.bench.protocols import STREAM
from tools.bench.run import Run
from tools.bench.sender import Plan
from tools.bench.servers import check_agreement, collect_answers
from tools.bench.sets import QUESTIONS, AclSet, kind, kind_with_many_questions
from tools.daemon_process import PATIENT, DaemonProcess, ready_daemon, write_token

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

    def target(
        self, daemon: DaemonProcess, questions: Sequence[Question], token: str | None = None
    ) -> Target:
        """Return this load of a daemon; the frames are encoded before."""
        plan = Plan(
            address=daemon.decision_stream, protocol=STREAM, seconds=0, in_flight=self.in_flight,
            requests=make_frames(questions, self.each), connections=self.connections,
            opening=StreamClientConnection(_FRAME_BYTES_MAX).hello(token),
        )  # fmt: skip
        process = Process(daemon.process_id)
        return Target(process=process, plan=plan, each=self.each, rate=self.rate)


USUAL: Final = StreamLoad(each=100, in_flight=16)
LOADS: Final = (
    StreamLoad(each=1, in_flight=64, rate=1000.0),
    StreamLoad(each=10, in_flight=16, rate=1000.0),
    USUAL,
    StreamLoad(each=1000, in_flight=4, rate=100.0),
)
CROWD: Final = StreamLoad(each=100, in_flight=4, connections=4)
"""Enough connections that each of two workers gets some."""


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
    questions, place = [*acl_set.questions()], run.new_place("stream")

    def measure(
        settings: Mapping[str, str], loads: Sequence[StreamLoad], words: str, token: str | None
    ) -> Iterator[Row]:
        with ready_daemon(place, run.log_of(acl_set), {**PATIENT, **settings}) as daemon:
            check_stream(daemon, acl_set, questions[:QUESTIONS], token)
            for load in loads:
                sides = {words: load.target(daemon, questions, token)}
                yield from compare(str(load), run.pick(FULL, QUICK), sides)

    yield from measure({}, run.pick((*LOADS, CROWD), (USUAL,)), "", None)
    tokens, token = write_token(place)
    yield from measure(tokens, (USUAL,), ", with a token", token)
    workers = {"authorizerd.workers": str(WORKERS)}
    yield from measure(workers, (CROWD,), f", {WORKERS} workers", None)


def check_stream(
    daemon: DaemonProcess, acl_set: AclSet, questions: Sequence[Question], token: str | None
) -> None:
    """Check that the stream answers as the set's ACLs say."""
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
    expected = collect_answers(build(acl_set.added()), questions)
    check_agreement(expected, given, questions, "the stream")
