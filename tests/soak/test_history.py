"""The judge of a soak: which answers the states in force explain."""

from __future__ import annotations

import math
from contextlib import nullcontext
from random import Random

import pytest

from authorizerd.acl.model import Acl
from tests.fleet.client import WrongAnswerError
from tests.fleet.journal import Answer
from tests.fleet.universe import DAEMON, HOT_MAX, is_hot, make_ballast
from tests.oracles.scan import decide
from tests.soak.history import STATES_MAX, History
from tests.support.acls import acl, question

ALICE, BOB = acl("User:alice", topic="t"), acl("User:bob", topic="t")
ASKED = (question("User:alice", topic="t"), question("User:bob", topic="t"))
WRONG = pytest.raises(WrongAnswerError)


def history() -> History:
    """Return no ACLs at 10, Alice's at 12, and both at 15; 12 is acknowledged."""
    made = History(frozenset(), 10)
    made.add(frozenset({ALICE}), 12)
    made.settle(12)
    made.add(frozenset({ALICE, BOB}), 15)
    return made


def answer(floor: float, offset: int | None, *decisions: bool) -> Answer:
    return Answer(
        surface="tests", connection=1, questions=ASKED, decisions=decisions, sent=floor,
        offset=offset,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("floor", "offset", "decisions", "is_right"),
    [
        # The answer names its offset: one state.
        (10, 10, (False, False), True),
        (10, 11, (False, False), True),
        (10, 12, (True, False), True),
        (10, 14, (True, False), True),
        (10, 15, (True, True), True),
        (10, 12, (False, False), False),
        (10, 12, (True, True), False),
        (10, 11, (True, False), False),
        # It is older than what was acknowledged before the request, or newer than anything.
        (12, 11, (False, False), False),
        (12, 16, (True, True), False),
        # It names none: the states since the request.
        (10, None, (False, False), True),
        (12, None, (True, False), True),
        (12, None, (True, True), True),
        (12, None, (False, False), False),
        # No state explains both decisions.
        (10, None, (False, True), False),
        (12, 12, (True,), False),
        (9, None, (True, False), False),
    ],
)
def test_decisions_are_those_of_one_state_in_force(
    floor: int, offset: int | None, decisions: tuple[bool, ...], is_right: bool
) -> None:
    with nullcontext() if is_right else WRONG:
        history().take(answer(floor, offset, *decisions))


def test_withdrawn_state_explains_nothing() -> None:
    refused = history()
    refused.withdraw()
    with WRONG:
        refused.take(answer(12, None, True, True))
    assert refused.newest.first == 12


def test_answers_of_one_process_never_go_back() -> None:
    """Workers may differ until a change is acknowledged."""
    for is_one_process in (True, False):
        made = History(frozenset(), 10, is_one_process=is_one_process)
        made.add(frozenset({ALICE}), 12, is_committed=True)
        assert (made.floor, made.promised) == (10, 12)
        made.take(answer(10, 12, True, False))
        assert made.floor == (12 if is_one_process else 10)


def follower_of_brokers() -> History:
    """Return no ACLs at 10, and Alice's from an offset above it that only the daemon knows."""
    made = History(frozenset(), 10, newest_offset=lambda: math.inf)
    made.add(frozenset({ALICE}), 11, math.inf)
    return made


@pytest.mark.parametrize(
    ("told", "is_right"),
    [
        ([(11, False), (12, True), (12, True)], True),
        ([(12, True), (11, False), (13, True)], True),
        ([(10, True)], False),
        # Each offset means one state, and a higher one no older state.
        ([(12, True), (12, False)], False),
        ([(12, False), (12, True)], False),
        ([(12, True), (13, False)], False),
        ([(12, False), (11, True)], False),
        # What comes after all is in force.
        ([(12, True), (None, False)], False),
        ([(12, False), (None, False), (None, True)], True),
    ],
)
def test_answers_find_out_which_states_the_daemons_own_offsets_mean(
    told: list[tuple[int | None, bool]], is_right: bool
) -> None:
    made = follower_of_brokers()
    with nullcontext() if is_right else WRONG:
        for offset, decision in told:
            floor = 12 if offset is None else 10
            made.take(answer(floor, offset, decision, False))


def test_settled_state_is_in_force_from_its_offset_on() -> None:
    made = follower_of_brokers()
    made.take(answer(10, 12, False, False))
    with pytest.raises(AssertionError, match="offset 12 has shown an older state"):
        made.settle(12)
    made.settle(20)
    made.take(answer(10, 15, False, False))
    with WRONG:
        made.take(answer(10, 20, False, False))


def test_old_states_are_forgotten() -> None:
    made = History(frozenset(), 0)
    for offset in range(1, STATES_MAX + 10):
        made.add(frozenset(), offset)
    assert made.oldest.last == 10
    with WRONG:
        made.states(9, 9)


def test_number_of_changing_acls_stays_the_same() -> None:
    random, acls, sizes = Random(3), frozenset[Acl](), []
    for _ in range(3000):
        added, removed = DAEMON.draw_change(random, acls)
        assert bool(added) is not bool(removed)
        assert acls.isdisjoint(added)
        assert acls.issuperset(removed)
        acls = (acls | {*added}) - {*removed}
        sizes.append(len(acls))
    assert min(sizes[500:]) > HOT_MAX / 2
    assert max(sizes) < HOT_MAX * 2
    assert all(map(is_hot, acls))
    assert not any(map(is_hot, make_ballast(100)))


def test_questions_are_allowed_and_denied() -> None:
    """Both answers must be likely, or the comparison would be worth little."""
    random, acls, allowed = Random(4), frozenset[Acl](), 0
    for _ in range(1000):
        added, removed = DAEMON.draw_change(random, acls)
        acls = (acls | {*added}) - {*removed}
        allowed += decide(acls, allow_everyone=False, question=DAEMON.draw_question(random))[0]
    assert 100 < allowed < 900
