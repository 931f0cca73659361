"""The independent evaluator: which answers the states in force explain."""

from __future__ import annotations

from contextlib import nullcontext
from random import Random

import pytest

from authorizerd.acl.model import Acl
from tests.fleet.client import WrongAnswerError
from tests.fleet.universe import DAEMON, HOT_MAX, is_hot, make_ballast
from tests.oracles.scan import decide
from tests.soak.history import STATES_MAX, History
from tests.support.acls import acl, question

ALICE, BOB = acl("User:alice", topic="t"), acl("User:bob", topic="t")
ASKED = [question("User:alice", topic="t"), question("User:bob", topic="t")]
WRONG = pytest.raises(WrongAnswerError)


def history() -> History:
    """Return no ACLs at 10, Alice's at 12, and both at 15; 12 is acknowledged."""
    made = History(frozenset(), 10)
    made.add(frozenset({ALICE}), 12)
    made.raise_floor(12)
    made.add(frozenset({ALICE, BOB}), 15)
    return made


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
        history().check_decisions(floor, offset, ASKED, decisions)


def test_withdrawn_state_explains_nothing() -> None:
    refused = history()
    refused.withdraw()
    with WRONG:
        refused.check_decisions(12, None, ASKED, (True, True))
    assert refused.newest.offset == 12


def test_answers_of_one_process_never_go_back() -> None:
    """Workers may differ until a change is acknowledged."""
    for is_one_process in (True, False):
        made = History(frozenset(), 10, is_one_process=is_one_process)
        made.add(frozenset({ALICE}), 12, is_committed=True)
        assert (made.floor, made.promised) == (10, 12)
        made.check_decisions(10, 12, ASKED, (True, False))
        assert made.floor == (12 if is_one_process else 10)


def test_old_states_are_forgotten() -> None:
    made = History(frozenset(), 0)
    for offset in range(1, STATES_MAX + 10):
        made.add(frozenset(), offset)
    assert made.oldest.offset == 10
    with WRONG:
        made.state_at(9)


def test_number_of_changing_acls_stays_the_same() -> None:
    random, acls, sizes = Random(3), frozenset[Acl](), []
    for _ in range(3000):
        added, removed = DAEMON.draw_change(random, acls)
        assert not (added and removed)
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
