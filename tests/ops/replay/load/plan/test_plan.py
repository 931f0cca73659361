"""The plan of a load: its questions, their order and pace, and the frames that carry them."""

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

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
from authorizerd.replay.load.errors import LoadError
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
from authorizerd.replay.load.plan.ordering import Stretch, Walk, lay_out
from authorizerd.replay.load.plan.pacing import Pacing, parse_profile
from authorizerd.replay.load.plan.questions import (
    ENCODE_BODY,
    ENCODE_QUESTION,
    HTTP,
    STREAM,
    RecordedQuestion,
    question_at,
    reason_not_asked,
)
from authorizerd.replay.load.plan.spread import spread
from tests.support.fixture_types import MonkeyPatch

NIL = b"\xc0"
LINGER_US = 1000


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
    long = ENCODE_QUESTION[STREAM](RecordedQuestion("User:a", None, "READ", "TOPIC", "x" * 32000))
    frames = list(frames_of([TimedQuestion(0, True, long)] * 7, STREAM, 64, LINGER_US))
    assert [len(frame.recorded) for frame in frames] == [3, 3, 1]
    assert max(len(frame.body) for frame in frames) < 131072
    assert question_at(STREAM, frames[0].body, 2)[0] == "User:a"


def digest_of(*frames: Frame, lane: int = 0) -> LaneDigest:
    return write_frames(lane, frames, BytesIO())


def hash_of(*frames: Frame) -> str:
    return plan_hash([digest_of(*frames)])


@given(st.lists(st.tuples(st.integers(0, 2**45), st.binary(), st.binary()), max_size=5))
def test_frames_are_read_as_they_were_written(written: list[tuple[int, bytes, bytes]]) -> None:
    frames = [Frame(number, *fields) for number, fields in enumerate(written)]
    file = BytesIO()
    digest = write_frames(3, frames, file)
    assert list(read_frames(file)) == frames
    assert (digest.lane, digest.frames) == (3, len(frames))
    assert digest.questions == sum(len(recorded) for _, _, recorded in written)
    assert digest.last_due_us == (frames[-1].due_us if frames else 0)


def test_every_change_changes_the_hash() -> None:
    one, other = Frame(0, 0, b"a", b"\1"), Frame(1, 5, b"b", b"\0")
    plans = [
        (one, other), (other, one), (one,), (one, Frame(1, 6, b"b", b"\0")),
        (one, Frame(1, 5, b"c", b"\0")), (one, Frame(1, 5, b"b", b"\1")),
    ]  # fmt: skip
    assert len({hash_of(*frames) for frames in plans}) == len(plans)
    assert hash_of(one, other) == hash_of(one, other)


def test_hash_does_not_depend_on_the_order_of_lanes() -> None:
    first = digest_of(Frame(0, 0, b"a", b"\1"))
    lanes = [first, digest_of(lane=1)]
    assert plan_hash(lanes) == plan_hash(lanes[::-1])
    assert plan_hash(lanes) != plan_hash([digest_of(), msgspec.structs.replace(first, lane=1)])


@given(
    st.lists(st.lists(st.integers(0, 500), max_size=6), max_size=5), st.none() | st.integers(1, 100)
)
def test_parts_give_the_positions_of_one_pass(gaps: list[list[int]], cap: int | None) -> None:
    parts: list[list[int]] = []
    expected: list[tuple[int, int]] = []
    at_ms, elapsed_ms = 1000, 0
    for part_gaps in gaps:
        parts.append([])
        for gap in part_gaps:
            if expected:
                at_ms += gap
                elapsed_ms += gap if cap is None else min(gap, cap)
            expected.append((len(expected), elapsed_ms))
            parts[-1].append(at_ms)
    positions = [list(walk(times, cap)) for times in parts]
    layout = lay_out(reversed(list(stretches_of(parts, positions))), cap)
    found = [
        (place.number + number, place.elapsed_ms + elapsed)
        for place in layout.places
        for number, elapsed in positions[place.part]
    ]
    assert found == expected
    assert layout.events == len(expected)
    assert layout.period_ms > elapsed_ms


def walk(times: list[int], cap: int | None) -> Iterator[tuple[int, int]]:
    """Yield the positions of a part's times, in batches of two, as Arrow does with larger ones."""
    walking = Walk(cap)
    for begin in range(0, len(times) + 1, 2):
        batch = walking.step(pa.array(times[begin : begin + 2], pa.int64()))
        yield from zip(*(column.to_pylist() for column in batch), strict=True)


def stretches_of(
    parts: list[list[int]], positions: list[list[tuple[int, int]]]
) -> Iterator[Stretch]:
    for part, (times, found) in enumerate(zip(parts, positions, strict=True)):
        if times:
            yield Stretch(part, len(times), times[0], times[-1], found[-1][1])


def test_next_round_begins_a_mean_gap_after_the_last_event() -> None:
    assert lay_out([Stretch(0, 3, 0, 200, 200)], None).period_ms == 300


RATES = st.just(0.0) | st.floats(0.001, 1e5)
SECONDS = st.floats(0.01, 1e3)


def paced(profile: str, rate: float | None = None, events: int = 10) -> Pacing:
    return Pacing(events=events, period_ms=100.0, segments=parse_profile(profile, rate))


def test_recorded_times_are_divided_by_the_speed() -> None:
    pacing = Pacing(events=3, period_ms=60.0, speed=2.0)
    assert [pacing.due_us(0, 0), pacing.due_us(2, 40)] == [0, 20_000]
    assert [pacing.due_us(3, 0), pacing.due_us(8, 40)] == [30_000, 80_000]


@pytest.mark.parametrize(("pacing", "numbers", "due_us"), [
    (paced("constant", 1000), (0, 1, 2000), [0, 1000, 2_000_000]),
    # From 0 to 100 per second in 10 s: 500 questions, the first half of them in 7.07 s.
    (paced("ramp:0:100:10"), (0, 250, 500, 600), [0, 7_071_068, 10_000_000, 11_000_000]),
    # The last step continues.
    (paced("step:10:1,0:2,20:1"), (0, 9, 10, 30, 50),
     [0, 900_000, 3_000_000, 4_000_000, 5_000_000]),
])  # fmt: skip
def test_questions_are_due_by_the_profile(
    pacing: Pacing, numbers: tuple[int, ...], due_us: list[int]
) -> None:
    assert [pacing.due_us(number, 77) for number in numbers] == due_us


def test_ramp_down_to_zero_ends() -> None:
    pacing = paced("ramp:100:0:10")
    assert pacing.due_us(499, 0) is not None
    assert pacing.due_us(500, 0) is None


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


@given(st.lists(st.lists(st.binary(max_size=4), max_size=3), max_size=4), st.integers(1, 4))
def test_every_round_yields_the_same_rows(parts: list[list[bytes]], rounds: int) -> None:
    repeated = repeat_batches(map(batch_of, parts), rounds)
    assert [(number, batch["question"].to_pylist()) for number, batch in repeated] == [
        (number, values) for number in range(rounds) for values in parts
    ]


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
    body = ENCODE_BODY[STREAM](number, [ENCODE_QUESTION[STREAM](each) for each in questions])
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
    assert question_at(STREAM, body, len(questions) - 1) == list(asked.questions[-1])


@given(st.lists(QUESTIONS, min_size=1, max_size=5))
def test_http_body_contains_the_questions(questions: list[RecordedQuestion]) -> None:
    body = ENCODE_BODY[HTTP](0, [ENCODE_QUESTION[HTTP](each) for each in questions])
    assert len(msgspec.json.decode(body)["evaluations"]) == len(questions)
    last = questions[-1]
    assert question_at(HTTP, body, len(questions) - 1) == [*msgspec.structs.astuple(last)][:5]


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
    st.randoms(),
)
def test_principal_has_one_lane_in_any_order(
    counts: dict[str, int], lanes: int, random: st.DataObject
) -> None:
    shuffled = list(counts.items())
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    placed = spread(counts.items(), lanes)
    assert spread(shuffled, lanes) == placed
    assert sorted(name for name, _ in placed) == sorted(counts)
    assert {lane for _, lane in placed} <= set(range(lanes))


@given(st.lists(st.integers(1, 1000), min_size=1), st.integers(1, 5))
def test_lanes_are_balanced(counts: list[int], lanes: int) -> None:
    named = {f"User:{number}": count for number, count in enumerate(counts)}
    loads = [0] * lanes
    for name, lane in spread(named.items(), lanes):
        loads[lane] += named[name]
    assert max(loads) <= sum(loads) / lanes + max(counts)
