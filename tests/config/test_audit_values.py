"""The parsers of audit settings."""

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
def test_principal_patterns_match_by_name_or_prefix(
    text: str, principal: str, matches: bool
) -> None:
    """Semicolons separate entries, since names contain commas and colons."""
    assert principal_patterns(text).match(principal) is matches


@pytest.mark.parametrize("text", ["alice", "User:", ":alice", "User*", "User:a;bob"])
def test_entry_that_matches_no_principal_is_rejected(text: str) -> None:
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
def test_resource_patterns_match_within_their_type(
    text: str, resource_type: ResourceType, name: str, matches: bool
) -> None:
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
def test_entry_that_matches_no_resource_is_rejected(text: str, reason: str) -> None:
    with pytest.raises(InvalidValueError, match=reason):
        resource_patterns(text)


@pytest.mark.parametrize(
    ("text", "rate"),
    [("1", 1.0), ("1.0", 1.0), ("1/1", 1.0), ("0.01", 0.01), ("1/3", 1 / 3), ("0.000001", 1e-6)],
)
def test_share_is_a_decimal_or_a_fraction(text: str, rate: float) -> None:
    assert share(text) == rate


@pytest.mark.parametrize("text", ["0", "0.0", "1/0", "2/3", "1.1", "-0.1", "1e-3", "", "0.0000001"])
def test_share_out_of_range_is_rejected(text: str) -> None:
    """With a share of 0, nobody could compute the total."""
    with pytest.raises(InvalidValueError, match="expected a share from"):
        share(text)


@given(st.text("01./e-", max_size=8))
def test_any_accepted_share_is_in_range(text: str) -> None:
    try:
        rate = share(text)
    except InvalidValueError:
        return
    assert RATE_MIN <= rate <= 1
