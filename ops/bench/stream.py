"""Decisions over the decision stream, so many questions a frame.

Law: before anything is timed, the stream has answered every question as ``acl.decision`` does.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from acl.model import Question
from ops.bench.daemon_process import DaemonProcess, ready_daemon
from ops.bench.decisions import check_agreement
from ops.bench.figures import Line
from ops.bench.http_load import LoadReport
from ops.bench.processes import Command, ProcessError, cpu_seconds, json_of
from ops.bench.sets import AclSet
from ops.stream_client.blocking import StreamClient
from ops.stream_client.errors import StreamError
from protocol.decision_stream import StreamClientConnection, StreamQuestion

FRAME_SIZES: Final = ((1, 64), (10, 16), (100, 16), (1000, 4))
"""Questions a frame, and frames in flight."""

_FRAMES_MAX: Final = 512
_FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
_TIMEOUT_SECONDS: Final = 60.0


def measure_stream(
    acl_set: AclSet, expected: str, log_dir: Path, directory: Path, seconds: float
) -> list[Line]:
    """Return the lines of the stream, ``seconds`` for each load.

    Args:
        expected: an A or a D for each question of the set.
        log_dir: holds a checkpoint of the set.

    Raises:
        DisagreementError: the stream answers a question differently.
        ProcessError: the daemon did not serve as it should.
    """
    questions = list(acl_set.questions())
    lines: list[Line] = []
    with ready_daemon(directory, log_dir, {}) as daemon:
        _check(daemon, questions, expected)
        for each, in_flight in FRAME_SIZES:
            what = f"stream, {each} a frame, {in_flight} in flight"
            path = directory / f"stream-{each}.frames"
            path.write_bytes(_frames(questions, each))
            command: Command = [
                sys.executable, "-m", "ops.bench.stream_load",
                daemon.decision_stream, path, str(in_flight), str(seconds),
            ]  # fmt: skip
            before = cpu_seconds(daemon.process_id)
            report = json_of(command, LoadReport, timeout_seconds=_TIMEOUT_SECONDS)
            used = cpu_seconds(daemon.process_id) - before
            lines += _lines(what, report, each, used)
    return lines


def _lines(what: str, report: LoadReport, each: int, cpu: float) -> list[Line]:
    decisions = report.requests * each
    return [
        Line(
            what=f"{what}: decisions",
            unit="/s",
            ours=report.requests_per_second * each,
            more_is_better=True,
        ),
        Line(what=f"{what}: p50 of a frame", unit="ms", ours=report.p50_ms),
        Line(what=f"{what}: p99 of a frame", unit="ms", ours=report.p99_ms),
        Line(
            what=f"{what}: decisions a CPU-second",
            unit="/s",
            ours=decisions / cpu if cpu else 0.0,
            more_is_better=True,
        ),
    ]


def _worded(question: Question) -> StreamQuestion:
    """Return the question in codes, as a client that asks often would put it."""
    return (
        question.principal,
        question.host,
        question.operation,
        question.resource_type,
        question.resource_name,
    )


def _frames(questions: Sequence[Question], each: int) -> bytes:
    """Return frames of ``each`` questions, taken from the set in turn."""
    connection = StreamClientConnection(_FRAME_BYTES_MAX)
    count = min(_FRAMES_MAX, max(1, len(questions) // each))
    return b"".join(
        connection.ask(
            number,
            [_worded(questions[(number * each + n) % len(questions)]) for n in range(each)],
        )
        for number in range(count)
    )


def _check(daemon: DaemonProcess, questions: Sequence[Question], expected: str) -> None:
    try:
        with StreamClient(daemon.decision_stream, timeout_seconds=_TIMEOUT_SECONDS) as client:
            given = "".join(
                "AD"[not allowed]
                for start in range(0, len(questions), 100)
                for allowed in client.ask(
                    [_worded(question) for question in questions[start : start + 100]]
                ).allowed
            )
    except (StreamError, OSError) as error:
        raise ProcessError(f"authorizerd: {error!r}") from error
    check_agreement(expected, given, questions, "the stream")
