"""Phrases for principals, hosts, patterns and operations in sentences."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import chain, islice
from typing import Final

from authorizerd.acl.explanation.words import name_type
from authorizerd.acl.model import (
    CLUSTER_NAME,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Operation,
    PatternType,
    ResourceType,
)
from authorizerd.acl.operations import SUPPORTED
from authorizerd.acl.search.hosts import HostAccess
from authorizerd.acl.text.similar_principals import Likeness, Lookalikes
from authorizerd.acl.text.typos import shorten
from authorizerd.cli.acl_source import AclSource


def describe_place(host: str | None) -> str:
    """Return a question's host as the end of a phrase: `` from 10.0.0.7``."""
    return "" if host is None else f" from {host}"


def describe_hosts(hosts: HostAccess, host: str | None) -> str:
    """Return the hosts; or if ``host`` is given, the releases that allow it, if they differ."""
    return str(hosts) if host is None else hosts.name_releases(host)


def describe_resource(resource_type: int, name: str) -> str:
    """Return the phrase for one resource: ``topic orders``, or ``the cluster``."""
    if resource_type == ResourceType.CLUSTER and name == CLUSTER_NAME:
        return "the cluster"
    return f"{name_type(resource_type)} {name}"


def describe_pattern(resource_type: int, pattern_type: int, name: str) -> str:
    """Return the phrase for a pattern's resources: ``topics that begin with orders-``.

    A pattern type other than LITERAL or PREFIXED means all names that no ACL matches.
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
    """Return the phrase for a pattern within the description of another pattern."""
    return f"those that begin with {name}" if pattern_type == PatternType.PREFIXED else name


def describe_operations(resource_type: int, operations: Collection[int]) -> str:
    """Return the operations by Kafka's names, or ``every operation`` if these are all."""
    if len(operations) > 1 and set(SUPPORTED[ResourceType(resource_type)]) <= {*operations}:
        return "every operation"
    return ", ".join(Operation(code).name for code in sorted(operations))


def list_names(names: Sequence[str], limit: int | None) -> str:
    """Return the first names, and the number of further ones. ``limit`` None: all names."""
    shown = names if limit is None else names[:limit]
    rest = len(names) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")


def nouns_of(resource_type: int) -> str:
    """Return the plural of a resource type: ``topics``."""
    return f"{name_type(resource_type)}s"


def join_operations(operations: Iterable[int]) -> str:
    return ", ".join(Operation(code).name for code in operations)


COMPARED_MAX: Final = 100_000
"""The maximum number of principals compared with an unknown one: less than a second's work."""


def is_named(source: AclSource, principal: str) -> bool:
    """Return True if an ACL, or ``super.users`` if known, names exactly this principal."""
    if source.settings.is_super_user(principal):
        return True
    return any(index.principals.get(principal) is not None for index in source.snapshot.types)


def describe_principal(source: AclSource, principal: str) -> str:
    if source.settings.is_super_user(principal):
        return f"{principal} (a super user)"
    if is_named(source, principal):
        return principal
    similar = find_similar(source, principal)
    meant = "" if similar is None else f"; did you mean {similar}?"
    return f"{principal} (no ACL names it: this holds for everyone{meant})"


def find_similar(source: AclSource, principal: str) -> str | None:
    """Return the named principal that resembles this one most, or else differs by one typo."""
    asked, lookalikes = frozenset(shorten(principal)), Lookalikes(principal)
    types = chain.from_iterable(index.principals for index in source.snapshot.types)
    principals = chain(sorted(source.settings.super_users or ()), types)
    similar: dict[Likeness, str] = {}
    close: str | None = None
    for other in islice(principals, COMPARED_MAX):
        if lookalikes.may_be_among(other.casefold()):
            likeness = lookalikes.compare(other)
            if likeness is Likeness.SAME:
                return other
            if likeness is not None and other != WILDCARD_PRINCIPAL:
                similar.setdefault(likeness, other)
        if abs(len(other) - len(principal)) > 1:  # this excludes nearly all principals
            continue
        if close is None and not asked.isdisjoint(shorten(other)):
            close = other
    return similar[min(similar)] if similar else close
