"""The matrix of principals by prefixes of topics says what searches and decisions say."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.model import Acl, Operation, PatternType, PermissionType, ResourceType
from authorizerd.acl.releases import ANY_RELEASE, RULES_4_3, RULES_4_4, ReleaseRules
from authorizerd.acl.search.subjects import find_subjects
from authorizerd.acl.snapshot import AclSnapshot, with_rules
from authorizerd.daemon.queries import matrix
from authorizerd.daemon.queries.matrix import (
    COLUMNS_MAX,
    ROWS_MAX,
    Access,
    Matrix,
    MatrixRow,
    find_part,
    make_matrix,
)
from authorizerd.protocol.queries import MatrixQuestion
from tests.support.acls import acl, snapshot_of

TOPIC = ResourceType.TOPIC
READ, WRITE, ALL, DENIED = Access.READ, Access.WRITE, Access.ALL, Access.DENIED
NOBODY = AuthorizerSettings()
PREFIXED = PatternType.PREFIXED
OPERATIONS = (Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL)
NAMES = st.one_of(st.just("*"), st.text("ab.", min_size=1, max_size=4))


def ask(
    snapshot: AclSnapshot,
    principals: str = "",
    topics: str = "",
    settings: AuthorizerSettings = NOBODY,
) -> Matrix:
    return make_matrix(MatrixQuestion(principals, topics, settings), snapshot)


def cells_of(found: Matrix) -> dict[tuple[str, str], Access]:
    """Return the cells that are not empty, by row and column."""
    rows = found.rows if found.everyone is None else (found.everyone, *found.rows)
    return {
        (row.name, column): Access(cell)
        for row in rows
        for column, cell in zip(found.columns, row.cells, strict=True)
        if cell
    }


def acls(*principals: str) -> st.SearchStrategy[Acl]:
    """Generate ACLs for topics. The prefix ``*`` is none of them: searches are inexact there."""
    found = st.builds(
        Acl, st.just(TOPIC), NAMES, st.sampled_from([PatternType.LITERAL, PREFIXED]),
        st.sampled_from(principals),
        st.sampled_from(["*", "10.0.0.1", "10.0.0.0/8", "0.0.0.0/0", "::/0", "nowhere"]),
        st.sampled_from(OPERATIONS),
        st.sampled_from([PermissionType.ALLOW, PermissionType.ALLOW, PermissionType.DENY]),
    )  # fmt: skip
    return found.filter(lambda each: (each.pattern_type, each.resource_name) != (PREFIXED, "*"))


def may(snapshot: AclSnapshot, principal: str, operation: int, prefix: str) -> bool:
    """Return True if a search finds a topic that begins so. ``~`` is in no name of an ACL."""
    known = {each.resource_name for each in snapshot.acls.values()} - {"*"} | {prefix}
    names = {f"{name}{end}" for name, end in product(known, ("", "~"))} - {""}
    for name in names:
        if name.startswith(prefix):
            found = find_subjects(snapshot, NOBODY, operation, TOPIC, name)
            named = {each.principal: each.hosts for each in (*found.named, *found.excluded)}
            if not named.get(principal, found.everyone).is_nowhere:
                return True
    return False


@given(
    st.lists(acls("User:a", "User:b", "User:*", "none"), unique=True, max_size=8),
    st.sampled_from(["", "a", "a.", "b.a"]),
    st.sampled_from([RULES_4_3, RULES_4_4, ANY_RELEASE]),
)
def test_cells_say_what_searches_find(
    given_acls: list[Acl], topics: str, rules: ReleaseRules
) -> None:
    snapshot = with_rules(snapshot_of(*given_acls), rules)
    found = ask(snapshot, topics=topics)
    cells = cells_of(found)
    rows = {row.name for row in found.rows}
    for row, column in product(["User:a", "User:b", "User:*"], found.columns):
        if row not in rows and (row != "User:*" or found.everyone is None):
            continue
        cell = cells.get((row, column), Access(0))
        principal = "User:other" if row == "User:*" else row
        for operation, access in ((Operation.READ, READ), (Operation.WRITE, WRITE)):
            assert (access in cell) == may(snapshot, principal, operation, column)
        assert Access.UNKNOWN not in cell


def test_cell_has_the_effect_of_allow_and_deny() -> None:
    snapshot = snapshot_of(
        acl("User:reader", "READ", topic="orders.eu"),
        acl("User:both", "READ", topic="orders.", pattern="PREFIXED"),
        acl("User:both", "WRITE", topic="orders.us"),
        acl("User:owner", "ALL", topic="orders.", pattern="PREFIXED"),
        acl("User:owner", "WRITE", topic="orders.audit", deny=True),
        acl("User:covered", "READ", topic="orders.eu"),
        acl("User:covered", "ALL", topic="orders", pattern="PREFIXED", deny=True),
        acl("User:other", "DESCRIBE", topic="payments"),
        acl("User:wide", "WRITE", topic="*"),
        acl("User:never", "READ", topic="orders.eu", host="db.example.com"),
        acl("User:group", "READ", group="orders"),
        acl("User:*", "READ", topic="public"),
    )
    cells = cells_of(ask(snapshot))
    column = {row: cell for (row, prefix), cell in cells.items() if prefix == "orders"}
    assert column == {
        "User:reader": READ,
        "User:both": READ | WRITE,
        "User:owner": READ | WRITE | ALL | DENIED,
        "User:covered": DENIED,
        "User:wide": WRITE,
    }
    assert cells["User:other", "public"] == cells["User:*", ""] == READ
    assert ("User:other", "payments") not in cells
    assert {row for row, _ in cells} == {*column, "User:*", "User:other"}


@pytest.mark.parametrize(
    ("denial", "column"),
    [
        (acl("User:a", "READ", topic="p.x.y", deny=True), READ | DENIED),
        (acl("User:a", "READ", topic="p.x", pattern="PREFIXED", deny=True), DENIED),
        (acl("User:*", "ALL", topic="p", pattern="PREFIXED", deny=True), Access(0)),
        (acl("User:*", "ALL", topic="*", deny=True), Access(0)),
        (acl("User:a", "WRITE", topic="p.x", pattern="PREFIXED", deny=True), READ | DENIED),
        (acl("User:a", "READ", topic="p.x", pattern="PREFIXED", deny=True, host="10.0.0.1"),
         READ | DENIED),
    ],
)  # fmt: skip
def test_denial_inside_a_grant_takes_only_what_it_covers(denial: Acl, column: Access) -> None:
    grants = (
        acl("User:a", "READ", topic="p.", pattern="PREFIXED"), acl("User:b", "READ", topic="p.x.z")
    )  # fmt: skip
    cells = cells_of(ask(snapshot_of(*grants, denial), topics="p."))
    assert cells.get(("User:a", "p.x"), Access(0)) == column


def test_grant_of_the_denied_name_allows_nothing() -> None:
    both = [acl("User:a", "READ", topic="t.x", deny=deny) for deny in (False, True)]
    assert cells_of(ask(snapshot_of(*both), topics="t"))["User:a", "t.x"] == DENIED


def test_super_user_may_do_everything() -> None:
    snapshot = snapshot_of(acl("User:root", "READ", topic="t", deny=True))
    settings = AuthorizerSettings(super_users=frozenset(["User:root"]))
    (row,) = ask(snapshot, settings=settings).rows
    assert {*row.cells} == {READ | WRITE | ALL}


def test_many_principals_are_grouped_and_a_filter_opens_a_group() -> None:
    size = ROWS_MAX + 2
    acls = [
        acl(f"User:team{n}-{m}", "READ", topic=f"t{n}.{m}") for n in range(size) for m in (1, 2)
    ]
    snapshot = snapshot_of(*acls, acl("User:team0-3", "WRITE", topic="t0.3"))
    found = ask(snapshot)
    assert (len(found.rows), found.rows_left, found.principals) == (ROWS_MAX, 2, 2 * size + 1)
    assert (len(found.columns), found.columns_left) == (COLUMNS_MAX + 1, size - COLUMNS_MAX)
    assert found.rows[0].name == "User:team0"
    assert found.rows[0].principals == 3
    assert found.rows[0].cells[:2] == (READ | WRITE, READ | WRITE)
    opened = ask(snapshot, "User:team0-", "t0.")
    assert opened.columns == ("t0.", "t0.1", "t0.2", "t0.3")
    assert opened.rows == (
        MatrixRow("User:team0-1", 1, (READ, READ, 0, 0)),
        MatrixRow("User:team0-2", 1, (READ, 0, READ, 0)),
        MatrixRow("User:team0-3", 1, (WRITE, 0, 0, WRITE)),
    )


def test_group_with_one_member_has_its_name() -> None:
    snapshot = snapshot_of(*(acl(f"User:p{n}-x", "READ", topic="t") for n in range(ROWS_MAX + 1)))
    assert {row.name for row in ask(snapshot).rows} <= {f"User:p{n}-x" for n in range(ROWS_MAX + 1)}


def test_cell_that_takes_too_long_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "WORK_MAX", 1)
    snapshot = snapshot_of(
        acl("User:a", "READ", topic="a"),
        acl("User:a", "READ", topic="a", deny=True, host="10.0.0.1"),
        acl("User:a", "WRITE", topic="b"),
    )
    (row,) = ask(snapshot).rows
    assert row.cells == (DENIED | Access.UNKNOWN, DENIED | Access.UNKNOWN, WRITE)


def test_nothing_gives_an_empty_matrix() -> None:
    found = ask(snapshot_of(acl("User:a", "READ", group="g")))
    assert (found.rows, found.everyone, len(found.columns)) == ((), None, 1)
    assert ask(snapshot_of(), "User:x", "y").rows == ()


@pytest.mark.parametrize(
    ("name", "begin", "part"),
    [
        ("orders.eu.out", 0, "orders"), ("orders", 0, "orders"), ("a-b_c", 0, "a"),
        ("__consumer_offsets", 0, "__consumer"), ("orders.eu.out", 6, "orders.eu"),
        ("orders.eu.out", 7, "orders.eu"), ("x", 5, "x"), ("._-", 0, "._-"), ("", 0, ""),
        ("a\nb", 0, "a\nb"),
    ],
)  # fmt: skip
def test_part_ends_before_the_next_separator(name: str, begin: int, part: str) -> None:
    assert find_part(name, begin) == part
