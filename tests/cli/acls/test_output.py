"""The output of ``authorizerd acls`` that the recorded stories do not cover."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.model import Acl, Operation, PermissionType
from authorizerd.cli.acls.runner import format_by_principal
from authorizerd.management.formats.listing import format_acls
from tests.support.strategies import acls


def test_principals_are_listed_in_the_given_order_once_each() -> None:
    headings = "ACLs for principal `User:b`\nACLs for principal `User:a`\n"
    assert format_by_principal([], ("User:b", "User:a", "User:b")) == headings


@given(st.lists(acls(unknown_codes=True), max_size=8))
def test_every_acl_is_listed_once_in_a_fixed_order(found: list[Acl]) -> None:
    text = format_acls(found)
    assert format_acls([*reversed(found), *found]) == text
    lines = text.split("\n")
    assert {line for line in lines if line.startswith("\t")} == {
        f"\t(principal={acl.principal}, host={acl.host}, "
        f"operation={Operation.read(acl.operation).name}, "
        f"permissionType={PermissionType.read(acl.permission_type).name})"
        for acl in found
    }
    headings = [line for line in lines if line.startswith("Current ")]
    assert len(headings) == len(set(headings))


def test_unknown_codes_are_listed_as_one() -> None:
    one, two = (Acl(code, "t", code, "User:a", "*", code, code) for code in (90, 91))
    assert format_acls([one, two]) == (
        "Current ACLs for resource `ResourcePattern(resourceType=UNKNOWN, name=t, "
        "patternType=UNKNOWN)`:\n"
        "\t(principal=User:a, host=*, operation=UNKNOWN, permissionType=UNKNOWN)\n\n"
    )


def test_empty_list_prints_nothing() -> None:
    assert format_acls([]) == ""
