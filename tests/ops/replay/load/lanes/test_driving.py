from __future__ import annotations

import gc
import threading
from collections.abc import Callable

import msgspec
import pytest

from authorizerd.replay.load.errors import LoadError
from authorizerd.replay.load.lanes.driving import Arrival, agree_on_start, drive
from authorizerd.replay.load.lanes.tally import LaneResult
from authorizerd.replay.load.plan.frames import LaneDigest
from authorizerd.replay.plans import LoadPlan
from tests.ops.replay.load.lanes.runs import frames_each
from tests.ops.replay.load.lanes.target_server import TargetServer

LANE = LaneDigest(lane=4, digest="", frames=200, questions=200)


def plan_for(address: str, token: str | None = None) -> LoadPlan:
    return LoadPlan(events="", out="", target=address, run_id="1", token=token, start_margin_s=0.05)


def alone(text: str) -> list[str]:
    return [text]


def test_start_is_a_margin_after_the_last_arrival() -> None:
    arrivals = [Arrival(0, 10.0), Arrival(1, 12.5, 9), Arrival(2, 11.0)]
    assert agree_on_start(arrivals, 3.0) == 15.5


def test_one_refusal_prevents_the_start() -> None:
    with pytest.raises(LoadError, match="lane 1: no target"):
        agree_on_start([Arrival(0, 10.0, 9), Arrival(1, 12.5, 9, "no target")], 3.0)


def test_lanes_without_questions_do_not_start() -> None:
    with pytest.raises(LoadError, match="no question is due"):
        agree_on_start([Arrival(0, 10.0), Arrival(1, 12.5)], 3.0)


def test_lane_sends_all_frames_over_a_socket() -> None:
    with TargetServer() as server:
        result = drive(plan_for(server.address), LANE, iter(frames_each(100, 200)), alone)
        assert server.frames == 200
    assert (result.planned, result.sent, result.answered, result.ended) == (LANE, 200, 200, None)
    assert result.start_skew_ms >= 0
    assert result.refused is None
    assert gc.isenabled()


def test_second_attempt_sends_nothing() -> None:
    gathered: list[str] = []

    def gather(text: str) -> list[str]:
        gathered.append(text)
        return [text]

    with TargetServer() as server:
        result = drive(
            plan_for(server.address), LANE, iter(frames_each(0, 5)), gather, refused="attempt 2"
        )
        assert (server.hellos, server.frames) == (0, 0)
    assert result.refused == "lane 4: attempt 2"
    assert msgspec.json.decode(gathered[0], type=Arrival).refused == "attempt 2"


def test_no_lane_sends_if_one_is_rejected() -> None:
    texts: dict[int, str] = {}
    barrier = threading.Barrier(2, timeout=30)
    results: dict[int, LaneResult] = {}

    def gather_as(lane: int) -> Callable[[str], list[str]]:
        def gather(text: str) -> list[str]:
            texts[lane] = text
            barrier.wait()
            return list(texts.values())

        return gather

    with TargetServer(token="id.secret") as server:

        def run(lane: int, token: str | None) -> None:
            frames = iter(frames_each(0, 5))
            plan = plan_for(server.address, token)
            planned = msgspec.structs.replace(LANE, lane=lane)
            results[lane] = drive(plan, planned, frames, gather_as(lane))

        threads = [
            threading.Thread(target=run, args=(0, "id.secret")),
            threading.Thread(target=run, args=(1, None)),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (server.hellos, server.frames) == (2, 0)
    reason = (
        f"lane 1: target {server.address}: it rejects the token (58 SASL_AUTHENTICATION_FAILED)"
    )
    assert [results[lane].refused for lane in (0, 1)] == [reason, reason]
