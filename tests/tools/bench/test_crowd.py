"""The set of the scale measurement is the same in every version, in the stated proportions."""

from __future__ import annotations

from collections import Counter

import pytest

from authorizerd.acl.index.builder import build
from authorizerd.acl.model import Acl, PatternType, PermissionType, ResourceType
from tools.bench.crowd import GREATEST, crowd
from tools.bench.decisions import collect_answers
from tools.bench.sets import digest_lines

ACLS = 20_000
PRINCIPALS = ACLS // 50


def test_set_is_the_same_in_every_version() -> None:
    """Figures of two versions are comparable only if the sets are identical."""
    assert (
        digest_lines(crowd(2000).acl_lines())
        == "b6d84f29f576092005791d2983be713c9a304dbc4dd5a38416598b11948866b9"
    )
    assert (
        digest_lines(crowd(2000, 1000).question_lines())
        == "80ee46f1339a81b66c189918bf5e308a2e764fa2445049bb83ea99ed05a05bee"
    )


@pytest.mark.parametrize("acls", [2000, ACLS])
def test_set_has_exactly_its_size_and_no_duplicates(acls: int) -> None:
    added = list(crowd(acls).added())
    assert len({each.id for each in added}) == len({each.acl for each in added}) == len(added)
    assert len(added) == acls


def test_one_principal_has_a_fifth_and_every_other_one_as_many() -> None:
    acls = list(crowd(ACLS).acls())
    counts = Counter(acl.principal for acl in acls)
    assert counts.pop(GREATEST) == ACLS // 5
    assert counts.pop("User:*") == PRINCIPALS
    assert len(counts) == PRINCIPALS
    assert set(counts.values()) == {39}


def test_every_denial_has_another_host() -> None:
    denied = [acl for acl in crowd(ACLS).acls() if acl.permission_type == PermissionType.DENY]
    assert len({acl.host for acl in denied}) == len(denied) == PRINCIPALS
    assert all(acl.pattern_type == PatternType.PREFIXED for acl in denied)


def test_name_has_as_many_patterns_at_every_size() -> None:
    """Else, the peer's scan would grow because of the set, and not because of the size."""

    def count_of_domains(acls: int) -> set[int]:
        prefixed = Counter(map(_name, filter(_is_prefixed, crowd(acls).acls())))
        return set(prefixed.values())

    assert count_of_domains(ACLS) == count_of_domains(5 * ACLS) == {200}


def _is_prefixed(acl: Acl) -> bool:
    return acl.pattern_type == PatternType.PREFIXED


def _name(acl: Acl) -> str:
    assert acl.resource_type == ResourceType.TOPIC
    return acl.resource_name


@pytest.mark.parametrize("acls", [2000, ACLS])
def test_questions_are_distinct_and_answered_as_described(acls: int) -> None:
    questions = list(crowd(acls).questions())
    assert len(set(questions)) == len(questions) == 50_000
    given = collect_answers(build(crowd(acls).added()), questions[:1000])
    assert given == "AADDAAAAAA" * 100
