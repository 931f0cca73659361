"""Run a lane on a virtual target to its end."""

from __future__ import annotations

from collections.abc import Sequence

from authorizerd.replay.load.lanes.lane import Lane, LaneRules
from authorizerd.replay.load.lanes.surfaces import StreamSurface
from authorizerd.replay.load.lanes.tally import LaneResult, Tally
from authorizerd.replay.load.plan.frames import Frame, LaneDigest, TimedQuestion, frames_of
from authorizerd.replay.load.plan.questions import STREAM, RecordedQuestion, stream_question
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
    tally = Tally(LaneDigest(lane=0, digest=""), STREAM, warm_up_ns, listed_max)
    rules = LaneRules(is_open=is_open, depth=depth, end_ns=end_ns, drop_after_ns=drop_after_ns)
    Lane(iter(frames), StreamSurface(None), target, rules, tally).run()
    return tally.result(start_s=0.0, start_skew_ms=0.0)
