"""Which ACLs filters match, by KIP-290, and how they are scanned and indexed."""

from collections import Counter
from itertools import chain

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from authorizerd.acl.filters import accepts, match_acls, scan_acls
from authorizerd.acl.index.filter_index import FilterIndex
from authorizerd.acl.model import Acl, AclFilter, Operation, PatternType, ResourceType
from authorizerd.acl.steps import ITEMS_PER_CHUNK
from tests.support.acls import acl, snapshot_of
from tests.support.strategies import HOSTS, PRINCIPALS, acls, int8s, resource_names

ANY, MATCH, LITERAL, PREFIXED = (
    PatternType.ANY,
    PatternType.MATCH,
    PatternType.LITERAL,
    PatternType.PREFIXED,
)


@given(acls(unknown_codes=True))
def test_the_empty_filter_matches_every_acl(held: Acl) -> None:
    """This includes ACLs with unknown codes."""
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
    [
        acl(topic=name, pattern=kind)
        for name, kind in (
            ("a", PREFIXED),
            ("ab", PREFIXED),
            ("ab", LITERAL),
            ("*", LITERAL),
            ("*", PREFIXED),
        )
    ],
)
def test_the_filter_index_finds_the_filters_that_match_an_acl(
    wanted: list[AclFilter], held: list[Acl]
) -> None:
    """It yields each number once. Filters that share a number match the same ACLs."""
    index = FilterIndex()
    numbers = [index.add(each) for each in wanted]
    assert set(numbers) == set(range(index.count))
    for each_acl in held:
        found = list(index.look_up(each_acl))
        assert len(found) == len(set(found))
        assert [number in found for number in numbers] == [
            accepts(each, each_acl) for each in wanted
        ]


def test_a_scan_yields_short_chunks() -> None:
    """A chunk without a match is empty."""
    snapshot = snapshot_of(*(acl(topic=f"t{n}") for n in range(5 * ITEMS_PER_CHUNK)))
    slices = list(scan_acls(snapshot, AclFilter()))
    assert [len(some) for some in slices] == [ITEMS_PER_CHUNK] * 5
    assert dict(item for some in slices for item in some) == dict(snapshot.acls)
    one = AclFilter(resource_name="t7")
    assert sorted(map(len, scan_acls(snapshot, one))) == [0, 0, 0, 0, 1]


@given(
    filters | st.builds(AclFilter, operation=int8s, resource_type=int8s, permission_type=int8s),
    st.lists(acls(unknown_codes=True), unique=True, max_size=12),
)
def test_listed_acls_are_those_that_the_filter_accepts(filter: AclFilter, held: list[Acl]) -> None:
    listed = list(chain.from_iterable(match_acls(snapshot_of(*held), filter)))
    assert Counter(listed) == Counter(acl for acl in held if accepts(filter, acl))


@given(acls())
def test_a_filter_with_all_fields_of_an_acl_matches_only_it(held: Acl) -> None:
    """A filter that differs in any one field does not match."""
    exact = AclFilter(
        held.resource_type, held.resource_name, held.pattern_type, held.principal, held.host,
        held.operation, held.permission_type,
    )  # fmt: skip
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
def test_pattern_types_match_as_kip_290_says(
    pattern_type: int, name: str, expected: set[tuple[str, int]]
) -> None:
    """MATCH matches every pattern that matches the name. ANY matches the exact name."""
    held = {(n, p) for n in ("foo", "f", "fooo", "*", "bar") for p in (LITERAL, PREFIXED)}
    wanted = AclFilter(resource_name=name, pattern_type=pattern_type)
    assert {(n, p) for n, p in held if accepts(wanted, acl(topic=n, pattern=p))} == expected


def test_unknown_codes_match_as_unknown() -> None:
    """A stored 99 reads as UNKNOWN, so only ANY and UNKNOWN match it."""
    unknown = Acl(99, "t", 99, "User:a", "*", 99, 99)
    assert accepts(AclFilter(0, None, 0, None, None, 0, 0), unknown)
    assert not accepts(AclFilter(resource_type=ResourceType.TOPIC), unknown)
    assert not accepts(AclFilter(operation=Operation.READ), unknown)


def test_a_filters_principal_is_exact_text() -> None:
    """``*`` and ``User:*`` in a filter are names, not wildcards; type and case count."""
    for other in ("*", "User:*", "a", "user:a"):
        assert not accepts(AclFilter(principal=other), acl())
    assert accepts(AclFilter(principal="User:a"), acl())
