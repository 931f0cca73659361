"""The words of explanations: names of codes, resources and patterns in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from authorizerd.acl.model import (
    CLUSTER_NAME,
    Operation,
    PatternType,
    Question,
    ResourceType,
)


def name_operation(code: int) -> str:
    """Return Kafka's name of an operation."""
    return Operation.read(code).name


def name_resource(resource_type: int, name: str) -> str:
    """Return a resource in a sentence: "topic `orders`", or "the cluster"."""
    if resource_type == ResourceType.CLUSTER and name == CLUSTER_NAME:
        return "the cluster"
    return f"{name_type(resource_type)} `{name}`"


def describe_access(question: Question, name: str | None = None) -> str:
    """Return what was asked: "allowed READ on topic `orders`".

    Args:
        name: another resource's name than the question's.
    """
    resource_name = question.resource_name if name is None else name
    resource = name_resource(question.resource_type, resource_name)
    return f"allowed {name_operation(question.operation)} on {resource}"


def name_type(resource_type: int) -> str:
    """Return a resource type in a sentence: "transactional id"."""
    return ResourceType.read(resource_type).name.lower().replace("_", " ")


def name_pattern(pattern_type: int, name: str) -> str:
    """Return a resource pattern in a sentence: "prefix `orders-`"."""
    if pattern_type == PatternType.PREFIXED:
        return f"prefix `{name}`"
    return f"literal `{name}`"


def count_of(number: int, noun: str) -> str:
    """Return "1 ACL", or "2 ACLs"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def join_words(words: Sequence[str]) -> str:
    """Return "READ, WRITE and DELETE"."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
