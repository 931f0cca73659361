"""The hosts from which something is allowed."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from authorizerd.acl.search.hosts import EVERYWHERE, NOWHERE, HostAccess, covers

HOSTS = ["h1", "h2", "h3"]
ASKED = [None, "h4", *HOSTS]

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
        (HostAccess(False, ("h1", "h2")), ["h1", "h2"]),
        (HostAccess(True, ("h1",)), ["h4", "h2", "h3"]),
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
