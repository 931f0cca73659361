"""The rows of *Who can* and *What can*: the results of a search, everyone else, and those denied.

**Invariant:** the rows of all pages of a search are the whole answer. A principal that no row names
has the rights of the row for everyone else, or none if there is no such row.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from operator import itemgetter
from typing import Final, Protocol

import msgspec

from authorizerd.acl.model import WILDCARD, PatternType, ResourceType
from authorizerd.protocol.decisions.hosts import Hosts
from authorizerd.protocol.decisions.search_results import SearchPage
from authorizerd.protocol.decisions.searches import (
    FoundAction,
    FoundResource,
    FoundSubject,
    HostProperties,
    Query,
)

ANY_HOST: Final = Hosts(any=True)
NO_HOST: Final = Hosts(any=False)
EVERYONE_ELSE: Final = "everyone else"

_PREFIXED: Final = PatternType.PREFIXED.name


class Row(Protocol):
    """A row. Its fields are those of a JSON line."""

    def cells(self) -> tuple[str, ...]:
        """Return the texts of the row's columns."""


class PrincipalRow(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A principal, or everyone not named by another row, and the hosts from which it is allowed.

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
        excepted: patterns inside this one to which the row does not apply.
        except_left_out: the number of further patterns.
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
    """Describe the names that a pattern matches."""
    if pattern is None:
        return "every name that no ACL matches"
    if pattern.pattern_type == _PREFIXED:
        return "every name with this prefix"
    return "every name" if pattern.resource_name == WILDCARD else "this name"


def read_rows(query: Query, page: SearchPage, *, is_first: bool) -> Iterator[Row]:
    """Yield the rows of one page of a search, sorted.

    Args:
        is_first: whether this is the first page, which has the row for everyone else.
    """
    if query.principal is None:
        yield from _read_principals(query, page, is_first=is_first)
        return
    kind = ResourceType(query.resource_type).name
    if is_first and page.context.unlisted:
        yield ResourceRow(kind, None, ANY_HOST)
    for found in page.results:
        match found:
            case FoundAction(name, properties):
                yield OperationRow(name.upper(), _properties_of(properties).hosts)
            case FoundResource():
                yield _make_resource_row(kind, found)


def _read_principals(query: Query, page: SearchPage, *, is_first: bool) -> Iterator[PrincipalRow]:
    everyone = page.context.everyone_hosts
    if is_first and everyone is not None:
        yield PrincipalRow(None, everyone)
    found = ((subject.id, _properties_of(subject.properties)) for subject in _subjects(page))
    allowed = ((name, each.hosts, None, each.super_user) for name, each in found)
    # They may be allowed from other hosts than the one that was asked about.
    nowhere = (NO_HOST, None) if query.host is None else (None, query.host)
    denied = ((name, *nowhere, False) for name in page.context.everyone_except)
    for name, hosts, denied_host, super_user in merge(allowed, denied, key=itemgetter(0)):
        yield PrincipalRow(f"{query.principal_type}:{name}", hosts, denied_host, super_user)


def _subjects(page: SearchPage) -> Iterator[FoundSubject]:
    for found in page.results:
        assert isinstance(found, FoundSubject), "it is a search for subjects"
        yield found


def _make_resource_row(kind: str, found: FoundResource) -> ResourceRow:
    properties = found.properties
    assert properties is not None, "every result has its hosts"
    assert properties.hosts is not None, "every result has its hosts"
    excepted = tuple(
        Pattern(exception.pattern_type, exception.id) for exception in properties.exceptions
    )
    pattern = Pattern(properties.pattern_type, found.id)
    return ResourceRow(kind, pattern, properties.hosts, excepted, properties.exceptions_left_out)


def _properties_of(properties: HostProperties | None) -> HostProperties:
    assert properties is not None, "every result has its hosts"
    return properties
