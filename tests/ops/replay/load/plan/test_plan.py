"""The plan of a load: its questions, their order and pace, and the frames that carry them."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from random import Random

import msgspec
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from authorizerd.protocol.decisions.stream import (
    OPERATION_OF,
    RESOURCE_TYPE_OF,
    Ask,
    StreamServerConnection,
)
from authorizerd.replay.errors import LoadError
from authorizerd.replay.load.plan import ordering
from authorizerd.replay.load.plan.frames import (
    Frame,
    LaneDigest,
    TimedQuestion,
    frames_of,
    plan_hash,
    read_frames,
    repeat_batches,
    write_frames,
)
from authorizerd.replay.load.plan.ordering import BY_TIME, Spread, number_questions, sort_batches
from authorizerd.replay.load.plan.pacing import Schedule, make_schedule, parse_profile
from authorizerd.replay.load.surfaces import (
    HTTP,
    STREAM,
    HttpSurface,
    RecordedQuestion,
    StreamSurface,
    reason_not_asked,
)
from authorizerd.replay.plans import LoadPlan
from tests.support.fixture_types import MonkeyPatch

NIL = b"\xc0"
LINGER_US = 1000
PLAN = LoadPlan(events="", out="", target="h:1", run_id="1")


@given(st.lists(st.tuples(st.integers(0, 1500), st.booleans()), max_size=60), st.integers(1, 8))
def test_frames_contain_every_question_in_order(gaps: list[tuple[int, bool]], batch: int) -> None:
    due_us, questions = 0, []
    for gap, allowed in gaps:
        due_us += gap
        questions.append(TimedQuestion(due_us, allowed, NIL))
    frames = list(frames_of(questions, STREAM, batch, LINGER_US))
    assert b"".join(frame.recorded for frame in frames) == bytes(each.allowed for each in questions)
    assert [frame.number for frame in frames] == list(range(len(frames)))
    position = 0
    for frame in frames:
        held = questions[position : position + len(frame.recorded)]
        position += len(held)
        assert 1 <= len(held) <= batch
        assert frame.due_us == held[0].due_us
        assert held[-1].due_us - held[0].due_us < LINGER_US
        after = questions[position : position + 1]
        assert not after or len(held) == batch or after[0].due_us - held[0].due_us >= LINGER_US


def test_frame_stays_below_the_daemons_limit() -> None:
    long = StreamSurface.encode_question(
        RecordedQuestion("User:a", None, "READ", "TOPIC", "x" * 32000)
    )
    frames = list(frames_of([TimedQuestion(0, True, long)] * 7, STREAM, 64, LINGER_US))
    assert [len(frame.recorded) for frame in frames] == [3, 3, 1]
    assert max(len(frame.body) for frame in frames) < 131072
    assert StreamSurface.question_at(frames[0].body, 2)[0] == "User:a"


@given(st.lists(st.tuples(st.integers(0, 2**45), st.binary(), st.binary()), max_size=5))
def test_frames_are_read_as_they_were_written(written: list[tuple[int, bytes, bytes]]) -> None:
    frames = [Frame(number, *fields) for number, fields in enumerate(written)]
    file = BytesIO()
    digest = write_frames(3, frames, file)
    assert list(read_frames(file)) == frames
    assert (digest.lane, digest.frames) == (3, len(frames))
    assert digest.questions == sum(len(recorded) for _, _, recorded in written)
    assert digest.last_due_us == (frames[-1].due_us if frames else 0)


def test_hash_depends_on_frames_and_lanes_but_not_on_the_order_of_lanes() -> None:
    def digest_of(*frames: Frame, lane: int = 0) -> LaneDigest:
        return write_frames(lane, frames, BytesIO())

    one, other = Frame(0, 0, b"a", b"\1"), Frame(1, 5, b"b", b"\0")
    lanes = [
        (one, other), (other, one), (one,), (one, Frame(1, 6, b"b", b"\0")),
        (one, Frame(1, 5, b"c", b"\0")), (one, Frame(1, 5, b"b", b"\1")),
    ]  # fmt: skip
    plans = [[digest_of(*frames)] for frames in lanes]
    plans += [[digest_of(one), digest_of(lane=1)], [digest_of(), digest_of(one, lane=1)]]
    assert len({plan_hash(digests) for digests in plans}) == len(plans)
    assert [plan_hash(digests[::-1]) for digests in plans] == [*map(plan_hash, plans)]


@given(
    st.lists(st.tuples(st.integers(0, 500), st.booleans()), min_size=1),
    st.none() | st.integers(1, 100),
    st.integers(1, 4),
)
def test_questions_have_the_positions_of_one_pass(
    gaps: list[tuple[int, bool]], cap_ms: int | None, batch: int
) -> None:
    """Events that are not asked have no position; their gaps count."""
    expected: list[tuple[int | None, int | None]] = []
    times, at_ms, last_ms, number, elapsed_ms = [], 1000, None, 0, 0
    for gap, is_asked in gaps:
        at_ms += gap
        times.append(at_ms)
        if is_asked:
            passed = 0 if last_ms is None else at_ms - last_ms
            elapsed_ms += passed if cap_ms is None else min(passed, cap_ms)
            last_ms = at_ms
        expected.append((number, elapsed_ms) if is_asked else (None, None))
        number += is_asked
    reasons = [None if is_asked else "why" for _, is_asked in gaps]
    encoded = pa.table(
        {"at_ms": pa.array(times, pa.int64()), "reason": pa.array(reasons, pa.string())}
    )
    cap_s = None if cap_ms is None else cap_ms / 1000
    numbered = [*number_questions(cap_s, encoded.to_batches(batch))]
    rows = pa.Table.from_batches(numbered).select(["number", "elapsed_ms"]).to_pylist()
    assert [(row["number"], row["elapsed_ms"]) for row in rows] == expected


@given(
    st.lists(st.tuples(*[st.integers(0, 3)] * 3)), st.integers(1, 4), st.sampled_from([1, 10**9])
)
def test_events_are_sorted_in_any_parts(
    rows: list[tuple[int, int, int]], batch: int, sort_bytes: int
) -> None:
    columns = [pa.array(column, pa.int64()) for column in zip(*rows, strict=True)]
    table = pa.table(columns or [pa.array([], pa.int64())] * 3, names=BY_TIME)
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setattr(ordering, "SORT_BYTES", sort_bytes)
        patch.setattr(ordering, "BATCH_ROWS", 1)
        found = [*sort_batches(table.to_batches(batch), stack)]
    assert [tuple(row.values()) for each in found for row in each.to_pylist()] == sorted(rows)


def test_next_round_begins_a_mean_gap_after_the_last_event() -> None:
    assert make_schedule(PLAN, 3, 200, {}).period_ms == 300


RATES = st.just(0.0) | st.floats(0.001, 1e5)
SECONDS = st.floats(0.01, 1e3)


def paced(profile: str, rate: float | None = None, events: int = 10) -> Schedule:
    return Schedule(events=events, period_ms=100.0, segments=parse_profile(profile, rate))


def test_recorded_times_are_divided_by_the_speed() -> None:
    pacing = Schedule(events=3, period_ms=60.0, speed=2.0)
    assert [pacing.due_us(0, 0), pacing.due_us(2, 40)] == [0, 20_000]
    assert [pacing.due_us(3, 0), pacing.due_us(8, 40)] == [30_000, 80_000]


@pytest.mark.parametrize(("pacing", "numbers", "due_us"), [
    (paced("constant", 1000), (0, 1, 2000), [0, 1000, 2_000_000]),
    # From 0 to 100 per second in 10 s: 500 questions, the first half of them in 7.07 s.
    (paced("ramp:0:100:10"), (0, 250, 500, 600), [0, 7_071_068, 10_000_000, 11_000_000]),
    # The last step continues.
    (paced("step:10:1,0:2,20:1"), (0, 9, 10, 30, 50),
     [0, 900_000, 3_000_000, 4_000_000, 5_000_000]),
    (paced("ramp:100:0:10"), (0, 499, 500), [0, 9_552_786, None]),
])  # fmt: skip
def test_questions_are_due_by_the_profile(
    pacing: Schedule, numbers: tuple[int, ...], due_us: list[int | None]
) -> None:
    assert [pacing.due_us(number, 77) for number in numbers] == due_us


@given(RATES, RATES, SECONDS, st.integers(0, 10**6))
def test_due_times_never_decrease(start: float, end: float, seconds: float, number: int) -> None:
    assume(start + end > 0)
    pacing = paced(f"ramp:{start}:{end}:{seconds}")
    this, following = pacing.due_us(number, 0), pacing.due_us(number + 1, 0)
    assert following is None or (this is not None and 0 <= this <= following)


@given(st.sampled_from(["constant", "ramp:1:50:3", "step:5:1,9:4"]), st.floats(0.1, 60))
def test_rounds_cover_the_duration(profile: str, seconds: float) -> None:
    pacing = paced(profile, 30.0 if profile == "constant" else None)
    rounds = pacing.rounds_for(seconds)
    after = pacing.due_us(rounds * pacing.events, 0)
    assert after is not None
    assert after >= seconds * 1e6 - 1
    if rounds > 1:
        before = pacing.due_us((rounds - 1) * pacing.events, 0)
        assert before is not None
        assert before <= seconds * 1e6 + 1


@pytest.mark.parametrize(("profile", "rate", "complaint"), [
    ("linear", None, "expected constant, ramp"),
    ("constant:5", None, "expected constant, ramp"),
    ("ramp:1:2", None, "expected 3 numbers, found '1:2'"),
    ("ramp:1:x:3", None, "expected numbers, found"),
    ("ramp:0:0:3", None, "expected a rate above 0"),
    ("ramp:-1:5:3", None, "expected rates of 0, or"),
    ("ramp:nan:5:3", None, "expected rates of 0, or"),
    ("ramp:1:inf:3", None, "expected rates of 0, or"),
    ("ramp:1:2:0", None, "expected times above 0"),
    ("step:", None, "expected numbers, found"),
    ("step:1:2,3", None, "expected 2 numbers, found '3'"),
    ("constant", 1e-9, "expected rates of 0, or"),
    ("step:0:5,0:6", None, "expected a rate above 0"),
    ("ramp:1:2:3", 5.0, "remove --rate"),
])  # fmt: skip
def test_malformed_profile_is_named(profile: str, rate: float | None, complaint: str) -> None:
    with pytest.raises(LoadError, match="profile") as raised:
        parse_profile(profile, rate)
    assert complaint in str(raised.value)


MIB = 1024 * 1024


def batch_of(values: list[bytes]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"question": pa.array(values, pa.binary())})


def test_memory_does_not_grow_with_the_record(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/nowhere")
    before = pa.total_allocated_bytes()
    allocated: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(64):
            batch = batch_of([bytes([number]) * MIB])
            allocated.append(pa.total_allocated_bytes() - before)
            yield batch

    rows = 0
    for _, batch in repeat_batches(batches(), 3):
        rows += len(batch)
        allocated.append(pa.total_allocated_bytes() - before)
    assert rows == 3 * 64
    assert MIB <= max(allocated) < 8 * MIB
    assert not list(tmp_path.iterdir())


def test_unusable_folder_is_named(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "missing"))
    with pytest.raises(FileNotFoundError, match="missing"):
        list(repeat_batches([batch_of([b"a"])], 2))


QUESTIONS = st.builds(
    RecordedQuestion,
    principal=st.text(max_size=5).map("User:".__add__),
    host=st.sampled_from([None, "10.0.0.1", "::1"]),
    operation=st.sampled_from([name for name in OPERATION_OF if isinstance(name, str)]),
    resource_type=st.sampled_from([name for name in RESOURCE_TYPE_OF if isinstance(name, str)]),
    resource_name=st.text(min_size=1, max_size=5),
)
GOOD = RecordedQuestion("User:a", "10.0.0.1", "READ", "TOPIC", "orders")


@given(st.lists(QUESTIONS, min_size=1, max_size=5), st.integers(0, 2**40))
def test_daemon_reads_a_stream_body(questions: list[RecordedQuestion], number: int) -> None:
    body = StreamSurface.encode_body(
        number, [StreamSurface.encode_question(each) for each in questions]
    )
    connection = StreamServerConnection(1 << 20)
    connection.receive_data(b"\0\0\0\x08\x92\xa5hello\x01" + body)
    connection.next_frame()
    asked = connection.next_frame()
    assert isinstance(asked, Ask)
    assert asked.correlation_id == number
    codes = [(OPERATION_OF[q.operation], RESOURCE_TYPE_OF[q.resource_type]) for q in questions]
    assert asked.questions == [
        (q.principal, q.host, *code, q.resource_name)
        for q, code in zip(questions, codes, strict=True)
    ]
    assert StreamSurface.question_at(body, len(questions) - 1) == list(asked.questions[-1])


@given(st.lists(QUESTIONS, min_size=1, max_size=5))
def test_http_body_contains_the_questions(questions: list[RecordedQuestion]) -> None:
    body = HttpSurface.encode_body(0, [HttpSurface.encode_question(each) for each in questions])
    assert len(msgspec.json.decode(body)["evaluations"]) == len(questions)
    last = questions[-1]
    assert HttpSurface.question_at(body, len(questions) - 1) == [*msgspec.structs.astuple(last)][:5]


@pytest.mark.parametrize(("changed", "reason"), [
    ({}, None),
    ({"host": None}, None),
    ({"host": "localhost"}, "host is not an IP address"),
    ({"principal": "alice"}, "principal without a type"),
    ({"resource_name": ""}, "empty resource name"),
    ({"resource_name": None}, "no principal or no resource name"),
    ({"pattern_type": "PREFIXED"}, "pattern type is not LITERAL"),
])  # fmt: skip
@pytest.mark.parametrize("surface", [STREAM, HTTP])
def test_unusable_question_has_a_reason(
    changed: dict[str, str | None], reason: str | None, surface: str
) -> None:
    assert reason_not_asked(msgspec.structs.replace(GOOD, **changed), surface) == reason


def test_http_accepts_only_users() -> None:
    group = msgspec.structs.replace(GOOD, principal="Group:a")
    assert reason_not_asked(group, STREAM) is None
    assert reason_not_asked(group, HTTP) == "principal type is not User (HTTP)"


@given(
    st.dictionaries(st.text("abc", min_size=1, max_size=3), st.integers(1, 1000), min_size=1),
    st.integers(1, 5),
    st.integers(1, 5),
    st.randoms(),
)
def test_principals_are_spread_evenly_in_any_order(
    counts: dict[str, int], lanes: int, placed_max: int, random: Random
) -> None:
    """Beyond the most frequent ones, lanes do not depend on the counts at all."""
    shuffled = random.sample([*counts.items()], len(counts))
    spread = Spread(shuffled, lanes)
    loads = Counter(dict.fromkeys(range(lanes), 0))
    for name, count in counts.items():
        loads[spread.lane_of(name)] += count
    assert len(loads) == lanes
    assert max(loads.values()) <= sum(counts.values()) / lanes + max(counts.values())
    frequent = sorted(counts, key=lambda name: (-counts[name], name))[:placed_max]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ordering, "PLACED_MAX", placed_max)
        few = Spread(shuffled, lanes)
        same = Spread([(name, counts[name]) for name in frequent], lanes)
    assert [few.lane_of(name) for name in counts] == [same.lane_of(name) for name in counts]
