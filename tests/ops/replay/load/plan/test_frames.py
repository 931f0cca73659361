from __future__ import annotations

from io import BytesIO

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.replay.load.plan.frames import (
    Frame,
    LaneDigest,
    TimedQuestion,
    frames_of,
    plan_hash,
    read_frames,
    write_frames,
)
from authorizerd.replay.load.plan.questions import (
    ENCODE_QUESTION,
    STREAM,
    RecordedQuestion,
    question_at,
)

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
        (one, other),
        (other, one),
        (one,),
        (one, Frame(1, 6, b"b", b"\0")),
        (one, Frame(1, 5, b"c", b"\0")),
        (one, Frame(1, 5, b"b", b"\1")),
    ]
    assert len({hash_of(*frames) for frames in plans}) == len(plans)
    assert hash_of(one, other) == hash_of(one, other)


def test_hash_does_not_depend_on_the_order_of_lanes() -> None:
    first = digest_of(Frame(0, 0, b"a", b"\1"))
    lanes = [first, digest_of(lane=1)]
    assert plan_hash(lanes) == plan_hash(lanes[::-1])
    assert plan_hash(lanes) != plan_hash([digest_of(), msgspec.structs.replace(first, lane=1)])
