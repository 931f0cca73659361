"""The maximum cost of a question."""

import pytest

from authorizerd.acl.index.builder import build
from authorizerd.acl.model import Acl, AclAdded
from authorizerd.daemon.decisions.question_cost import (
    CHARACTERS_PER_LOOKUP,
    LOOKUPS_PER_NETWORK,
    LOOKUPS_PER_UNINDEXED,
    bound_explanation,
    bound_lookups,
)
from tests.support.acls import acl, snapshot_of

PREFIXED, LITERAL, ALLOW, READ = 4, 3, 3, 3


def with_patterns(*patterns: tuple[int, int, str]) -> list[AclAdded]:
    return [
        AclAdded(bytes([number]) * 16, Acl(kind, name, pattern_type, "User:a", "*", READ, ALLOW))
        for number, (kind, pattern_type, name) in enumerate(patterns)
    ]


@pytest.mark.parametrize(
    ("patterns", "name_size", "lookups"),
    [
        ((), 10, 1),
        (((2, LITERAL, "a" * 4096),), 4096, 1),
        (((2, PREFIXED, "a"), (2, PREFIXED, "b"), (2, PREFIXED, "ab")), 10, 2),
        (((2, PREFIXED, "a"), (3, PREFIXED, "b"), (3, PREFIXED, "ab")), 10, 2),
        (((2, PREFIXED, "a" * 4 * CHARACTERS_PER_LOOKUP), (2, PREFIXED, "b")), 10, 2),
        (((2, PREFIXED, "a" * 4 * CHARACTERS_PER_LOOKUP), (2, PREFIXED, "b")), 10**6, 10),
        (((2, PREFIXED, "a" * 4 * CHARACTERS_PER_LOOKUP),), 2 * CHARACTERS_PER_LOOKUP, 3),
    ],
    ids=["none", "a literal", "distinct lengths", "the worst type", "a short name", "a long name",
         "a name shorter than the prefix"],
)  # fmt: skip
def test_lookups_count_prefix_lengths_and_hashed_characters(
    patterns: tuple[tuple[int, int, str], ...], name_size: int, lookups: int
) -> None:
    """The part of a prefix that exceeds the name is not hashed."""
    assert bound_lookups(build(with_patterns(*patterns)), name_size) == lookups


@pytest.mark.parametrize(
    ("hosts", "networks"),
    [
        (("10.0.0.0/8", "10.0.0.0/9", "10.1.0.0/9"), 2),
        (("10.0.0.0/8", "2001:db8::/8"), 2),
        (("10.0.0.1", "10.0.0.0/33"), 0),
    ],
    ids=["distinct lengths", "both families", "not ranges"],
)
@pytest.mark.parametrize("principal", ["User:a", "User:*"])
def test_each_network_of_one_principal_is_looked_up(
    principal: str, hosts: tuple[str, ...], networks: int
) -> None:
    """Others' networks do not count."""
    held = [acl(principal, topic="t", pattern="PREFIXED", host=host) for host in hosts]
    held += [acl(f"User:{n}", topic="tt", pattern="PREFIXED", host=f"10.0.0.0/{n}") for n in (8, 9)]
    networks = max(networks, 1)
    snapshot = snapshot_of(*held)
    lookups = 2 * (1 + networks)
    assert bound_lookups(snapshot, 10) == lookups
    assert bound_explanation(snapshot, 10) == lookups + LOOKUPS_PER_NETWORK * networks


def test_explaining_also_scans_the_unindexed_acls() -> None:
    snapshot = build(with_patterns((2, PREFIXED, "a"), (2, 99, "b"), (2, 99, "c")))
    assert (
        bound_explanation(snapshot, 10) == bound_lookups(snapshot, 10) + 2 * LOOKUPS_PER_UNINDEXED
    )
