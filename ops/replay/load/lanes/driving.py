"""Run one lane: pack its frames, agree with the other lanes on a start, send, and report.

**Invariant:** either all lanes send or none does. A lane that cannot send says so at the barrier,
where the other lanes wait.
"""

from __future__ import annotations

import gc
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import msgspec

from authorizerd.replay.errors import LoadError
from authorizerd.replay.load.lanes.connection import SocketLine, connect
from authorizerd.replay.load.lanes.lane import Lane
from authorizerd.replay.load.lanes.tally import LaneResult, Tally
from authorizerd.replay.load.plan.frames import (
    Frame,
    LaneDigest,
    pack_lane,
    read_frames,
    temporary_file,
)
from authorizerd.replay.load.plan.pacing import Schedule
from authorizerd.replay.plans import LoadPlan

if TYPE_CHECKING:
    import pyarrow as pa


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


def run_lane(
    plan: LoadPlan,
    schedule: Schedule,
    lane: int,
    batches: Iterator[pa.RecordBatch],
    gather: Callable[[str], list[str]],
    *,
    refused: str | None = None,
) -> LaneResult:
    """Pack the frames of one lane, send them unless it is a dry run, and return the result.

    Args:
        plan: the plan, with the paths that its TLS files have on this machine.
        batches: the lane's questions; all are read, even if the frames cannot be written.
        gather: sends its argument to every lane, waits for all lanes, and returns their texts.
        refused: why this lane must not send; None if it may.
    """
    planned = LaneDigest(lane, "")
    with temporary_file() as file:
        try:
            planned = pack_lane(plan, schedule, lane, batches, file)
        except OSError as error:
            refused = f"its frames cannot be written: {error}"
        deque(batches, maxlen=0)
        if plan.dry_run:
            return LaneResult(planned=planned, refused=refused)
        return drive(plan, planned, read_frames(file), gather, refused=refused)


def drive(
    plan: LoadPlan,
    planned: LaneDigest,
    frames: Iterator[Frame],
    gather: Callable[[str], list[str]],
    *,
    refused: str | None = None,
) -> LaneResult:
    """Send the frames of one lane, from the agreed start on, and return the result."""
    with ExitStack() as stack:
        line = None
        if refused is None:
            try:
                connected, surface = connect(plan)
                line = SocketLine(plan, connected)
                stack.callback(line.close)
            except LoadError as error:
                refused = str(error)
        arrived = Arrival(planned.lane, time.time(), planned.questions, refused)
        texts = gather(msgspec.json.encode(arrived).decode())
        arrivals = [msgspec.json.decode(text, type=Arrival) for text in texts]
        try:
            start_s = agree_on_start(arrivals, plan.start_margin_s or 0.0)
        except LoadError as error:
            return LaneResult(planned=planned, refused=str(error))
        assert line is not None, "a lane without a connection is refused above"
        tally = Tally(planned, plan)
        # The agreed start is a wall-clock time; the lane itself must not follow clock changes.
        line.start_at(time.monotonic_ns() + int((start_s - time.time()) * 1e9))
        with _no_collection():
            line.pause(max(0, -line.now_ns()))
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
