from __future__ import annotations

import pytest

from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.judging.report import Count
from authorizerd.replay.usage.errors import UsageError
from authorizerd.replay.usage.proving import Changed, Comparison, prove
from authorizerd.replay.usage.suggestions import LeftOut, Suggestions
from tests.ops.replay.acl_sets import acl_set_of, topic_read

DENIED = Changed(Count(events=3, tuples=1), Count(), "t\n", "User:a")
REASON = "3 events would be newly denied, such as those of User:a on t\\n"
A, B = topic_read("a"), topic_read("b")


def test_breaking_suggestion_is_left_out_and_the_rest_proven() -> None:
    seen: list[AclSet] = []

    def compare(other: AclSet) -> Comparison:
        seen.append(other)
        return Comparison(DENIED, {A: DENIED}) if len(seen) == 1 else Comparison(None, {})

    suggestions, proof = prove(acl_set_of([A, B]), Suggestions((A, B)), compare, tuples=9)
    assert suggestions == Suggestions((B,), (), (LeftOut(A, REASON),))
    assert [[item.acl for item in one.acls] for one in seen] == [[], [A]]
    assert proof is not None
    assert (proof.digest, proof.acls, proof.tuples) == (seen[1].digest, 1, 9)


def test_without_suggestions_nothing_is_compared() -> None:
    def compare(_: AclSet) -> Comparison:
        return Comparison(DENIED, {A: DENIED})

    def never(_: AclSet) -> Comparison:
        raise AssertionError

    assert prove(acl_set_of([A]), Suggestions(), never, tuples=1) == (Suggestions(), None)
    left = Suggestions(left_out=(LeftOut(A, REASON),))
    assert prove(acl_set_of([A]), Suggestions((A,)), compare, tuples=1) == (left, None)


def test_unexplained_difference_is_an_error() -> None:
    opened = Changed(Count(), Count(events=2, tuples=1), "t", "User:b")
    runs: list[AclSet] = []

    def compare(other: AclSet) -> Comparison:
        runs.append(other)
        return Comparison(opened, {})

    with pytest.raises(UsageError, match="2 events would be newly allowed, such as those of"):
        prove(acl_set_of([A]), Suggestions((A,)), compare, tuples=1)
    assert len(runs) == 3
