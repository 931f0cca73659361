"""Decisions over the decision stream, with several questions per frame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Final

from authorizerd.acl.model import Question
from authorizerd.protocol.decisions.stream import ALLOWED, StreamClientConnection, StreamQuestion
from tests.support.requests import stream_question
from tests.support.stream_connection import StreamConnection
from tools.bench.figures import Row
from tools.bench.http_decisions import WORKERS
from tools.bench.loads import FULL, QUICK, Load, Process, Target
from tools.bench.protocols import STREAM
from tools.bench.run import Run
from tools.bench.sender import Plan
from tools.bench.servers import AUTHZEN, Server, check_agreement, check_servers, compare_servers
from tools.bench.sets import kind, kind_with_many_questions
from tools.daemon_process import PATIENT, DaemonProcess, ready_daemon, write_token

_FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
USUAL: Final = Load(each=100, in_flight=16, rate=500)
CROWD: Final = Load(each=100, in_flight=4, connections=4, rate=500)
"""Enough connections that each of two workers gets some."""
LOADS: Final = (
    Load(each=1, in_flight=64),
    Load(each=10, in_flight=16),
    USUAL,
    Load(each=1000, in_flight=4, rate=100),
    CROWD,
)


class StreamServer(Server):
    """A daemon's decision stream, which takes frames of questions, as codes."""

    def check(self, questions: Sequence[Question], expected: str) -> None:
        with closing(StreamConnection(self.host, self.token or None)) as connection:
            answer = connection.ask(*map(stream_question, questions))
        given = "".join("A" if code == ALLOWED else "D" for code in answer.decisions)
        check_agreement(expected, given, questions, "the stream")

    def target(self, questions: Sequence[Question], load: Load) -> Target:
        connection = StreamClientConnection(_FRAME_BYTES_MAX)
        asked: list[StreamQuestion] = [*map(stream_question, questions)]
        starts = range(0, len(asked) - load.each + 1, load.each)
        frames = (asked[start : start + load.each] for start in starts)
        plan = Plan(
            address=self.host, protocol=STREAM, seconds=0,
            requests=[connection.ask(number, frame) for number, frame in enumerate(frames)],
            opening=connection.hello(self.token or None),
        )  # fmt: skip
        return Target(process=self.process, plan=plan, load=load)


def stream_of(daemon: DaemonProcess) -> StreamServer:
    """Return a daemon's decision stream as a server."""
    process, host = Process(daemon.process_id), daemon.decision_stream
    return StreamServer(api=AUTHZEN, host=host, process=process, token=daemon.token)


def measure_stream(run: Run) -> Iterator[Row]:
    """Measure each load, and the usual ones with a token and with workers."""
    acl_set = run.pick(kind_with_many_questions(), kind())
    questions, place = [*acl_set.questions()], run.new_place("stream")
    tokens, token = write_token(place)
    workers = {"authorizerd.workers": str(WORKERS)}
    for words, settings, loads in (
        ("", {}, run.pick(LOADS, (USUAL,))),
        (", with a token", tokens, (USUAL,)),
        (f", {WORKERS} workers", workers, (CROWD,)),
    ):
        with ready_daemon(place, run.log_of(acl_set), {**PATIENT, **settings}) as daemon:
            server = stream_of(replace(daemon, token=token if settings is tokens else ""))
            check_servers(acl_set, questions, server)
            for load in loads:
                extent, sides = run.pick(FULL, QUICK), {words: server}
                yield from compare_servers("stream", load, extent, questions, sides)
