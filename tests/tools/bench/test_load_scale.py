"""The model of a load on many tasks, and the processes that confirm it."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.protocol.decisions.stream import StreamClientConnection
from authorizerd.protocol.framing import Frames
from authorizerd.replay.load.lanes.tally import LaneResult, Second
from authorizerd.replay.load.plan.frames import LaneDigest, TimedQuestion, frames_of, write_frames
from authorizerd.replay.load.plan.questions import STREAM, stream_body
from authorizerd.replay.plans import LoadPlan
from tools.bench.load_model import (
    FIGURES,
    PAGE,
    DriverFigures,
    Measured,
    TaskFigures,
    format_figures,
    predict,
    replace_figures,
)
from tools.bench.load_scale import measure_driver
from tools.bench.load_tasks import answer_frames, run_tasks, trivial_target

NIL = b"\xc0"
TRIVIAL = TaskFigures(
    target="trivial", tasks=1, rate=None, served_per_s=400_000, p99_ms=1, send_lag_ms=0, skew_ms=0,
    task_us=2, target_us=1, cores=2,
)  # fmt: skip
DAEMON = msgspec.structs.replace(TRIVIAL, target="daemon", served_per_s=200_000, target_us=4)
DRIVER = DriverFigures(
    lanes=100, seconds=60, result_bytes=600 << 20, merge_s=1, memory_bytes=0, message_bytes=8000,
    message_s=0,
)  # fmt: skip
MEASURED = Measured(
    at="2026-11-23", cores=2, batch=64, question_bytes=50, answer_bytes=2, shuffle_bytes=60,
    tasks=[TRIVIAL, DAEMON], drivers=[DRIVER],
)  # fmt: skip


def test_page_has_the_recorded_figures() -> None:
    measured = msgspec.json.decode(FIGURES.read_bytes(), type=Measured)
    page = PAGE.read_text()
    assert replace_figures(page, measured) == page


@pytest.mark.parametrize(("tasks", "cores", "rate", "sent"), [
    (1, 8, None, 250_000),  # the target's thread takes 4 us for a question
    (2, 1, None, 1e6 / 6),  # a core has 6 us of work for each question
    (2, 1, 50_000, 100_000),  # what the tasks offer
])  # fmt: skip
def test_cores_threads_and_pace_limit_the_rate(
    tasks: int, cores: float, rate: float | None, sent: float
) -> None:
    run = msgspec.structs.replace(DAEMON, tasks=tasks, cores=cores, rate=rate)
    assert predict(DAEMON, run) == pytest.approx(sent)


def test_one_thread_limits_what_a_task_sends() -> None:
    assert predict(TRIVIAL, msgspec.structs.replace(TRIVIAL, cores=8)) == 500_000
    assert predict(TRIVIAL, msgspec.structs.replace(TRIVIAL, cores=8, tasks=2)) == 1_000_000


def test_projection_multiplies_what_one_task_does() -> None:
    several = msgspec.structs.replace(TRIVIAL, tasks=2)
    paced = msgspec.structs.replace(several, rate=5000.0)
    measured = msgspec.structs.replace(MEASURED, tasks=[TRIVIAL, DAEMON, several, paced])
    rows = format_figures(measured).splitlines()
    assert "| 100 | 50,000,000 | 20.0 | 0.80 | 200 | 100 |" in rows
    # 600 MiB in 60 s, and a limit of 1 GiB.
    assert "| 100 | 7.8 | 0.8 | 0.0 | not measured | 600.0 | 1.00 | 0 | 102 |" in rows


@given(
    st.lists(st.tuples(st.integers(0, 2**40), st.integers(1, 300)), max_size=5),
    st.integers(1, 50),
)
def test_trivial_target_answers_each_frame(frames: list[tuple[int, int]], size: int) -> None:
    sent = StreamClientConnection(1 << 20).hello(None)
    sent += b"".join(stream_body(number, [NIL] * count) for number, count in frames)
    client, received = StreamClientConnection(1 << 20), Frames()
    for begin in range(0, len(sent), size):
        received.receive_data(sent[begin : begin + size])
        client.receive_data(answer_frames(received))
    assert not received.bytes_held
    assert client.next_greeting() is not None
    for number, count in frames:
        answer = client.next_answer()
        assert answer is not None
        assert (answer.correlation_id, answer.decisions) == (number, b"\1" * count)


def test_lanes_are_processes_that_start_together(tmp_path: Path) -> None:
    file = tmp_path / "frames"
    timed = [TimedQuestion(number * 100, True, NIL) for number in range(500)]
    with file.open("wb") as written:
        digest = write_frames(0, frames_of(timed, STREAM, 64, 1000), written)
    with trivial_target() as (address, _):
        plan = LoadPlan(events="", out="", target=address, run_id="1", start_margin_s=0.2)
        lanes = [(msgspec.structs.replace(digest, lane=lane), file) for lane in range(2)]
        run = run_tasks(plan, lanes)
    assert [(each.planned.lane, each.answered) for each in run.results] == [(0, 500), (1, 500)]
    assert [each.mismatches for each in run.results] == [0, 0]
    assert run.results[0].start_s == run.results[1].start_s


def test_closed_loop_repeats_its_frames_until_the_end(tmp_path: Path) -> None:
    file = tmp_path / "frames"
    with file.open("wb") as written:
        digest = write_frames(0, frames_of([TimedQuestion(0, True, NIL)], STREAM, 1, 1), written)
    with trivial_target() as (address, _):
        plan = LoadPlan(
            events="", out="", target=address, run_id="1", mode="closed", duration_s=0.3,
            start_margin_s=0.1,
        )  # fmt: skip
        run = run_tasks(plan, [(digest, file)])
    assert run.results[0].answered > 1
    assert run.results[0].ended is None
    assert run.results[0].finished_ns >= 0.3e9
    assert run.seconds > 0.2


def test_driver_merges_every_result() -> None:
    digest = write_frames(0, [], BytesIO())
    second = Second(5, 5)
    second.latency.record(1000, 5)
    result = LaneResult(
        planned=digest, sent=5, answered=5, corrected=second.latency, timeline={0: second},
        finished_ns=10**9,
    )  # fmt: skip
    found = measure_driver(7, msgspec.msgpack.encode(result))
    assert (found.lanes, found.seconds) == (7, 1)
    assert found.result_bytes > 7 * 100
    assert found.message_bytes > 7 * 40


def test_lane_that_is_refused_ends_the_run(tmp_path: Path) -> None:
    from tools.bench.processes import ProcessError

    file = tmp_path / "frames"
    file.touch()
    plan = LoadPlan(events="", out="", target="127.0.0.1:1", run_id="1")
    with pytest.raises(ProcessError, match="Connection refused"):
        run_tasks(plan, [(LaneDigest(lane=0, digest=""), file)])
