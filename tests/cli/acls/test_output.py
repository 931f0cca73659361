"""What ``authorizerd acls`` prints, beside what the stories show."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.model import Acl, Operation, PermissionType
from authorizerd.cli.acls.output import listed, listed_by_principal
from tests.support.strategies import acls

# Put into a HashSet of KafkaPrincipals by OpenJDK 17, with Kafka 4.3.1.
PRINCIPALS = (
    *("Group:n0", "User:n7919", "User:n31676", "Group:n71271", "User:n126704", "User:n197975"),
    *("Group:n285084", "User:n388031", "User:n506816", "Group:n641439", "User:n791900"),
    *("User:n958199", "Group:n1140336", "User:n1338311", "User:n1552124", "Group:n1781775"),
    *("User:n2027264", "User:n2288591", "Group:n2565756", "User:n2858759", "User:zoé"),
    *("User:日本", "User:😀", ":", "User:", ":x", "User:a:b", "User:CN=alice,O=x y"),
)
ORDERS = (
    (2, 3, 5, 0, 4, 11, 1, 10, 7, 8, 6, 9),
    (2, 5, 0, 4, 11, 1, 10, 12, 3, 7, 8, 6, 9),
    (
        *(2, 23, 27, 4, 11, 10, 17, 12, 16, 13, 15, 24, 7, 8),
        *(26, 6, 9, 5, 0, 1, 22, 19, 20, 21, 3, 14, 18, 25),
    ),
)


@pytest.mark.parametrize("order", ORDERS)
def test_headings_stand_in_the_order_of_a_java_set(order: tuple[int, ...]) -> None:
    """Which depends on how many there are; one that is named twice has one heading."""
    given_principals = PRINCIPALS[: len(order)]
    expected = "".join(f"ACLs for principal `{PRINCIPALS[index]}`\n" for index in order)
    assert listed_by_principal([], given_principals) == expected
    assert listed_by_principal([], (*given_principals, PRINCIPALS[0])) == expected


@given(st.lists(acls(unknown_codes=True), max_size=8))
def test_every_acl_is_listed_once_whatever_order_they_come_in(found: list[Acl]) -> None:
    """Under the heading of its pattern; what it says of codes from the future is UNKNOWN."""
    text = listed(found)
    assert listed([*reversed(found), *found]) == text
    lines = text.split("\n")
    assert {line for line in lines if line.startswith("\t")} == {
        f"\t(principal={acl.principal}, host={acl.host}, "
        f"operation={Operation.read(acl.operation).name}, "
        f"permissionType={PermissionType.read(acl.permission_type).name})"
        for acl in found
    }
    headings = [line for line in lines if line.startswith("Current ")]
    assert len(headings) == len(set(headings))


def test_codes_from_the_future_are_one() -> None:
    """Kafka's client knows only UNKNOWN, so two that differ in them look the same to it."""
    one, two = (Acl(code, "t", code, "User:a", "*", code, code) for code in (90, 91))
    assert listed([one, two]) == (
        "Current ACLs for resource `ResourcePattern(resourceType=UNKNOWN, name=t, "
        "patternType=UNKNOWN)`:\n"
        "\t(principal=User:a, host=*, operation=UNKNOWN, permissionType=UNKNOWN)\n\n"
    )


def test_nothing_is_listed_as_nothing() -> None:
    """No heading, no line."""
    assert listed([]) == ""
