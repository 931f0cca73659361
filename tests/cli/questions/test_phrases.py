"""The sentences of answers about access."""

from __future__ import annotations

import pytest

from authorizerd.acl.model import Operation, PatternType, ResourceType
from authorizerd.acl.operations import SUPPORTED
from authorizerd.cli.questions.phrases import (
    describe_exception,
    describe_operations,
    describe_pattern,
    list_names,
)
from authorizerd.cli.questions.what_can import find_covered

LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP


@pytest.mark.parametrize(
    ("resource_type", "pattern_type", "name", "said"),
    [
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
    ],
)
def test_patterns(resource_type: int, pattern_type: int, name: str, said: str) -> None:
    assert describe_pattern(resource_type, pattern_type, name) == said


def test_exceptions() -> None:
    assert describe_exception(LITERAL, "orders-secret") == "orders-secret"
    assert describe_exception(PREFIXED, "orders-x-") == "those that begin with orders-x-"


@pytest.mark.parametrize(
    ("resource_type", "operations", "said"),
    [
        (TOPIC, [Operation.WRITE, Operation.READ], "READ, WRITE"),
        (TOPIC, SUPPORTED[TOPIC], "every operation"),
        (TOPIC, SUPPORTED[TOPIC][1:], ", ".join(each.name for each in SUPPORTED[TOPIC][1:])),
        (ResourceType.DELEGATION_TOKEN, [Operation.DESCRIBE], "DESCRIBE"),
    ],
)
def test_operations(resource_type: int, operations: list[int], said: str) -> None:
    assert describe_operations(resource_type, operations) == said


@pytest.mark.parametrize(
    ("limit", "said"), [(None, "a, b, c"), (3, "a, b, c"), (2, "a, b and 1 more")]
)
def test_names_beyond_the_limit_are_counted(limit: int | None, said: str) -> None:
    assert list_names(("a", "b", "c"), limit) == said


TOPICS = ("*a", "orders", "orders-a", "orders-b", "orders-b-1", "payments")


@pytest.mark.parametrize(
    ("pattern_type", "name", "exceptions", "covered"),
    [
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
    ],
)
def test_topics_that_a_pattern_covers(
    pattern_type: int, name: str, exceptions: tuple[tuple[int, str], ...], covered: list[str]
) -> None:
    """As in Kafka, the wildcard skips names that begin with an asterisk."""
    assert find_covered(TOPICS, pattern_type, name, exceptions) == covered
