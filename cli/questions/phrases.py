"""What hosts, patterns and operations are called in sentences."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from authorizerd.acl.explanation.words import name_type
from authorizerd.acl.model import CLUSTER_NAME, WILDCARD, Operation, PatternType, ResourceType
from authorizerd.acl.operations import SUPPORTED


def describe_place(host: str | None) -> str:
    """Return the host that a question names, as the end of a phrase: `` from 10.0.0.7``."""
    return "" if host is None else f" from {host}"


def describe_resource(resource_type: int, name: str) -> str:
    """Return what one resource is called: ``topic orders``, or ``the cluster``."""
    if resource_type == ResourceType.CLUSTER and name == CLUSTER_NAME:
        return "the cluster"
    return f"{name_type(resource_type)} {name}"


def describe_pattern(resource_type: int, pattern_type: int, name: str) -> str:
    """Return which resources a pattern matches: ``topics that begin with orders-``.

    Another pattern type than LITERAL or PREFIXED means all names that no ACL matches.
    """
    noun, nouns = name_type(resource_type), nouns_of(resource_type)
    if pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        return f"{nouns} that no ACL names"
    if name == ("" if pattern_type == PatternType.PREFIXED else WILDCARD):
        return f"every {noun}"
    if pattern_type == PatternType.PREFIXED:
        return f"{nouns} that begin with {name}"
    return describe_resource(resource_type, name)


def describe_exception(pattern_type: int, name: str) -> str:
    """Return what a pattern is called within the description of another one."""
    return f"those that begin with {name}" if pattern_type == PatternType.PREFIXED else name


def describe_operations(resource_type: int, operations: Collection[int]) -> str:
    """Return the operations by Kafka's names, or ``every operation`` if there are no others."""
    if len(operations) > 1 and set(SUPPORTED[ResourceType(resource_type)]) <= {*operations}:
        return "every operation"
    return ", ".join(Operation(code).name for code in sorted(operations))


def list_names(names: Sequence[str], limit: int | None) -> str:
    """Return the first names, and how many follow. ``limit`` None: all of them."""
    shown = names if limit is None else names[:limit]
    rest = len(names) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")


def nouns_of(resource_type: int) -> str:
    """Return the plural of a resource type: ``topics``."""
    return f"{name_type(resource_type)}s"


def join_operations(operations: Iterable[int]) -> str:
    """Return operations by Kafka's names."""
    return ", ".join(Operation(code).name for code in operations)
