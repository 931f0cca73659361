"""The parsers of what the audit shows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.model import ResourceType
from authorizerd.config.audit_values import RATE_MIN, principal_patterns, resource_patterns, share
from authorizerd.config.errors import InvalidValueError


@pytest.mark.parametrize(
    ("text", "principal", "matches"),
    [
        ("", "User:a", False),
        ("*", "Group:x", True),
        ("User:a", "User:a", True),
        ("User:a", "User:ab", False),
        ("User:a*", "User:ab", True),
        ("User:*", "Group:b", False),
        (" User:b ; User:CN=a,O=b:c ;", "User:CN=a,O=b:c", True),
        ("User:b;*", "Group:x", True),
    ],
)
def test_principals_are_exact_or_begin_so(text: str, principal: str, matches: bool) -> None:
    """Semicolons separate, since names hold commas and colons."""
    assert principal_patterns(text).match(principal) is matches


@pytest.mark.parametrize("text", ["alice", "User:", ":alice", "User*", "User:a;bob"])
def test_an_entry_that_no_principal_could_match_is_refused(text: str) -> None:
    """It would silently leave nothing out."""
    with pytest.raises(InvalidValueError, match=r"expected Type:name, Type:prefix\* or \*"):
        principal_patterns(text)


@pytest.mark.parametrize(
    ("text", "resource_type", "name", "matches"),
    [
        ("", ResourceType.TOPIC, "a", False),
        ("*", ResourceType.CLUSTER, "kafka-cluster", True),
        ("TOPIC:a", ResourceType.TOPIC, "a", True),
        ("TOPIC:a", ResourceType.GROUP, "a", False),
        ("TOPIC:a*;GROUP:b", ResourceType.TOPIC, "ab", True),
        ("TOPIC:a*;GROUP:b", ResourceType.GROUP, "b", True),
        ("TOPIC:a*;GROUP:b", ResourceType.GROUP, "bc", False),
        ("TOPIC:*", ResourceType.TOPIC, "x", True),
        ("USER:User:a;USER:b", ResourceType.USER, "User:a", True),
    ],
)
def test_resources_are_of_a_type_and_named_so(
    text: str, resource_type: ResourceType, name: str, matches: bool
) -> None:
    """A type's patterns say nothing of another's names."""
    assert resource_patterns(text).match(resource_type, name) is matches


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a", "expected TYPE:name"),
        ("TOPIC:", "expected TYPE:name"),
        ("TOPIK:a", "invalid resource type 'TOPIK': expected one of TOPIC, "),
        ("topic:a", "invalid resource type 'topic': expected one of TOPIC, "),
        (":a", "invalid resource type '': expected one of TOPIC, "),
    ],
)
def test_an_entry_that_no_resource_could_match_is_refused(text: str, reason: str) -> None:
    """As for principals."""
    with pytest.raises(InvalidValueError, match=reason):
        resource_patterns(text)


@pytest.mark.parametrize(
    ("text", "rate"),
    [("1", 1.0), ("1.0", 1.0), ("1/1", 1.0), ("0.01", 0.01), ("1/3", 1 / 3), ("0.000001", 1e-6)],
)
def test_a_share_is_a_decimal_or_one_in_so_many(text: str, rate: float) -> None:
    """Both say the same."""
    assert share(text) == rate


@pytest.mark.parametrize("text", ["0", "0.0", "1/0", "2/3", "1.1", "-0.1", "1e-3", "", "0.0000001"])
def test_a_share_of_nothing_or_of_more_than_all_is_refused(text: str) -> None:
    """Of none of them nobody could tell how many there were."""
    with pytest.raises(InvalidValueError, match="expected a share from"):
        share(text)


@given(st.text("01./e-", max_size=8))
def test_whatever_is_taken_for_a_share_is_one(text: str) -> None:
    """In bounds, or refused."""
    try:
        rate = share(text)
    except InvalidValueError:
        return
    assert RATE_MIN <= rate <= 1
