import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.index.pattern_set import PatternSet
from authorizerd.acl.model import Acl, Question
from tests.oracles.scan import meets
from tests.support.acls import acl
from tests.support.strategies import acls, resource_names

Pattern = tuple[str, bool]
"""A name, and whether it is a prefix."""
COVERED = [
    (("a", False), ("a", True), True),
    (("a", False), ("*", False), True),
    (("*a", False), ("*", False), False),
    (("*a", True), ("*", False), False),
    (("*a", True), ("*", True), True),
    (("ab", True), ("*", False), True),
    (("ab", True), ("a", True), True),
    (("a", True), ("ab", True), False),
    (("a", True), ("a", False), False),
    (("*", False), ("*", True), False),
    (("*", False), ("", True), True),
    (("", True), ("*", False), False),
    (("*", False), ("a", True), False),
]


def topic(name: str, is_prefix: bool) -> Acl:
    return acl(topic=name, pattern="PREFIXED" if is_prefix else "LITERAL")


@pytest.mark.parametrize(("pattern", "other", "is_covered"), COVERED)
def test_pattern_covers_those_whose_names_it_all_matches(
    pattern: Pattern, other: Pattern, is_covered: bool
) -> None:
    assert PatternSet([topic(*other)]).covers(topic(*pattern)) is is_covered
    assert not PatternSet([acl(group="a")]).covers(topic(*pattern))


@given(st.lists(acls(), max_size=6), acls(), st.lists(resource_names))
def test_names_of_a_covered_pattern_match_another_one(
    some: list[Acl], covered: Acl, names: list[str]
) -> None:
    if PatternSet(some).covers(covered):
        for name in (*names, covered.resource_name, f"{covered.resource_name}a"):
            question = Question("User:z", None, 3, covered.resource_type, name)
            assert not meets(covered, question) or any(meets(each, question) for each in some)
