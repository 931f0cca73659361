"""The sets of the benchmark never change."""

import hashlib
from collections import Counter

import pytest

from authorizerd.acl.index.builder import build
from authorizerd.acl.model import PatternType
from authorizerd.acl.releases import RULES_4_4
from authorizerd.acl.snapshot import with_rules
from tools.bench.servers import collect_answers
from tools.bench.sets import GREATEST, MANY_QUESTIONS, QUESTIONS, AclSet, crowd, kind, ranges, wide


@pytest.mark.parametrize(
    ("acl_set", "digest"),
    [
        (kind(), "c98bcccfa76bdfef"),
        (wide(1000, 2), "ff9a21b90d4ac608"),
        (ranges(10), "86043943c50a6bd0"),
        (crowd(2000, 1000), "409d78512edf3cf3"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_sets_are_the_same_in_every_version(acl_set: AclSet, digest: str) -> None:
    """Figures of two versions are comparable only if the sets are identical."""
    lines = [*map(repr, acl_set.acls()), *map(repr, acl_set.questions())]
    assert hashlib.blake2b("\n".join(lines).encode(), digest_size=8).hexdigest() == digest


@pytest.mark.parametrize(
    "acl_set", [kind(), wide(1000, 2), ranges(10), crowd(2000)], ids=lambda acl_set: acl_set.name
)
def test_set_can_be_iterated_repeatedly_and_has_no_duplicates(acl_set: AclSet) -> None:
    added = list(acl_set.added())
    assert added == list(acl_set.added())
    assert list(acl_set.questions()) == list(acl_set.questions())
    assert len({each.id for each in added}) == len({each.acl for each in added}) == len(added)


def test_wide_set_has_a_wildcard_rule_for_every_ten_resources() -> None:
    acls = list(wide(1000, 2).acls())
    assert len(acls) == 1000 * 2 + 100
    assert sum(acl.resource_name == "*" for acl in acls) == 100


def test_seven_of_ten_questions_of_kind_are_allowed() -> None:
    acl_set = kind()
    assert collect_answers(build(acl_set.added()), list(acl_set.questions())) == "AAAAAAADDD" * 100


@pytest.mark.parametrize(("each", "allowed"), [(0, 1000), (10, 630), (1000, 630)])
def test_questions_about_ranges_are_distinct_and_most_are_allowed(each: int, allowed: int) -> None:
    acl_set = ranges(each)
    questions = list(acl_set.questions())
    assert len({question.resource_name for question in questions}) == QUESTIONS
    given = collect_answers(with_rules(build(acl_set.added()), RULES_4_4), questions)
    assert given.count("A") == allowed


def test_many_questions_are_distinct_and_begin_with_those_of_kind() -> None:
    many = list(kind(MANY_QUESTIONS).questions())
    assert len(set(many)) == len(many) == MANY_QUESTIONS
    assert many[:QUESTIONS] == list(kind().questions())
    # Also without the host, most are: another principal or operation asks about the same topic.
    without_host = {(each.principal, each.operation, each.resource_name) for each in many}
    assert len(without_host) > MANY_QUESTIONS / 2


def test_crowd_has_one_principal_with_a_fifth_and_as_many_patterns_for_a_name_at_every_size() -> (
    None
):
    """Else, the peer's scan would grow because of the set, and not because of the size."""
    counts = Counter(acl.principal for acl in crowd(20_000).acls())
    assert (counts.pop(GREATEST), counts.pop("User:*"), set(counts.values())) == (4000, 400, {39})
    for acls in (20_000, 100_000):
        prefixed = (acl for acl in crowd(acls).acls() if acl.pattern_type == PatternType.PREFIXED)
        assert set(Counter(acl.resource_name for acl in prefixed).values()) == {200}


def test_questions_about_a_crowd_are_distinct_and_answered_as_described() -> None:
    questions = list(crowd(2000).questions())
    assert len(set(questions)) == len(questions) == MANY_QUESTIONS
    assert collect_answers(build(crowd(2000).added()), questions[:1000]) == "AADDAAAAAA" * 100
