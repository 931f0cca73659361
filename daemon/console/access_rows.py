"""The rows of *Who can* and *What can*: what a search has found, with everyone and the denied.

**Invariant:** the rows of all pages of a search are the whole answer. A principal that no row names
has the rights of the row for everyone else, or none if there is no such row.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from operator import itemgetter
from typing import Final, Protocol

import msgspec

from authorizerd.acl.model import WILDCARD, PatternType
from authorizerd.protocol.decisions.hosts import Hosts
from authorizerd.protocol.decisions.searches import (
    ActionSearchAnswer,
    FoundResource,
    HostProperties,
    ResourceSearchAnswer,
    SubjectSearchAnswer,
)

ANY_HOST: Final = Hosts(any=True)
NO_HOST: Final = Hosts(any=False)
EVERYONE_ELSE: Final = "everyone else"

_PREFIXED: Final = PatternType.PREFIXED.name


class Row(Protocol):
    """A row. Its fields are those of a line of JSON."""

    def cells(self) -> tuple[str, ...]:
        """Return the texts of its columns."""


class PrincipalRow(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A principal, or everyone that no other row names, and the hosts from which it is allowed.

    Attributes:
        hosts: None if only ``denied_host`` is known.
        denied_host: the host that the question names, if the principal is denied from it although
            everyone else is allowed.
        super_user: True for a super user, whom no ACL can deny.
    """

    principal: str | None
    hosts: Hosts | None
    denied_host: str | None = None
    super_user: bool = False

    def cells(self) -> tuple[str, ...]:
        who = EVERYONE_ELSE if self.principal is None else self.principal
        where = f"not from {self.denied_host}" if self.hosts is None else str(self.hosts.access)
        return who, f"{where} (super user)" if self.super_user else where


class Pattern(msgspec.Struct, frozen=True, gc=False):
    """A pattern of resources."""

    pattern_type: str
    resource_name: str


class ResourceRow(
    msgspec.Struct, frozen=True, gc=False, omit_defaults=True, rename={"excepted": "except"}
):
    """Resources, and the hosts from which they are allowed.

    Attributes:
        pattern: None for all names that no ACL's pattern matches.
        excepted: patterns inside this one for which the row says nothing.
        except_left_out: how many more of these there are.
    """

    resource_type: str
    pattern: Pattern | None
    hosts: Hosts
    excepted: tuple[Pattern, ...] = ()
    except_left_out: int = 0

    def cells(self) -> tuple[str, ...]:
        exceptions = ", ".join(
            f"{each.resource_name}{'…' if each.pattern_type == _PREFIXED else ''}"
            for each in self.excepted
        )
        if self.except_left_out:
            exceptions += f", and {self.except_left_out} more"
        name = "" if self.pattern is None else self.pattern.resource_name
        return name, _describe(self.pattern), exceptions, str(self.hosts.access)


class OperationRow(msgspec.Struct, frozen=True, gc=False):
    """An operation, and the hosts from which it is allowed."""

    operation: str
    hosts: Hosts

    def cells(self) -> tuple[str, ...]:
        return self.operation, str(self.hosts.access)


def _describe(pattern: Pattern | None) -> str:
    """Return which names a pattern means."""
    if pattern is None:
        return "every name that no ACL matches"
    if pattern.pattern_type == _PREFIXED:
        return "every name that begins so"
    return "every name" if pattern.resource_name == WILDCARD else "this name"


def read_principals(
    kind: str, host: str, answer: SubjectSearchAnswer, *, is_first: bool
) -> Iterator[PrincipalRow]:
    """Yield the rows of one page of a search for subjects, sorted.

    Args:
        kind: Kafka's type of the principals.
        host: the only host that was asked about; empty for all hosts.
        is_first: whether this is the first page, which has the row for everyone else.
    """
    everyone = answer.context.everyone_hosts
    if is_first and everyone is not None:
        yield PrincipalRow(None, everyone)
    allowed = (
        (each.id, _hosts_of(each.properties), None, _properties_of(each.properties).super_user)
        for each in answer.results
    )
    # From other hosts than the one that was asked about, they may be allowed.
    nowhere = (None, host) if host else (NO_HOST, None)
    denied = ((name, *nowhere, False) for name in answer.context.everyone_except)
    for name, hosts, denied_host, super_user in merge(allowed, denied, key=itemgetter(0)):
        yield PrincipalRow(f"{kind}:{name}", hosts, denied_host, super_user)


def read_resources(
    kind: str, answer: ResourceSearchAnswer, *, is_first: bool
) -> Iterator[ResourceRow]:
    """Yield the rows of one page of a search for resources of a type, sorted."""
    if is_first and answer.context.unlisted:
        yield ResourceRow(kind, None, ANY_HOST)
    for found in answer.results:
        yield _make_resource_row(kind, found)


def _make_resource_row(kind: str, found: FoundResource) -> ResourceRow:
    properties = found.properties
    assert properties is not None, "every result has its hosts"
    assert properties.hosts is not None, "every result has its hosts"
    excepted = tuple(Pattern(each.pattern_type, each.id) for each in properties.exceptions)
    pattern = Pattern(properties.pattern_type, found.id)
    return ResourceRow(kind, pattern, properties.hosts, excepted, properties.exceptions_left_out)


def read_operations(answer: ActionSearchAnswer, *, is_first: bool) -> Iterator[OperationRow]:
    """Yield the rows of one page of a search for actions."""
    del is_first
    for found in answer.results:
        yield OperationRow(found.name.upper(), _hosts_of(found.properties))


def _hosts_of(properties: HostProperties | None) -> Hosts:
    return _properties_of(properties).hosts


def _properties_of(properties: HostProperties | None) -> HostProperties:
    assert properties is not None, "every result has its hosts"
    return properties
