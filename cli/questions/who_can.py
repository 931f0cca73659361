"""``authorizerd who-can`` and ``can``: who may perform an operation, and what a principal may do.

**Invariant:** a principal is listed only if an ACL or ``super.users`` names it. All other
principals share one line, because they are not known. Programs rely on the names of fields in the
JSON documents, which docs/documents.md describes: a change only adds fields.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from authorizerd.acl.known_settings import (
    ALLOW_EVERYONE,
    NO_DOUBT,
    SUPER_USERS,
    Doubt,
    doubt_denial,
)
from authorizerd.acl.model import Operation
from authorizerd.acl.operations import SUPPORTED
from authorizerd.acl.search.actions import find_actions
from authorizerd.acl.search.hosts import NOWHERE, HostAccess
from authorizerd.acl.search.subjects import SubjectAccess, Subjects, find_subjects
from authorizerd.cli import question_words as asked
from authorizerd.cli.acl_source import AclSource, add_source_arguments, read_source
from authorizerd.cli.flags import Refuse, add_json_argument
from authorizerd.cli.output import align, indent, print_answer, warn
from authorizerd.cli.questions import phrases
from authorizerd.protocol.decisions.hosts import new_hosts

_UNKNOWN: Final = {
    SUPER_USERS: "and the brokers' super users, which are unknown",
    ALLOW_EVERYONE: f"and everyone, if {ALLOW_EVERYONE} is true, which is unknown",
}


def _add_common_arguments(parser: argparse.ArgumentParser) -> None:
    asked.add_resource_arguments(parser)
    asked.add_host_argument(parser, "show all hosts")
    add_json_argument(parser)
    add_source_arguments(parser)


def add_who_can_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_run_who_can)
    parser.add_argument("operation", metavar="OPERATION", help=asked.OPERATION_HELP)
    _add_common_arguments(parser)


def _run_who_can(arguments: argparse.Namespace) -> int:
    refuse: Refuse = arguments.refuse
    operation = asked.read_operation(arguments.operation, "OPERATION", refuse)
    resource = asked.read_resource(arguments, refuse)
    host = asked.read_host(arguments.host, refuse)
    supported = (Operation.ALL, *SUPPORTED[resource[0]])
    if operation not in supported:
        nouns, known = phrases.nouns_of(resource[0]), phrases.join_operations(supported)
        warn(f"Kafka never asks for {operation.name} on {nouns}: their operations are {known}")
    source = read_source(arguments)
    found = find_subjects(source.snapshot, source.settings.least, operation, *resource)
    return _WhoCan(source, operation, resource, host, found).print(as_json=arguments.json)


class _WhoCan:
    """The principals that are allowed, from any host or from ``host``."""

    def __init__(
        self,
        source: AclSource,
        operation: Operation,
        resource: asked.Resource,
        host: str | None,
        found: Subjects,
    ) -> None:
        self._source = source
        self._operation = operation
        self._resource = resource
        self._host = host
        self._everyone = found.everyone  # the result for a principal that no ACL names
        self._allowed, self._denied = found.split(self._is_allowed)
        # Super users and an open default add nothing to what everyone may do from any host.
        is_everything = found.everyone.is_everywhere and not found.excluded
        self._unknown = () if is_everything else tuple(self._find_unknown())

    def _find_unknown(self) -> Iterator[str]:
        """Yield the unknown settings that may allow more."""
        if self._source.settings.super_users is None:
            yield SUPER_USERS
        if self._source.settings.may_open(self._source.snapshot, *self._resource):
            yield ALLOW_EVERYONE

    def _is_allowed(self, hosts: HostAccess) -> bool:
        return hosts.may_allow(self._host)

    def print(self, *, as_json: bool) -> int:
        return print_answer(
            as_json=as_json,
            document=self._document,
            lines=self._lines,
            is_positive=bool(self._allowed or self._unknown) or self._is_allowed(self._everyone),
        )

    def _lines(self) -> Iterator[str]:
        what = f"{self._operation.name} on {phrases.describe_resource(*self._resource)}"
        yield f"{what}{phrases.describe_place(self._host)} is allowed to:"
        yield from align([*map(self._row, self._allowed)])
        yield from indent([self._describe_everyone(), *map(_UNKNOWN.__getitem__, self._unknown)])
        yield from self._source.describe()

    def _row(self, subject: SubjectAccess) -> tuple[str, str]:
        is_super = self._source.settings.is_super_user(subject.principal)
        words = phrases.describe_hosts(subject.hosts, self._host), "(super user)" * bool(is_super)
        return subject.principal, " ".join(filter(None, words))

    def _describe_everyone(self) -> str:
        if not self._is_allowed(self._everyone):
            nobody = "nobody else" if self._allowed else "nobody"
            return f"{nobody} by the ACLs" if self._unknown else nobody
        parts = ["everyone else too" if self._allowed else "everyone"]
        parts.append(phrases.describe_hosts(self._everyone, self._host))
        if self._denied:
            parts.append(f"except {', '.join(each.principal for each in self._denied)}")
        return ", ".join(filter(None, parts))

    def _document(self) -> dict[str, object]:
        resource_type, name = self._resource
        return {
            "operation": self._operation.name,
            "resource_type": resource_type.name,
            "resource_name": name,
            "host": self._host,
            "principals": [*map(self._document_of, self._allowed)],
            "everyone_else": new_hosts(self._everyone),
            "denied": [*map(self._document_of, self._denied)],
            "unknown_settings": self._unknown,
            "source": self._source.document,
        }

    def _document_of(self, subject: SubjectAccess) -> dict[str, object]:
        return {
            "principal": subject.principal,
            "super_user": self._source.settings.is_super_user(subject.principal),
            "hosts": new_hosts(subject.hosts),
        }


def add_can_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_run_can)
    asked.add_principal_argument(parser)
    _add_common_arguments(parser)


def _run_can(arguments: argparse.Namespace) -> int:
    refuse: Refuse = arguments.refuse
    principal = asked.read_asked_principal(arguments, refuse)
    resource = asked.read_resource(arguments, refuse)
    host = asked.read_host(arguments.host, refuse)
    source = read_source(arguments)
    found = find_actions(source.snapshot, source.settings.least, principal, *resource)
    hosts = {each.operation: each.hosts for each in found}
    access = {each: hosts.get(each, NOWHERE) for each in SUPPORTED[resource[0]]}
    answer = _Can(source, principal, resource, host, access)
    return print_answer(
        as_json=arguments.json,
        document=answer.document,
        lines=answer.lines,
        is_positive=any(map(answer.is_allowed, access)),
    )


class _Can(msgspec.Struct, frozen=True):
    """The operations that a principal may do on one resource, from any host or ``host``."""

    source: AclSource
    principal: str
    resource: asked.Resource
    host: str | None
    access: Mapping[Operation, HostAccess]

    def is_allowed(self, operation: Operation) -> bool:
        return self.access[operation].may_allow(self.host)

    @property
    def _doubt(self) -> Doubt:
        """The reasons why a denial may be wrong."""
        if all(hosts.is_everywhere for hosts in self.access.values()):
            return NO_DOUBT
        source = self.source
        return doubt_denial(source.snapshot, source.settings, self.principal, *self.resource)

    def lines(self) -> Iterator[str]:
        """Yield the answer for people: operations with the same hosts share a line."""
        resource_type, doubt = self.resource[0], self._doubt
        by_hosts: dict[str, list[int]] = {}
        for operation in filter(self.is_allowed, self.access):
            where = phrases.describe_hosts(self.access[operation], self.host)
            by_hosts.setdefault(where, []).append(operation)
        who = phrases.describe_principal(self.source, self.principal)
        what = f"{phrases.describe_resource(*self.resource)}{phrases.describe_place(self.host)}"
        if by_hosts:
            yield f"{who} may do this to {what}:"
        else:
            yield f"{who} may do nothing to {what}{doubt}"
        rows = [
            (phrases.describe_operations(resource_type, each), on) for on, each in by_hosts.items()
        ]
        yield from align(rows)
        denied = [each for each in self.access if not self.is_allowed(each)]
        if by_hosts and denied:
            yield f"but not {phrases.join_operations(denied)}{doubt}"
        elif by_hosts and doubt.keys and self.host is None:
            yield f"and from no other host{doubt}"
        yield from self.source.describe()

    def document(self) -> dict[str, object]:
        """Return the answer for programs: every operation that the resource type has."""
        resource_type, name = self.resource
        return {
            "principal": self.principal,
            "named": phrases.is_named(self.source, self.principal),
            "super_user": self.source.settings.is_super_user(self.principal),
            "resource_type": resource_type.name,
            "resource_name": name,
            "host": self.host,
            "operations": [
                {
                    "operation": operation.name,
                    "allowed": self.is_allowed(operation),
                    "hosts": new_hosts(hosts),
                }
                for operation, hosts in self.access.items()
            ],
            "unknown_settings": self._doubt.keys,
            "source": self.source.document,
        }
