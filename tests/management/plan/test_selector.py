"""Selectors: what a plan manages, by flags, files and formats."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.model import Acl
from authorizerd.management.plan.errors import PlanError
from authorizerd.management.plan.selector import (
    Managed,
    Selector,
    check_entry,
    describe_selector,
    manage_one,
)
from tests.support.acls import acl
from tests.support.strategies import acls

ORDERS = acl("User:a", topic="orders")
ORDERS_PREFIX = acl("User:a", topic="orders", pattern="PREFIXED")
ORDERS_EU = acl("User:b", topic="orders-eu")
ORD_PREFIX = acl("User:a", topic="ord", pattern="PREFIXED")
ANY_TOPIC = acl("User:a", topic="*")
EVERYONE = acl("User:*", topic="orders")
GROUP = acl("User:a", group="orders")
ALL = (ORDERS, ORDERS_PREFIX, ORDERS_EU, ORD_PREFIX, ANY_TOPIC, EVERYONE, GROUP)
TOPIC: Final = "TOPIC"


@pytest.mark.parametrize(
    ("entries", "managed"),
    [
        (None, ALL),
        ([Managed(principal="User:b")], [ORDERS_EU]),
        ([Managed(principal="User:*")], [EVERYONE]),
        ([Managed(principal_prefix="User:")], [each for each in ALL if each != EVERYONE]),
        ([Managed(resource_type="GROUP")], [GROUP]),
        ([Managed(resource_type=TOPIC, resource_name="orders")], [ORDERS, EVERYONE]),
        (
            [Managed(resource_type=TOPIC, resource_name="orders", pattern_type="PREFIXED")],
            [ORDERS_PREFIX],
        ),
        (
            [Managed(resource_type=TOPIC, resource_name="orders", pattern_type="ANY")],
            [ORDERS, ORDERS_PREFIX, EVERYONE],
        ),
        (
            [Managed(resource_type=TOPIC, resource_name="orders", pattern_type="MATCH")],
            [ORDERS, ORDERS_PREFIX, ORD_PREFIX, ANY_TOPIC, EVERYONE],
        ),
        (
            [Managed(resource_type=TOPIC, resource_name_prefix="orders")],
            [ORDERS, ORDERS_PREFIX, ORDERS_EU, EVERYONE],
        ),
        ([Managed(resource_type=TOPIC, resource_name_prefix="*")], []),
        ([Managed(resource_type=TOPIC, resource_name="*")], [ANY_TOPIC]),
        (
            [Managed(principal="User:b", resource_type=TOPIC, resource_name_prefix="orders")],
            [ORDERS_EU],
        ),
        ([Managed(principal="User:b"), Managed(resource_type="GROUP")], [ORDERS_EU, GROUP]),
    ],
)
def test_selector_manages(entries: list[Managed] | None, managed: list[Acl]) -> None:
    selector = Selector(entries)
    assert [each for each in ALL if selector.manages(each)] == list(managed)


@given(acls(), acls())
def test_entry_of_one_acl_selects_only_this_acl(one: Acl, other: Acl) -> None:
    assert Selector([manage_one(one)]).manages(other) == (one == other)


@given(st.lists(acls(), max_size=4), acls())
def test_entries_add_up(listed: list[Acl], asked: Acl) -> None:
    """Exact entries share an index; the answer is that of each entry by itself."""
    entries = [Managed(principal=each.principal, host=each.host) for each in listed]
    entries += [Managed(principal_prefix=each.principal) for each in listed]
    alone = [Selector([each]).manages(asked) for each in entries]
    assert Selector(entries).manages(asked) == any(alone)


@pytest.mark.parametrize(
    ("entry", "place", "reason"),
    [
        (Managed(), "manages", "expected at least one field"),
        (Managed(principal=""), "manages.principal", "expected a text, found an empty one"),
        (Managed(principal_prefix=""), "manages.principal_prefix", "found an empty one"),
        (Managed(principal="alice"), "manages.principal", "expected Type:name"),
        (
            Managed(principal="User:a", principal_prefix="User:"),
            "manages", "expected either principal or principal_prefix, found both",
        ),
        (Managed(resource_name="orders"), "manages", "expected resource_type"),
        (Managed(resource_name_prefix="orders"), "manages", "expected resource_type"),
        (Managed(resource_type=TOPIC, pattern_type="ANY"), "manages", "expected resource_name"),
        (
            Managed(resource_type="CLUSTER", resource_name="x"),
            "manages.resource_name", "expected kafka-cluster for CLUSTER, found 'x'",
        ),
    ],
)  # fmt: skip
def test_invalid_entry_is_rejected(entry: Managed, place: str, reason: str) -> None:
    with pytest.raises(PlanError) as caught:
        check_entry(entry)
    assert caught.value.place == place
    assert reason in caught.value.reason


def test_entries_are_described() -> None:
    entry = Managed(principal="User:a", resource_type=TOPIC)
    assert describe_selector(Selector([entry])) == ["principal=User:a, resource_type=TOPIC"]
    assert describe_selector(Selector(None)) == []
