"""Files of groups: every error names its place."""

import pytest

from authorizerd.management.groups.errors import GroupsError
from authorizerd.management.groups.file import LdapSettings, Place, read_groups_file

LDAP = """\
set: payments
ldap:
  url: ldaps://directory.example.com:636
  bind_dn: cn=x
  password_file: /pw
  groups: {base: ou=groups, filter: (cn=*)}
  people: {base: ou=people, filter: (uid=*)}
  principal: User:CN={cn},O=x
"""


def test_groups_are_read() -> None:
    file = read_groups_file(
        "set: a.b-1_x\nmay_be_empty: [none]\n"
        "groups:\n  all: ['User:a', 'Group:none', 'User:CN=A B,O=x']\n  none: []\n"
    )
    assert (file.set, set(file.may_be_empty), file.ldap) == ("a.b-1_x", {"none"}, None)
    assert file.groups == {"all": ("User:a", "Group:none", "User:CN=A B,O=x"), "none": ()}


def test_directory_is_read() -> None:
    ldap = read_groups_file(LDAP).ldap
    assert ldap == LdapSettings(
        url="ldaps://directory.example.com:636", bind_dn="cn=x", password_file="/pw",
        groups=Place("ou=groups", "(cn=*)"), people=Place("ou=people", "(uid=*)"),
        principal="User:CN={cn},O=x",
    )  # fmt: skip
    assert ldap.principal_parts == ("User:CN=", "cn", ",O=x")


@pytest.mark.parametrize(("text", "place", "reason"), [
    ("set: x\ngroups:\n  a: ['User:1']\n  a: ['User:2']\n", "line 4", "duplicate key 'a'"),
    ("set: x\ngroups:\n  a: [alice]\n", "line 3, column 7: groups.a[0]", "expected Type:name"),
    ("set: x\ngroups:\n  a: ['User:1', 'User:1']\n", "groups.a[1]", "repeats User:1"),
    ("set: x\ngroups:\n  a: ['User:*']\n", "groups.a[0]", "cannot contain everyone"),
    ("set: x\ngroups:\n  a: [7]\n", "groups", "Expected `str`, got `int`"),
    ("set: x\ngroups:\n  ' a': ['User:1']\n", "groups", "without blanks"),
    ("set: x\ngroups:\n  a: []\n", "group a", "it has no members"),
    ("set: x\ngroups:\n  a: ['Group:b']\n", "group a", "no group has the name 'b'"),
    ("set: x\ngroups:\n  a: ['Group:a']\n", "group a", "contain each other: a > a"),
    ("set: x\n", "document", "expected either groups or ldap"),
    (f"{LDAP}groups: {{}}\n", "document", "expected either groups or ldap"),
    ("groups: {}\n", "document", "missing required field `set`"),
    ("set: a b\ngroups: {}\n", "set", "matching regex"),
    ("set: x\ngruops: {}\n", "document", "unknown field `gruops`"),
    ("- set\n", "document", "Expected `object`"),
    (LDAP.replace("ldaps:", "ldap:"), "ldap.url", "matching regex"),
    (LDAP.replace("example.com", "example.com/dc=x"), "ldap.url", "matching regex"),
    (LDAP.replace("{cn}", "x"), "ldap.principal", "matching regex"),
    (LDAP.replace("{cn}", "{cn}{sn}"), "ldap.principal", "matching regex"),
    (LDAP.replace("User:", "Group:"), "ldap.principal", "not of a group"),
    (LDAP.replace("User:", "user:"), "ldap.principal", "expected User:"),
    (LDAP.replace("  people", "  #"), "ldap", "expected people, who have cn, or principal with"),
    (LDAP.replace("{cn}", "{member}"), "ldap", "expected people, who have member"),
    (LDAP.replace("  bind_dn: cn=x\n", ""), "ldap", "expected either bind_dn, or certificate"),
    (f"{LDAP}  certificate: x\n", "ldap", "expected either bind_dn, or certificate"),
    (LDAP.replace("  password_file: /pw\n", ""), "ldap", "bind_dn with password_file"),
    (f"{LDAP}  page_size: 0\n", "ldap.page_size", "Expected `int` >= 1"),
    (f"{LDAP}  pagesize: 1\n", "ldap", "unknown field `pagesize`"),
    (LDAP.replace("filter: (uid=*)", "x: y"), "ldap.people", "unknown field `x`"),
])  # fmt: skip
def test_error_names_its_place(text: str, place: str, reason: str) -> None:
    with pytest.raises(GroupsError) as caught:
        read_groups_file(text)
    assert place in caught.value.place
    assert reason in caught.value.reason
