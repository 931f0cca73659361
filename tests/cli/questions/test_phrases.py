"""The sentences of answers about access, and the topics that they list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.decision import authorize
from authorizerd.acl.known_settings import KnownSettings
from authorizerd.acl.model import Acl, Operation, PatternType, ResourceType
from authorizerd.acl.operations import SUPPORTED
from authorizerd.cli.acl_source import AclSource, Place
from authorizerd.cli.questions.phrases import (
    describe_exception,
    describe_operations,
    describe_pattern,
    list_names,
)
from authorizerd.cli.questions.what_can import find_covered, find_entries
from tests.support.acls import snapshot_of
from tests.support.strategies import acls, resource_names

LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP


@pytest.mark.parametrize(("resource_type", "pattern_type", "name", "said"), [
    (TOPIC, LITERAL, "orders", "topic orders"),
    (TOPIC, PREFIXED, "orders-", "topics that begin with orders-"),
    (TOPIC, LITERAL, "*", "every topic"),
    (TOPIC, PREFIXED, "*", "topics that begin with *"),
    (TOPIC, PREFIXED, "", "every topic"),
    (TOPIC, 0, "", "topics that no ACL names"),
    (GROUP, LITERAL, "g", "group g"),
    (ResourceType.TRANSACTIONAL_ID, PREFIXED, "x", "transactional ids that begin with x"),
    (ResourceType.CLUSTER, LITERAL, "kafka-cluster", "the cluster"),
    (ResourceType.DELEGATION_TOKEN, LITERAL, "t", "delegation token t"),
    (ResourceType.USER, LITERAL, "User:a", "user User:a"),
])  # fmt: skip
def test_patterns(resource_type: int, pattern_type: int, name: str, said: str) -> None:
    assert describe_pattern(resource_type, pattern_type, name) == said


def test_exceptions() -> None:
    assert describe_exception(LITERAL, "orders-secret") == "orders-secret"
    assert describe_exception(PREFIXED, "orders-x-") == "those that begin with orders-x-"


@pytest.mark.parametrize(("resource_type", "operations", "said"), [
    (TOPIC, [Operation.WRITE, Operation.READ], "READ, WRITE"),
    (TOPIC, SUPPORTED[TOPIC], "every operation"),
    (TOPIC, SUPPORTED[TOPIC][1:], ", ".join(each.name for each in SUPPORTED[TOPIC][1:])),
    (ResourceType.DELEGATION_TOKEN, [Operation.DESCRIBE], "DESCRIBE"),
])  # fmt: skip
def test_operations(resource_type: int, operations: list[int], said: str) -> None:
    assert describe_operations(resource_type, operations) == said


@pytest.mark.parametrize(
    ("limit", "said"), [(None, "a, b, c"), (3, "a, b, c"), (2, "a, b and 1 more")]
)
def test_names_beyond_the_limit_are_counted(limit: int | None, said: str) -> None:
    assert list_names(("a", "b", "c"), limit) == said


TOPICS = ("*a", "orders", "orders-a", "orders-b", "orders-b-1", "payments")


@pytest.mark.parametrize(("pattern_type", "name", "exceptions", "covered"), [
    (LITERAL, "orders", (), ["orders"]),
    (LITERAL, "order", (), []),
    (LITERAL, "zzz", (), []),
    (PREFIXED, "orders-", (), ["orders-a", "orders-b", "orders-b-1"]),
    (PREFIXED, "p", (), ["payments"]),
    (PREFIXED, "q", (), []),
    (PREFIXED, "orders", ((LITERAL, "orders-b"),), ["orders", "orders-a", "orders-b-1"]),
    (PREFIXED, "orders", ((PREFIXED, "orders-b"),), ["orders", "orders-a"]),
    (LITERAL, "*", ((PREFIXED, "orders"),), ["payments"]),
    (PREFIXED, "", (), [*TOPICS]),
])  # fmt: skip
def test_topics_that_a_pattern_covers(
    pattern_type: int, name: str, exceptions: tuple[tuple[int, str], ...], covered: list[str]
) -> None:
    """As in Kafka, the wildcard skips names that begin with an asterisk."""
    assert find_covered(TOPICS, pattern_type, name, exceptions) == covered


HOSTS = ("10.0.0.1", "10.0.0.7", "10.0.0.8")
SETTINGS = st.builds(KnownSettings, st.just(frozenset({"User:root"})), st.booleans())


@given(
    st.frozensets(acls(), max_size=8),
    st.frozensets(resource_names, max_size=6),
    SETTINGS,
    st.sampled_from(("User:a", "User:nobody", "User:root")),
    st.sampled_from(HOSTS),
)
def test_known_topics_are_those_of_which_something_is_allowed(
    held: frozenset[Acl], names: frozenset[str], settings: KnownSettings, principal: str, host: str
) -> None:
    """The name ``*`` is left out, because no topic has it."""
    topics = tuple(sorted(names - {"*"}))
    snapshot = snapshot_of(*held)
    source = AclSource(
        snapshot=snapshot, settings=settings, stated=(), topics=topics, place=Place.LOG, name="log",
        offset=0,
    )  # fmt: skip
    listed = {
        (operation, topic)
        for entry in find_entries(source, principal, host, {TOPIC: SUPPORTED[TOPIC]})
        for operation in entry.operations
        for topic in entry.topics
    }
    assert listed == {
        (operation, topic)
        for operation in SUPPORTED[TOPIC]
        for topic in topics
        if authorize(snapshot, settings.least, principal, host, operation, TOPIC, topic)
    }
