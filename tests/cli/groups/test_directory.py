"""Groups from a real directory: whole answers only, and no entry becomes another's principal."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from authorizerd.cli.groups.reading import read_groups, read_membership
from authorizerd.management.groups.errors import GroupsError
from tests.support.sizes import size
from tests.support.slapd import PASSWORD, SUFFIX, entry, group, groups_file, person, running_slapd
from tests.support.sockets import accepting

GROUPS = f"ou=groups,{SUFFIX}"
POSIX = {
    "groups": f'{{base: "{GROUPS}", filter: (objectClass=posixGroup)}}',
    "people": "",
    "member": "memberUid",
    "principal": "User:{memberUid}",
}
PEOPLE = {
    "wildcard": "*", "typed": "User:*", "colon": "a:b", "blank": "a b", "comma": "a,ou=x",
    "wide": "\uff41lice", "escape": "a\\2Ab",
}  # fmt: skip
ENTRIES = (
    *map(person, ("alice", "bob", "carol", "Dave-1@x_y")),
    *(person(uid, f"cn={name},ou=people") for name, uid in PEOPLE.items()),
    *(person("twin", f"cn={name},ou=people") for name in ("twin1", "twin2")),
    entry("cn=two,ou=people", "inetOrgPerson", uid=("one", "two"), cn="two", sn="x"),
    group("readers", "alice", "bob"),
    group("nested", "carol", f"cn=readers,{GROUPS}"),
    group("spelled", f"UID=\\61lice , OU=People,{SUFFIX.upper()}", "Dave-1@x_y"),
    group("circle", f"cn=circle,{GROUPS}"),
    group("stranger", f"uid=eve,{SUFFIX}"),
    group("twins", f"cn=twin1,ou=people,{SUFFIX}"),
    group("double", f"cn=two,ou=people,{SUFFIX}"),
    group("only-dummy", f"cn=reader,{SUFFIX}"),
    *(group(f"has-{name}", f"cn={name},ou=people,{SUFFIX}") for name in PEOPLE),
    entry("cn=unix,ou=groups", "posixGroup", cn="unix", gidNumber="7", memberUid=("alice", "bob")),
    entry("cn=nobody,ou=groups", "posixGroup", cn="nobody", gidNumber="8"),
    entry("cn=odd,ou=groups", "posixGroup", cn="odd", gidNumber="9", memberUid="*"),
    entry("ou=far", "organizationalUnit", ou="far"),
    entry("cn=x,ou=far", "referral", "extensibleObject", cn="x", ref="ldap://x.invalid/ou=x"),
)  # fmt: skip


class Server(NamedTuple):
    """A running directory."""

    folder: Path
    port: int

    def read(self, *names: str, **changes: str) -> dict[str, list[str]]:
        path = groups_file(self.folder, self.port, **changes)
        groups = read_membership(read_groups(path), names).groups
        return {name: sorted(members) for name, members in groups.items()}

    def refuse(self, *names: str, **changes: str) -> tuple[str, str]:
        with pytest.raises(GroupsError) as caught:
            self.read(*names, **changes)
        return caught.value.kind, str(caught.value)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("slapd")
    with running_slapd(folder, ENTRIES, limits="sizelimit size=5 size.prtotal=1000") as port:
        yield Server(folder, port)


@pytest.mark.parametrize("page_size", ["1", "3", "500"])
def test_members_are_read_page_by_page(server: Server, page_size: str) -> None:
    """A search without pages would exceed the size limit of the server."""
    found = server.read("readers", "nested", "spelled", page_size=page_size)
    assert found == {
        "readers": ["User:alice", "User:bob"],
        "nested": ["User:alice", "User:bob", "User:carol"],
        "spelled": ["User:Dave-1@x_y", "User:alice"],
    }


def test_members_of_posix_groups_are_values(server: Server) -> None:
    assert server.read("unix", **POSIX) == {"unix": ["User:alice", "User:bob"]}
    kind, text = server.refuse("nobody", **POSIX)
    assert (kind, "it has no members" in text) == ("empty", True)
    assert "memberUid has '*'" in server.refuse("odd", **POSIX)[1]


def test_client_may_authenticate_by_a_certificate(server: Server) -> None:
    own = {"certificate": f"{server.folder}/client.pem", "key": f"{server.folder}/client.key"}
    found = server.read("readers", bind_dn="", password_file="", **own)
    assert found == {"readers": ["User:alice", "User:bob"]}


def test_entries_without_meaning_are_ignored(server: Server) -> None:
    ignored = f'["cn=reader,{SUFFIX}"]'
    kind, text = server.refuse("only-dummy", ignored_members=ignored)
    assert (kind, "it has no members" in text) == ("empty", True)


@pytest.mark.parametrize("name", PEOPLE)
def test_value_that_could_mean_another_principal_is_refused(server: Server, name: str) -> None:
    kind, text = server.refuse(f"has-{name}")
    assert kind == "invalid"
    assert f"cn={name},ou=people,{SUFFIX}: uid has {PEOPLE[name]!r}: expected ASCII" in text


@pytest.mark.parametrize(("name", "reason"), [
    ("circle", "the groups contain each other: circle > circle"),
    ("stranger", f"cn=stranger,{GROUPS}: the member uid=eve,{SUFFIX} is neither one of "),
    ("twins", "have the same uid, twin"),
    ("double", f"cn=two,ou=people,{SUFFIX}: expected one value of uid, found 2"),
    ("Readers", "no group has the name 'Readers': names are compared exactly"),
])  # fmt: skip
def test_faulty_group_is_named(server: Server, name: str, reason: str) -> None:
    kind, text = server.refuse(name)
    assert (kind, reason in text) == ("invalid", True), text
    assert server.read("readers"), "the faults of other groups do not matter"


@pytest.mark.parametrize(("changes", "kind", "reason"), [
    ({"password_file": "{folder}/server.key"}, "invalid", "Invalid credentials"),
    ({"password_file": "{folder}/ca.pem"}, "invalid", "ca.pem: everybody may use this secret"),
    ({"password_file": "{folder}/none"}, "invalid", "{folder}/none: No such file or directory"),
    ({"ca": "{folder}/client.pem"}, "away", "Can't contact LDAP server"),
    ({"ca": ""}, "away", "Can't contact LDAP server"),
    ({"url": "ldaps://127.0.0.1:1"}, "away", "Can't contact LDAP server"),
    ({"groups": '{base: "ou=none,dc=example", filter: (cn=*)}'}, "invalid", "No such object"),
    ({"groups": '{base: "ou=groups,dc=example", filter: "(cn="}'}, "invalid", "Bad search filter"),
    ({"groups": '{base: "ou=far,dc=example", filter: (cn=*)}'}, "partial", "ldap://x.invalid/"),
    ({"groups": '{base: "cn=x,ou=far,dc=example", filter: (cn=*)}'}, "partial", "Referral"),
    ({"values_max": "7"}, "invalid", "more than 7 values"),
])  # fmt: skip
def test_directory_that_does_not_answer_as_a_whole_is_an_error(
    server: Server, changes: dict[str, str], kind: str, reason: str
) -> None:
    filled = {key: value.replace("{folder}", str(server.folder)) for key, value in changes.items()}
    found, text = server.refuse("readers", **filled)
    assert (found, reason.replace("{folder}", str(server.folder)) in text) == (kind, True), text
    assert PASSWORD not in text


def test_limit_of_the_server_is_an_error(tmp_path: Path) -> None:
    people = [person(f"u{number}") for number in range(9)]
    with running_slapd(tmp_path, [*people, group("g", "u1")], "sizelimit size.prtotal=8") as port:
        server = Server(tmp_path, port)
        assert server.refuse("g", page_size="2") == (
            "partial", f"ldaps://127.0.0.1:{port}: Size limit exceeded"
        )  # fmt: skip
    assert server.refuse("g")[0] == "away"


def test_empty_password_is_refused(server: Server, tmp_path: Path) -> None:
    """A server would take it for an anonymous client, who may see less."""
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "empty").chmod(0o600)
    assert "expected a password" in server.refuse("readers", password_file=f"{tmp_path}/empty")[1]


def test_silent_server_is_given_up(server: Server) -> None:
    def wait(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        time.sleep(3)

    with accepting(wait) as address:
        begin = time.monotonic()
        assert server.refuse("readers", url=f"ldaps://{address}", timeout_seconds="1")[0] == "away"
        assert time.monotonic() - begin < 60


def test_large_directory_is_read_whole(tmp_path: Path) -> None:
    """Each of 10,000 people is in three of 500 groups, and group 0 has all of them."""
    people, groups = size(300, 10_000), size(20, 500)
    members: list[set[str]] = [set() for _ in range(groups)]
    for number in range(people):
        for factor in (1, 7, 13):
            members[number * factor % groups].add(f"u{number}")
    members[0] = {f"u{number}" for number in range(people)}
    entries = [person(f"u{number}") for number in range(people)]
    entries += (group(f"g{number}", *sorted(each)) for number, each in enumerate(members))
    with running_slapd(tmp_path, entries, "sizelimit size=100 size.prtotal=unlimited") as port:
        found = Server(tmp_path, port).read(*(f"g{number}" for number in range(groups)))
    assert found == {
        f"g{number}": sorted(f"User:{uid}" for uid in each) for number, each in enumerate(members)
    }
