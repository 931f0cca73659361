from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from authorizerd.replay.load.plan.frames import Frame, LaneHash, TimedQuestion, frames_of, plan_hash
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


def hash_of(*frames: Frame) -> str:
    lane = LaneHash()
    for frame in frames:
        lane.add(frame)
    return plan_hash([lane.digest(0)])


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
    first, second = LaneHash(), LaneHash()
    first.add(Frame(0, 0, b"a", b"\1"))
    lanes = [first.digest(0), second.digest(1)]
    assert plan_hash(lanes) == plan_hash(lanes[::-1])
    assert plan_hash(lanes) != plan_hash([second.digest(0), first.digest(1)])
