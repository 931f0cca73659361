"""Run a lane on a virtual target to its end."""

from __future__ import annotations

from collections.abc import Sequence

from authorizerd.protocol.decisions.stream import encode_hello
from authorizerd.protocol.kafka.error_codes import ErrorCode
from authorizerd.replay.load.lanes.lane import Lane
from authorizerd.replay.load.lanes.surfaces import StreamSurface
from authorizerd.replay.load.lanes.tally import LaneResult, Tally
from authorizerd.replay.load.plan.frames import Frame, LaneDigest, TimedQuestion, frames_of
from authorizerd.replay.load.plan.questions import STREAM, RecordedQuestion, stream_question
from authorizerd.replay.plans import LoadPlan
from tests.ops.replay.load.lanes.virtual_target import VirtualTarget

QUESTION = stream_question(RecordedQuestion("User:a", None, "READ", "TOPIC", "orders"))


def frames_each(every_us: int, count: int, *, batch: int = 1) -> list[Frame]:
    """Return ``count`` frames of ``batch`` allowed questions, one frame every ``every_us``."""
    timed = [
        TimedQuestion(number // batch * every_us, True, QUESTION) for number in range(count * batch)
    ]
    return list(frames_of(timed, STREAM, batch, 1))


def run_lane(
    target: VirtualTarget,
    frames: Sequence[Frame],
    *,
    depth: int = 8,
    is_open: bool = True,
    warm_up_ns: int = 0,
    end_ns: int | None = None,
    drop_after_ns: int = 10_000_000_000,
    listed_max: int = 10,
) -> LaneResult:
    plan = LoadPlan(
        events="", out="", target="h:1", run_id="1", mode="open" if is_open else "closed",
        depth=depth, warm_up_s=warm_up_ns / 1e9, mismatches_listed_max=listed_max,
        duration_s=None if end_ns is None else (end_ns - warm_up_ns) / 1e9,
    )  # fmt: skip
    tally = Tally(LaneDigest(lane=0, digest=""), plan)
    surface = StreamSurface(None)
    surface.receive_data(encode_hello(ErrorCode.NONE, 7))
    Lane(iter(frames), surface, target, plan, tally, drop_after_ns=drop_after_ns).run()
    return tally.result
