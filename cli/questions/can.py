"""``authorizerd can``: the operations that a principal may do to one resource, and the others."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from authorizerd.acl.known_settings import NO_DOUBT, Doubt, doubt_denial
from authorizerd.acl.operations import SUPPORTED
from authorizerd.acl.search.actions import ActionAccess, find_actions
from authorizerd.acl.search.hosts import NOWHERE, HostAccess
from authorizerd.cli import question_words as asked
from authorizerd.cli.acl_source import AclSource, add_source_arguments, read_source
from authorizerd.cli.flags import Refuse, add_json_argument
from authorizerd.cli.output import (
    align,
    print_answer,
)
from authorizerd.cli.questions import documents
from authorizerd.cli.questions.phrases import (
    describe_operations,
    describe_place,
    describe_resource,
    join_operations,
)
from authorizerd.cli.questions.principals import describe_principal, is_named
from authorizerd.protocol.decisions.hosts import new_hosts


def add_can_arguments(parser: argparse.ArgumentParser) -> None:
    """Make ``parser`` parse and run this command."""
    parser.set_defaults(run=_run)
    parser.add_argument("principal", metavar="PRINCIPAL", help=asked.PRINCIPAL_HELP)
    asked.add_resource_arguments(parser)
    asked.add_host_argument(parser, "show all hosts")
    add_json_argument(parser)
    add_source_arguments(parser)


def _run(arguments: argparse.Namespace) -> int:
    """Print the operations; return the exit code."""
    refuse: Refuse = arguments.refuse
    principal = asked.read_one_principal(arguments.principal, "PRINCIPAL", refuse)
    resource = asked.read_resource(arguments, refuse)
    host = asked.read_host(arguments.host, refuse)
    source = read_source(arguments)
    found = find_actions(source.snapshot, source.settings.least, principal, *resource)
    answer = _Answer(source, principal, resource, host, found)
    return print_answer(
        as_json=arguments.json,
        document=answer.document,
        lines=answer.lines,
        is_positive=answer.is_anything_allowed,
    )


class _Answer:
    """The operations that a principal may do on one resource, from any host or ``host``."""

    def __init__(
        self,
        source: AclSource,
        principal: str,
        resource: asked.Resource,
        host: str | None,
        found: Sequence[ActionAccess],
    ) -> None:
        self._source = source
        self._principal = principal
        self._resource = resource
        self._host = host
        hosts = {each.operation: each.hosts for each in found}
        self._access = {
            operation: hosts.get(operation, NOWHERE) for operation in SUPPORTED[resource[0]]
        }

    def _is_allowed(self, hosts: HostAccess) -> bool:
        return hosts.may_allow(self._host)

    @property
    def is_anything_allowed(self) -> bool:
        return any(map(self._is_allowed, self._access.values()))

    @property
    def _doubt(self) -> Doubt:
        """Why what is denied may be allowed after all."""
        if all(hosts.is_everywhere for hosts in self._access.values()):
            return NO_DOUBT
        source = self._source
        return doubt_denial(source.snapshot, source.settings, self._principal, *self._resource)

    def lines(self) -> Iterator[str]:
        """Yield the answer for people: operations with the same hosts share a line."""
        resource_type, name = self._resource
        by_hosts: dict[str, list[int]] = {}
        for operation, hosts in self._access.items():
            if self._is_allowed(hosts):
                where = str(hosts) if self._host is None else hosts.name_releases(self._host)
                by_hosts.setdefault(where, []).append(operation)
        who = describe_principal(self._source, self._principal)
        what = f"{describe_resource(resource_type, name)}{describe_place(self._host)}"
        doubt = self._doubt
        yield (
            f"{who} may do this to {what}:"
            if by_hosts
            else f"{who} may do nothing to {what}{doubt}"
        )
        yield from align(
            [
                (describe_operations(resource_type, operations), where)
                for where, operations in by_hosts.items()
            ]
        )
        denied = [each for each, hosts in self._access.items() if not self._is_allowed(hosts)]
        if by_hosts and denied:
            yield f"but not {join_operations(denied)}{doubt}"
        elif by_hosts and doubt.keys and self._host is None:
            yield f"and from no other host{doubt}"
        yield from self._source.describe()

    def document(self) -> documents.Can:
        """Return the answer for programs."""
        resource_type, name = self._resource
        return documents.Can(
            principal=self._principal,
            named=is_named(self._source, self._principal),
            super_user=self._source.settings.is_super_user(self._principal),
            resource_type=resource_type.name,
            resource_name=name,
            host=self._host,
            operations=tuple(
                documents.OperationAccess(
                    operation=operation.name,
                    allowed=self._is_allowed(hosts),
                    hosts=new_hosts(hosts),
                )
                for operation, hosts in self._access.items()
            ),
            unknown_settings=self._doubt.keys,
            source=documents.new_source(self._source),
        )
