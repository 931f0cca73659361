"""The hosts from which something is allowed."""

from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.hosts import matches_host
from authorizerd.acl.releases import ANY_RELEASE, RULES, RULES_4_4, Release, ReleaseRules
from authorizerd.acl.search.hosts import EVERYWHERE, NOWHERE, HostAccess, covers, read_places
from authorizerd.acl.search.joined_rules import NOTHING_APPLIES, JoinedRules, find_access

HOSTS = ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
ASKED = [None, "10.0.0.4", *HOSTS]

ACCESSES = [
    HostAccess(others, hosts)
    for others in (False, True)
    for size in range(len(HOSTS) + 1)
    for hosts in combinations(HOSTS, size)
]


@pytest.mark.parametrize(
    ("access", "allowed"),
    [
        (EVERYWHERE, ASKED),
        (NOWHERE, []),
        (HostAccess(False, ("10.0.0.1", "10.0.0.2")), ["10.0.0.1", "10.0.0.2"]),
        (HostAccess(True, ("10.0.0.1",)), ["10.0.0.4", "10.0.0.2", "10.0.0.3"]),
    ],
)
def test_an_unknown_host_is_allowed_only_if_every_host_is(
    access: HostAccess, allowed: list[str | None]
) -> None:
    assert [host for host in ASKED if access.allows(host)] == allowed
    assert access.is_nowhere == (not allowed)
    assert access.is_everywhere == (allowed == ASKED)


def test_an_access_covers_another_if_it_allows_all_of_its_hosts() -> None:
    for one, other in product(ACCESSES, repeat=2):
        expected = all(one.allows(host) for host in ASKED if other.allows(host))
        assert covers(one, other) == expected, (one, other)


FEW_RANGES = (
    *("10.0.0.0/30", "10.0.0.0/31", "10.0.0.2/31", "10.0.0.1/32", "10.0.0.1/30", "0.0.0.0/31"),
    *("0.0.0.0/0", "::/0", "::/127", "::1/128", "::fffe:0:0/95", "::fffe:0:0/96", "fe80::1/128"),
)
FEW_ADDRESSES = (
    *("10.0.0.0", "10.0.0.1", "10.0.0.2", "10.0.0.3", "0.0.0.0", "0.0.0.1"),
    *("0:0:0:0:0:0:0:0", "0:0:0:0:0:0:0:1", "fe80:0:0:0:0:0:0:1", "fe80:0:0:0:0:0:0:1%other"),
)
EVERY_KIND = [
    *FEW_ADDRESSES,
    *("fe80:0:0:0:0:0:0:1%eth0", "10.0.0.4", "192.0.2.1", "0:0:0:0:0:fffe:0:0", "1:0:0:0:0:0:0:0"),
]
"""An address of each area into which these hosts of ACLs can divide all hosts, and more."""
few_hosts = st.frozensets(st.sampled_from(FEW_RANGES + FEW_ADDRESSES), max_size=6)
few_rules = st.tuples(st.booleans(), few_hosts, few_hosts)


def join(rules: tuple[bool, frozenset[str], frozenset[str]], releases: ReleaseRules) -> HostAccess:
    allows, allowed, denied = rules
    joined = JoinedRules(allows=allows) if allows else NOTHING_APPLIES
    return find_access(joined.join_hosts(allowed, denied), releases)


@given(few_rules)
def test_ranges_are_joined_as_decisions_are_made(
    rules: tuple[bool, frozenset[str], frozenset[str]],
) -> None:
    """Also in no release more, and what is allowed from no host is nowhere."""
    allows, allowed, denied = rules
    access = join(rules, ANY_RELEASE)
    for release in Release:
        for host in EVERY_KIND:

            def fits(acl_host: str, host: str = host, release: Release = release) -> bool:
                is_in_range = release == Release.KAFKA_4_4 and matches_host(acl_host, host)
                return acl_host == host or is_in_range

            expected = (allows or any(map(fits, allowed))) and not any(map(fits, denied))
            assert access.in_release(release).allows(host) == expected
        assert access.in_release(release) == join(rules, RULES[release])
    for host in EVERY_KIND:
        assert access.allows(host) == any(
            access.in_release(release).allows(host) for release in Release
        )
    assert access.is_nowhere == (not any(map(access.allows, EVERY_KIND)))


@given(few_rules, few_rules, st.sampled_from((RULES_4_4, ANY_RELEASE)))
def test_ranges_cover_others_if_they_allow_all_of_their_hosts(
    some: tuple[bool, frozenset[str], frozenset[str]],
    others: tuple[bool, frozenset[str], frozenset[str]],
    releases: ReleaseRules,
) -> None:
    wider, narrower = join(some, releases), join(others, releases)
    assert covers(wider, narrower) == all(
        wider.in_release(release).allows(host)
        for release in releases.releases
        for host in EVERY_KIND
        if narrower.in_release(release).allows(host)
    )


@given(few_rules)
def test_places_have_the_answer_that_is_listed(
    rules: tuple[bool, frozenset[str], frozenset[str]],
) -> None:
    access = join(rules, RULES_4_4)
    listed = access.list_places()
    assert read_places(access.others, [text for _, text in listed]) == access
    for allowed, text in listed:
        if "/" not in text:
            assert access.allows(text) == allowed


@pytest.mark.parametrize(
    ("others", "places", "text"),
    [
        (True, "10.0.0.0/8", "from any host except 10.0.0.0/8"),
        (False, "10.9.0.0/16 10.9.1.2", "only from 10.9.0.0/16 (except 10.9.1.2)"),
        (
            True,
            "10.0.0.0/8 10.1.0.0/16 10.1.0.1 10.2.0.0/16 192.0.2.9 2001:db8::/32 9.9.9.9",
            "from any host except 9.9.9.9, 10.0.0.0/8 (except 10.1.0.0/16 (except 10.1.0.1),"
            " 10.2.0.0/16), 192.0.2.9, 2001:db8::/32",
        ),
    ],
)
def test_text_has_exceptions_in_brackets(others: bool, places: str, text: str) -> None:
    assert str(read_places(others, places.split())) == text


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        # Several texts for one range, bits that do not count, and a range that others fill.
        ((False, {"10.0.0.1/30", "10.0.0.0/30"}, set()), "only from 10.0.0.0/30"),
        ((False, {"10.0.0.0/30"}, {"10.0.0.0/31", "10.0.0.2/31"}), "from no host"),
        ((False, {"10.0.0.1/32"}, {"10.0.0.1"}), "from no host"),
        ((True, set(), {"0.0.0.0/0", "::/0"}), "from any host except 0.0.0.0/0, ::/0"),
        ((True, set(), {"0.0.0.0/0", "::/0", "0.0.0.0"}), "from no host"),
    ],
)
def test_what_has_no_host_is_not_named(rules: tuple[bool, set[str], set[str]], text: str) -> None:
    allows, allowed, denied = rules
    assert str(join((allows, frozenset(allowed), frozenset(denied)), RULES_4_4)) == text


def test_releases_are_named_where_they_differ() -> None:
    access = join((True, frozenset(), frozenset({"10.0.0.0/8"})), ANY_RELEASE)
    assert (
        str(access) == "from any host by Kafka 4.3, or from any host except 10.0.0.0/8 by Kafka 4.4"
    )
    assert access.name_releases("10.0.0.1") == "by Kafka 4.3 only"
    assert access.name_releases("192.0.2.1") == access.name_releases(None) == ""
    assert access.is_everywhere
