"""Listings: ids that follow from bindings, and the changes that a listing shows."""

from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.errors import InvalidAclError
from authorizerd.acl.filters import accepts
from authorizerd.acl.listing import Listing, derive_id, expect, find_shown
from authorizerd.acl.model import Acl, AclFilter, ResourceType
from authorizerd.acl.steps import finish
from authorizerd.acl.validation import validate_filter
from tests.support.acls import acl
from tests.support.strategies import acls, resource_names

READ = acl("User:a", "READ", topic="t")


def listing_of(bindings: list[Acl]) -> Listing:
    listing = Listing()
    for each in bindings:
        listing.add(each)
    return listing


def test_the_id_of_a_binding_is_stable() -> None:
    """Copies of older versions have these ids."""
    assert derive_id(READ).hex() == "ca701ccfd260cacef86722fddd012167"
    assert (
        derive_id(Acl(-1, "", 127, "ü", "*", 99, -128)).hex() == "6a5476f456ac0aca1d97c2a4ceb06f0d"
    )


@given(acls(unknown_codes=True), acls(unknown_codes=True))
def test_ids_differ_exactly_if_bindings_differ(one: Acl, other: Acl) -> None:
    assert (derive_id(one) == derive_id(other)) == (one == other)


@given(st.lists(acls(unknown_codes=True), max_size=8))
def test_listing_has_each_binding_once(bindings: list[Acl]) -> None:
    listing = listing_of(bindings)
    assert dict(listing.items()) == {derive_id(each): each for each in bindings}
    assert len(listing) == len(set(bindings))
    assert all(listing.get(derive_id(each)) == each for each in bindings)
    finish(listing.free_in_steps())


filters = st.builds(
    AclFilter,
    resource_type=st.integers(0, 3),
    resource_name=st.none() | resource_names,
    pattern_type=st.integers(1, 4),
    principal=st.sampled_from([None, "User:a", "User:*"]),
    host=st.sampled_from([None, "*"]),
    operation=st.sampled_from([1, 2, 3]),
    permission_type=st.sampled_from([1, 2, 3]),
)
exact_filters = acls(unknown_codes=True).map(
    lambda each: AclFilter(
        each.resource_type, each.resource_name, each.pattern_type, each.principal, each.host,
        each.operation, each.permission_type,
    )
)  # fmt: skip


def is_valid(filter: AclFilter) -> bool:
    """Return True if a deletion may have this filter. None has a code that is unknown here."""
    try:
        validate_filter(filter)
    except InvalidAclError:
        return False
    return True


@given(
    st.lists(acls(unknown_codes=True), max_size=6),
    st.lists(acls(unknown_codes=True), max_size=1),
    st.lists(filters | exact_filters, max_size=2),
)
def test_shown_changes_are_those_of_a_plain_scan(
    bindings: list[Acl], created: list[Acl], deleted: list[AclFilter]
) -> None:
    """Every created binding is there, and none that a filter of the deletions matches."""
    deleted = [each for each in deleted if is_valid(each)]
    expectation = finish(expect(created, deleted))
    is_shown = set(created) <= set(bindings) and not any(
        accepts(each, binding) for each in deleted for binding in bindings
    )
    shown = finish(find_shown(listing_of(bindings), {5: expectation}))
    assert shown == ({5} if is_shown else frozenset())
    held = {derive_id(each): each for each in bindings}
    assert finish(find_shown(held, {5: expectation})) == shown


def test_each_expectation_is_judged_by_itself() -> None:
    listing = listing_of([READ])
    expectations = {
        1: finish(expect([READ], [])),
        2: finish(expect([acl(topic="absent")], [])),
        3: finish(expect([], [AclFilter(resource_type=ResourceType.GROUP)])),
        4: finish(expect([], [AclFilter(resource_name="t")])),
        5: finish(expect([READ], [AclFilter(resource_name="t")])),
        6: finish(expect([], [])),
    }
    assert finish(find_shown(listing, expectations)) == {1, 3, 6}


def test_long_work_is_done_in_steps() -> None:
    bindings = [acl(topic=f"t{number}") for number in range(2_000)]
    listing = listing_of(bindings)
    assert len(list(expect(bindings, [AclFilter()] * 2_000))) > 50
    expectations = {1: finish(expect([], [AclFilter(host="none")]))}
    assert len(list(find_shown(listing, expectations))) > 20
    assert len(list(listing.free_in_steps())) > 100
