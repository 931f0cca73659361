"""Filters: the lines of KIP-290 and of the rulings, one by one."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from authorizerd.acl.builder import build
from authorizerd.acl.filter_index import FilterIndex
from authorizerd.acl.filters import ACLS_PER_STEP, accepts, scan_acls
from authorizerd.acl.model import (
    Acl,
    AclAdded,
    AclFilter,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from tests.support.strategies import HOSTS, PRINCIPALS, acls, resource_names

ANY, MATCH, LITERAL, PREFIXED = (
    PatternType.ANY,
    PatternType.MATCH,
    PatternType.LITERAL,
    PatternType.PREFIXED,
)


def acl(name: str, pattern_type: int = LITERAL) -> Acl:
    return Acl(
        ResourceType.TOPIC,
        name,
        pattern_type,
        "User:a",
        "*",
        Operation.READ,
        PermissionType.ALLOW,
    )


@given(acls(unknown_codes=True))
def test_the_open_filter_means_every_acl(held: Acl) -> None:
    """ANY and null leave everything open, codes from the future included."""
    assert accepts(AclFilter(), held)
    assert accepts(AclFilter(pattern_type=MATCH), held)


filters = st.builds(
    AclFilter,
    resource_type=st.sampled_from([1, 2, 3]),
    resource_name=st.none() | resource_names,
    pattern_type=st.sampled_from([ANY, MATCH, LITERAL, PREFIXED]),
    principal=st.sampled_from([None, *PRINCIPALS]),
    host=st.sampled_from([None, *HOSTS]),
    operation=st.sampled_from([1, 2, 3]),
    permission_type=st.sampled_from([1, 2, 3]),
)


@given(st.lists(filters, max_size=12), st.lists(acls(unknown_codes=True), max_size=6))
@example(
    [AclFilter(resource_name=name, pattern_type=MATCH) for name in ("ab", "b", "a", "*", "abc")],
    [acl("a", PREFIXED), acl("ab", PREFIXED), acl("ab"), acl("*"), acl("*", PREFIXED)],
)
def test_the_index_of_filters_finds_those_that_accept_an_acl(
    wanted: list[AclFilter], held: list[Acl]
) -> None:
    """Each once; filters with one number are of one mind."""
    index = FilterIndex()
    numbers = [index.add(each) for each in wanted]
    assert set(numbers) == set(range(index.count))
    for acl in held:
        found = list(index.look_up(acl))
        assert len(found) == len(set(found))
        assert [number in found for number in numbers] == [accepts(each, acl) for each in wanted]


def test_a_scan_yields_slices_that_are_short_whatever_matches() -> None:
    """No list of all matches is made; a slice without a match is empty."""
    held = [AclAdded(n.to_bytes(16, "big"), acl(f"t{n}")) for n in range(5 * ACLS_PER_STEP)]
    snapshot = build(held)
    slices = list(scan_acls(snapshot, AclFilter()))
    assert [len(some) for some in slices] == [ACLS_PER_STEP] * 5
    assert dict(item for some in slices for item in some) == dict(snapshot.acls)
    one = AclFilter(resource_name="t7")
    assert sorted(map(len, scan_acls(snapshot, one))) == [0, 0, 0, 0, 1]


@given(acls())
def test_a_filter_made_of_an_acl_means_just_it(held: Acl) -> None:
    """Every field counts."""
    exact = AclFilter(
        held.resource_type,
        held.resource_name,
        held.pattern_type,
        held.principal,
        held.host,
        held.operation,
        held.permission_type,
    )
    assert accepts(exact, held)
    for field, value in (
        ("resource_type", ResourceType.CLUSTER),
        ("resource_name", held.resource_name + "x"),
        ("pattern_type", 7 - held.pattern_type),
        ("principal", held.principal + "x"),
        ("host", "10.1.1.1"),
        ("operation", Operation.CREATE),
        ("permission_type", 5 - held.permission_type),
    ):
        other = AclFilter(
            **{name: getattr(exact, name) for name in exact.__struct_fields__} | {field: value}
        )
        assert not accepts(other, held), field


@pytest.mark.parametrize(
    ("pattern_type", "name", "expected"),
    [
        (MATCH, "foo", {("foo", LITERAL), ("*", LITERAL), ("f", PREFIXED), ("foo", PREFIXED)}),
        (MATCH, "*", {("*", LITERAL), ("*", PREFIXED)}),
        (ANY, "foo", {("foo", LITERAL), ("foo", PREFIXED)}),
        (LITERAL, "*", {("*", LITERAL)}),
        (PREFIXED, "*", {("*", PREFIXED)}),
        (PREFIXED, "foo", {("foo", PREFIXED)}),
    ],
)
def test_pattern_types_mean_what_kip_290_says(
    pattern_type: int, name: str, expected: set[tuple[str, int]]
) -> None:
    """MATCH is every pattern that a resource of the name would meet; ANY is the exact name."""
    held = {(n, p) for n in ("foo", "f", "fooo", "*", "bar") for p in (LITERAL, PREFIXED)}
    wanted = AclFilter(resource_name=name, pattern_type=pattern_type)
    assert {(n, p) for n, p in held if accepts(wanted, acl(n, p))} == expected


def test_codes_from_the_future_are_found_as_unknown() -> None:
    """A stored 99 reads as UNKNOWN: only ANY and UNKNOWN mean it."""
    odd = Acl(99, "t", 99, "User:a", "*", 99, 99)
    assert accepts(AclFilter(0, None, 0, None, None, 0, 0), odd)
    assert not accepts(AclFilter(resource_type=ResourceType.TOPIC), odd)
    assert not accepts(AclFilter(operation=Operation.READ), odd)


def test_the_principal_of_a_filter_is_exact_text() -> None:
    """``*`` or ``User:*`` in a filter is a name, not a wildcard."""
    assert not accepts(AclFilter(principal="*"), acl("t"))
    assert not accepts(AclFilter(principal="User:*"), acl("t"))
    assert accepts(AclFilter(principal="User:a"), acl("t"))
