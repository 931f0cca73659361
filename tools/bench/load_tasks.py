"""Lanes of ``replay load`` as processes of this machine, without Spark, and a trivial target.

Each process runs the code of a Spark task: connect, meet the others, send on the agreed start.
Queues take the place of Spark's barrier. The trivial target allows every question without reading
it, so the lanes are the limit.
"""

from __future__ import annotations

import os
import selectors
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, repeat
from multiprocessing import get_context
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.protocol.decisions.stream import encode_answer, encode_hello
from authorizerd.protocol.framing import Frames
from authorizerd.protocol.kafka.error_codes import ErrorCode
from authorizerd.replay.load.lanes.driving import drive
from authorizerd.replay.load.lanes.tally import LaneResult
from authorizerd.replay.load.plan.frames import LaneDigest, read_frames
from authorizerd.replay.plans import LoadPlan
from tools.bench.processes import ProcessError

_SPAWN: Final = get_context("spawn")
_RECEIVE_BYTES: Final = 1 << 20
_STARTS_SECONDS: Final = 120.0
_FRAME_BYTES_MAX: Final = 1 << 20
_decode: Final = msgspec.msgpack.Decoder(tuple[int, msgspec.Raw]).decode
_FIXARRAY_END: Final = 0xA0


@dataclass(frozen=True, kw_only=True)
class TaskRun:
    """The results of one run's lanes; ``cpu_seconds`` is each lane's own CPU time.

    From their start to their end, ``seconds`` passed, and the cores were idle for ``idle_seconds``.
    """

    results: list[LaneResult]
    cpu_seconds: list[float]
    seconds: float
    idle_seconds: float


def run_tasks(plan: LoadPlan, files: Sequence[tuple[LaneDigest, Path]]) -> TaskRun:
    """Send the frames of each file from a process of its own, and return the results.

    A closed loop repeats its file until ``plan.ends_s``.

    Raises:
        ProcessError: a lane was refused.
        queue.Empty: a lane said nothing.
    """
    arrivals, starts, results = _SPAWN.Queue(), _SPAWN.Queue(), _SPAWN.Queue()
    for planned in files:
        words = (plan, *planned, arrivals, starts, results)
        _SPAWN.Process(target=_run_task, args=words, daemon=True).start()
    texts = [arrivals.get(timeout=_STARTS_SECONDS) for _ in files]
    for _ in files:
        starts.put(texts)
    time.sleep(plan.start_margin_s)
    begun, idle_before = time.perf_counter(), _idle_seconds()
    ended = [results.get(timeout=(plan.ends_s or 0) + _STARTS_SECONDS) for _ in files]
    seconds, idle_seconds = time.perf_counter() - begun, _idle_seconds() - idle_before
    ended.sort(key=lambda each: each[0].planned.lane)
    for result, _ in ended:
        if result.refused is not None:
            raise ProcessError(result.refused)
    return TaskRun(
        results=[result for result, _ in ended],
        cpu_seconds=[cpu for _, cpu in ended],
        seconds=seconds,
        idle_seconds=idle_seconds,
    )


def _idle_seconds() -> float:
    """Return the time that all cores have been idle since the machine's start.

    Source: proc(5), ``/proc/stat``: the fields ``idle`` and ``iowait`` of the first line.
    """
    with Path("/proc/stat").open() as lines:
        fields = lines.readline().split()
    return (int(fields[4]) + int(fields[5])) / os.sysconf("SC_CLK_TCK")


def _run_task(
    plan: LoadPlan,
    planned: LaneDigest,
    file: Path,
    arrivals: Queue[str],
    starts: Queue[list[str]],
    results: Queue[tuple[LaneResult, float]],
) -> None:
    def gather(text: str) -> list[str]:
        arrivals.put(text)
        return starts.get()

    with file.open("rb") as written:
        rounds = range(1) if plan.is_open else repeat(None)
        frames = chain.from_iterable(read_frames(written) for _ in rounds)
        before = time.process_time()
        result = drive(plan, planned, frames, gather)
        results.put((result, time.process_time() - before))


@contextmanager
def trivial_target() -> Iterator[tuple[str, int]]:
    """Yield the address and the process ID of a target that allows every question."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        host, port = listener.getsockname()
        process = _SPAWN.Process(target=_serve, args=(listener,), daemon=True)
        process.start()
    try:
        assert process.pid is not None
        yield f"{host}:{port}", process.pid
    finally:
        process.terminate()
        process.join()


def _serve(listener: socket.socket) -> None:
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            connected = key.fileobj
            assert isinstance(connected, socket.socket)
            if connected is listener:
                accepted, _ = listener.accept()
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                selector.register(accepted, selectors.EVENT_READ, Frames())
            elif data := connected.recv(_RECEIVE_BYTES):
                key.data.receive_data(data)
                connected.sendall(answer_frames(key.data))
            else:
                selector.unregister(connected)
                connected.close()


def answer_frames(received: Frames) -> bytes:
    """Return the answers to the complete frames: a hello, or a number and its questions."""
    answers = []
    while (data := received.next(_FRAME_BYTES_MAX)) is not None:
        try:
            number, questions = _decode(data)
        except msgspec.ValidationError:
            answers.append(encode_hello(ErrorCode.NONE, 7))
        else:
            head = memoryview(questions)[:3]
            count = head[0] & 15 if head[0] < _FIXARRAY_END else int.from_bytes(head[1:])
            answers.append(encode_answer(number, 0, 7, b"\1" * count))
    return b"".join(answers)
