"""Benchmark decisions over the decision stream, with several questions per frame.

**Invariant:** before anything is timed, the stream has given the answer of ``acl.decision`` to
every question.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from authorizerd.acl.model import Question
from authorizerd.protocol.decisions.stream import ALLOWED, StreamClientConnection, StreamQuestion
from authorizerd.protocol.errors import DecodeError
from tools.bench.closed_loop import LoadError, LoadReport
from tools.bench.daemon_process import (
    PATIENT,
    DaemonProcess,
    ready_daemon,
    write_token,
)
from tools.bench.decisions import check_agreement
from tools.bench.figures import Line
from tools.bench.processes import Command, ProcessError, capture_outputs, cpu_seconds, decode_output
from tools.bench.rounds import percents
from tools.bench.sets import AclSet
from tools.bench.stream_load import StreamLink


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLoad:
    """The number of questions per frame, and of frames in flight per connection."""

    each: int
    in_flight: int
    connections: int = 1

    def __str__(self) -> str:
        on = "" if self.connections == 1 else f" on each of {self.connections} connections"
        return f"{self.each} a frame, {self.in_flight} in flight{on}"


USUAL: Final = StreamLoad(each=100, in_flight=16)
LOADS: Final = (
    StreamLoad(each=1, in_flight=64),
    StreamLoad(each=10, in_flight=16),
    USUAL,
    StreamLoad(each=1000, in_flight=4),
)
CROWD: Final = StreamLoad(each=100, in_flight=4, connections=4)
"""Enough connections that each of two workers gets some."""

WORKERS: Final = 2
_CHECKED_AT_ONCE: Final = 100
_FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
_TIMEOUT_SECONDS: Final = 60.0


def measure_stream(
    acl_set: AclSet, expected: str, log_dir: Path, directory: Path, seconds: float
) -> list[Line]:
    """Return the lines of the stream, ``seconds`` for each load.

    Args:
        expected: an A or a D for each of the first questions of the set: those that are checked.
        log_dir: contains a checkpoint of the set.

    Raises:
        DisagreementError: the stream answers a question differently.
        ProcessError: the daemon failed.
    """
    directory.mkdir(parents=True, exist_ok=True)
    questions = list(acl_set.questions())
    for each in {load.each for load in (*LOADS, CROWD)}:
        write_frames(directory, questions, each)
    lines: list[Line] = []
    with ready_daemon(directory, log_dir, PATIENT) as daemon:
        _check(daemon, questions[: len(expected)], expected)
        for load in LOADS:
            lines += _lines(f"stream, {load}", load, drive(daemon, load, directory, seconds))
        alone = drive(daemon, CROWD, directory, seconds)
    settings, token_file = write_token(directory)
    with ready_daemon(directory, log_dir, {**PATIENT, **settings}) as daemon:
        driven = drive(daemon, USUAL, directory, seconds, token_file)
        lines += _lines(f"stream, {USUAL}, with a token", USUAL, driven)
    workers = {"authorizerd.workers": str(WORKERS)}
    with ready_daemon(directory, log_dir, {**PATIENT, **workers}) as daemon:
        _check(daemon, questions[: len(expected)], expected)
        shared = drive(daemon, CROWD, directory, seconds)
    return [
        *lines,
        *_lines(f"stream, {CROWD}", CROWD, alone),
        *_lines(f"stream, {CROWD}, {WORKERS} workers", CROWD, shared),
    ]


@dataclass(frozen=True, slots=True)
class Driven:
    """Each connection's report, and the CPU-seconds that the daemon used."""

    reports: Sequence[LoadReport]
    cpu: float

    def cpu_us_of_each(self, load: StreamLoad) -> float:
        """Return the microseconds of CPU time that a decision took."""
        return self.cpu * 1e6 / (sum(report.requests for report in self.reports) * load.each)


def drive(
    daemon: DaemonProcess,
    load: StreamLoad,
    directory: Path,
    seconds: float,
    token_file: Path | None = None,
) -> Driven:
    """Ask for ``seconds``, each connection from a process of its own.

    The file of the frames must exist; see ``write_frames``.

    Raises:
        ProcessError: the load failed.
    """
    command: Command = [
        sys.executable, "-m", "tools.bench.stream_load", daemon.decision_stream,
        _frames_file(directory, load.each), str(load.in_flight), str(seconds),
        *(() if token_file is None else (token_file,)),
    ]  # fmt: skip
    before = cpu_seconds(daemon.process_id)
    printed = capture_outputs([command] * load.connections, timeout_seconds=_TIMEOUT_SECONDS)
    used = cpu_seconds(daemon.process_id) - before
    return Driven([decode_output(each, LoadReport, command) for each in printed], used)


def write_frames(directory: Path, questions: Sequence[Question], each: int) -> None:
    """Write the file that ``drive`` reads, with ``each`` questions in a frame."""
    _frames_file(directory, each).write_bytes(_frames(questions, each))


def _frames_file(directory: Path, each: int) -> Path:
    return directory / f"stream-{each}.frames"


def _lines(what: str, load: StreamLoad, driven: Driven) -> list[Line]:
    reports, cpu = driven.reports, driven.cpu
    decisions = sum(report.requests for report in reports) * load.each
    return [
        Line(
            what=f"{what}: decisions",
            unit="/s",
            ours=sum(report.requests_per_second for report in reports) * load.each,
            more_is_better=True,
        ),
        *(
            Line(
                what=f"{what}: p{percent} of a frame",
                unit="ms",
                ours=max(report.at(percent) for report in reports),
            )
            for percent in percents(reports)
        ),
        Line(
            what=f"{what}: decisions a CPU-second",
            unit="/s",
            # A quick run may use less than one clock tick of CPU time.
            ours=decisions / cpu if cpu else 0.0,
            more_is_better=True,
        ),
    ]


def _format(question: Question) -> StreamQuestion:
    """Return the question in its shortest form, with codes instead of names."""
    return (
        question.principal,
        question.host,
        question.operation,
        question.resource_type,
        question.resource_name,
    )


def _frames(questions: Sequence[Question], each: int) -> bytes:
    """Return frames with ``each`` questions of the set, in turn, until all are asked."""
    connection = StreamClientConnection(_FRAME_BYTES_MAX)
    count = max(1, len(questions) // each)
    return b"".join(
        connection.ask(
            number,
            [_format(questions[(number * each + n) % len(questions)]) for n in range(each)],
        )
        for number in range(count)
    )


def _check(daemon: DaemonProcess, questions: Sequence[Question], expected: str) -> None:
    try:
        given = _ask_all(daemon.decision_stream, [_format(each) for each in questions])
    except (LoadError, DecodeError, OSError) as error:
        raise ProcessError(f"authorizerd: {error!r}") from error
    check_agreement(expected, given, questions, "the stream")


def _ask_all(address: str, questions: Sequence[StreamQuestion]) -> str:
    """Return an A for each question that is allowed, and a D for each that is not."""
    connection = StreamClientConnection(_FRAME_BYTES_MAX)
    given = bytearray()
    with closing(StreamLink(address, None, _TIMEOUT_SECONDS)) as link:
        for start in range(0, len(questions), _CHECKED_AT_ONCE):
            asked = [*questions[start : start + _CHECKED_AT_ONCE]]
            link.send(connection.ask(start, asked))
            # The call blocks until bytes arrive, so this does not spin.
            while not (answered := b"".join(link.receive_answers())):
                pass
            if len(answered) != len(asked):
                raise LoadError(f"{len(answered)} decisions on {len(asked)} questions")
            given += answered
    return "".join("A" if code == ALLOWED else "D" for code in given)
