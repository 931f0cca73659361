"""Run one lane: connect, agree with the other lanes on a start, send, and report.

**Invariant:** either all lanes send or none does. A lane that cannot send says so at the barrier,
where the other lanes wait.
"""

from __future__ import annotations

import gc
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from authorizerd.replay.load.errors import LoadError
from authorizerd.replay.load.lanes.connection import SocketLine, connect
from authorizerd.replay.load.lanes.lane import Lane
from authorizerd.replay.load.lanes.surfaces import Surface
from authorizerd.replay.load.lanes.tally import LaneResult, Tally
from authorizerd.replay.load.plan.frames import Frame, LaneDigest
from authorizerd.replay.plans import LoadPlan


class Arrival(msgspec.Struct, frozen=True):
    """A lane's message at the barrier; ``refused`` says why it is not ready.

    ``at_s`` is when it arrived, in seconds since 1970 by its own clock. ``questions`` is the number
    that it will send.
    """

    lane: int
    at_s: float
    questions: int = 0
    refused: str | None = None


def agree_on_start(arrivals: list[Arrival], margin_s: float) -> float:
    """Return the time at which all lanes start; each lane computes the same time.

    Raises:
        LoadError: a lane is not ready, or no lane has a question.
    """
    for arrival in sorted(arrivals, key=lambda each: each.lane):
        if arrival.refused is not None:
            raise LoadError(f"lane {arrival.lane}: {arrival.refused}")
    if not any(arrival.questions for arrival in arrivals):
        raise LoadError("no question is due within the duration")
    return max(arrival.at_s for arrival in arrivals) + margin_s


def drive(
    plan: LoadPlan,
    planned: LaneDigest,
    frames: Iterator[Frame],
    gather: Callable[[str], list[str]],
    *,
    refused: str | None = None,
) -> LaneResult:
    """Send the frames of one lane, from the agreed start on, and return the result.

    Args:
        plan: the plan, with the paths that its TLS files have on this machine.
        planned: the digest of the frames.
        gather: sends its argument to every lane, waits for all lanes, and returns their texts.
        refused: why this lane must not send; None if it may.
    """
    connection = None
    try:
        connection = connect(plan) if refused is None else None
    except LoadError as error:
        refused = str(error)
    arrived = Arrival(planned.lane, time.time(), planned.questions, refused)
    try:
        texts = gather(msgspec.json.encode(arrived).decode())
        arrivals = [msgspec.json.decode(text, type=Arrival) for text in texts]
        start_s = agree_on_start(arrivals, plan.start_margin_s)
        assert connection is not None, "a lane without a connection is refused above"
        return _run_lane(plan, planned, frames, *connection, start_s)
    except LoadError as error:
        return LaneResult(planned=planned, refused=str(error))
    finally:
        if connection is not None:
            connection[0].close()


def _run_lane(
    plan: LoadPlan,
    planned: LaneDigest,
    frames: Iterator[Frame],
    connected: socket.socket,
    surface: Surface,
    start_s: float,
) -> LaneResult:
    tally = Tally(planned, plan)
    # The agreed start is a wall-clock time; the lane itself must not follow clock changes.
    line = SocketLine(connected, time.monotonic_ns() + int((start_s - time.time()) * 1e9))
    with _no_collection():
        time.sleep(max(0, -line.now_ns()) / 1e9)
        tally.result.start_skew_ms = line.now_ns() / 1e6
        Lane(frames, surface, line, plan, tally).run()
    tally.result.start_s = start_s
    return tally.result


@contextmanager
def _no_collection() -> Iterator[None]:
    """Turn the garbage collector off: its pauses would be attributed to the target."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()
