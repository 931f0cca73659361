"""Lanes of ``replay load`` as processes of this machine, without Spark, and a trivial target.

Each process runs the code of a Spark task: connect, meet the others, send on the agreed start.
Pipes to this process take the place of Spark's barrier. The trivial target looks only at the head
of each frame and allows every question, so the lanes are the limit.
"""

from __future__ import annotations

import os
import selectors
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, count
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.protocol.decisions.stream import encode_answer, encode_hello
from authorizerd.protocol.framing import SIZE_BYTES
from authorizerd.protocol.kafka.error_codes import ErrorCode
from authorizerd.replay.load.lanes.driving import drive
from authorizerd.replay.load.lanes.tally import LaneResult
from authorizerd.replay.load.plan.frames import LaneDigest, read_frames
from authorizerd.replay.plans import LoadPlan
from ops.bench.processes import ProcessError

_SPAWN: Final = get_context("spawn")
_RECEIVE_BYTES: Final = 1 << 20
_STARTS_SECONDS: Final = 120.0
_NUMBER_SIZES: Final = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}
"""The sizes of msgpack's unsigned integers; smaller ones are their own kind."""
_FIXINT_END: Final = 0x80
_FIXARRAY_END: Final = 0xA0


@dataclass(frozen=True, kw_only=True)
class TaskRun:
    """What the lanes of one run returned; ``cpu_seconds`` is each lane's own CPU time.

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
        ProcessError: a lane was refused, or did not answer.
    """
    pipes: list[Connection] = []
    processes = []
    try:
        for digest, file in files:
            ours, theirs = _SPAWN.Pipe()
            process = _SPAWN.Process(target=_run_task, args=(theirs, plan, digest, str(file)))
            process.start()
            theirs.close()
            pipes.append(ours)
            processes.append(process)
        arrivals = [_receive(pipe, _STARTS_SECONDS) for pipe in pipes]
        for pipe in pipes:
            pipe.send(arrivals)
        time.sleep(plan.start_margin_s)
        begun, idle_before = time.perf_counter(), _idle_seconds()
        ended = [_receive(pipe, (plan.ends_s or 0) + _STARTS_SECONDS) for pipe in pipes]
        seconds, idle_seconds = time.perf_counter() - begun, _idle_seconds() - idle_before
    finally:
        for process in processes:
            process.join(timeout=5)
            if process.is_alive():
                process.kill()
    results = [msgspec.msgpack.decode(result, type=LaneResult) for result, _ in ended]
    for result in results:
        if result.refused is not None:
            raise ProcessError(result.refused)
    return TaskRun(
        results=results,
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


def _receive(pipe: Connection, seconds: float):  # type: ignore[no-untyped-def] # noqa: ANN202
    if not pipe.poll(seconds):
        raise ProcessError(f"a lane said nothing for {seconds:.0f} s")
    return pipe.recv()


def _run_task(pipe: Connection, plan: LoadPlan, planned: LaneDigest, file: str) -> None:
    def gather(text: str) -> list[str]:
        pipe.send(text)
        texts: list[str] = pipe.recv()
        return texts

    with Path(file).open("rb") as written:
        rounds = range(1) if plan.is_open else count()
        frames = chain.from_iterable(read_frames(written) for _ in rounds)
        before = time.process_time()
        result = drive(plan, planned, frames, gather)
        pipe.send((msgspec.msgpack.encode(result), time.process_time() - before))


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
    received: dict[socket.socket, bytearray] = {}
    while True:
        for key, _ in selector.select():
            connected = key.fileobj
            assert isinstance(connected, socket.socket)
            if connected is listener:
                accepted, _ = listener.accept()
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                received[accepted] = bytearray()
                selector.register(accepted, selectors.EVENT_READ)
                continue
            data = connected.recv(_RECEIVE_BYTES)
            if data:
                received[connected] += data
                connected.sendall(answer_frames(received[connected]))
            else:
                selector.unregister(connected)
                del received[connected]
                connected.close()


def answer_frames(received: bytearray) -> bytes:
    """Return the answers to the complete frames in ``received``, and remove them from it."""
    answers, at = [], 0
    while len(received) >= at + SIZE_BYTES:
        body = at + SIZE_BYTES
        end = body + int.from_bytes(received[at:body])
        if len(received) < end:
            break
        answers.append(_answer(received, body))
        at = end
    del received[:at]
    return b"".join(answers)


def _answer(data: bytearray, body: int) -> bytes:
    """Return the answer to a hello, or to a frame: a pair of its number and its questions."""
    kind, at = data[body + 1], body + 2
    number = kind
    if kind >= _FIXINT_END:
        size = _NUMBER_SIZES.get(kind)
        if size is None:  # a text: the hello
            return encode_hello(ErrorCode.NONE, 7)
        number = int.from_bytes(data[at : at + size])
        at += size
    kind = data[at]
    count = kind & 15 if kind < _FIXARRAY_END else int.from_bytes(data[at + 1 : at + 3])
    return encode_answer(number, 0, 7, b"\1" * count)
