"""``authorizerd who-can``: the principals that may do an operation to a resource.

**Invariant:** a principal is listed only if an ACL or ``super.users`` names it. What holds for all
others is one line, because nobody knows who they are.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Final

from authorizerd.acl.known_settings import ALLOW_EVERYONE, SUPER_USERS
from authorizerd.acl.model import Operation
from authorizerd.acl.operations import SUPPORTED
from authorizerd.acl.search.hosts import HostAccess
from authorizerd.acl.search.subjects import SubjectAccess, Subjects, find_subjects
from authorizerd.cli import question_words as asked
from authorizerd.cli.acl_source import AclSource, add_source_arguments, read_source
from authorizerd.cli.flags import Refuse, add_json_argument
from authorizerd.cli.output import (
    align,
    indent,
    print_answer,
    warn,
)
from authorizerd.cli.questions import documents
from authorizerd.cli.questions.phrases import (
    describe_place,
    describe_resource,
    join_operations,
    nouns_of,
)
from authorizerd.protocol.decisions.hosts import new_hosts

_SUPER_USER = "(super user)"
_UNKNOWN: Final = {
    SUPER_USERS: "and the brokers' super users, which are unknown",
    ALLOW_EVERYONE: f"and everyone, if {ALLOW_EVERYONE} is true, which is unknown",
}


def add_who_can_arguments(parser: argparse.ArgumentParser) -> None:
    """Make ``parser`` parse and run this command."""
    parser.set_defaults(run=_run)
    parser.add_argument("operation", metavar="OPERATION", help=asked.OPERATION_HELP)
    asked.add_resource_arguments(parser)
    asked.add_host_argument(parser, "show all hosts")
    add_json_argument(parser)
    add_source_arguments(parser)


def _run(arguments: argparse.Namespace) -> int:
    """Print who is allowed; return the exit code."""
    refuse: Refuse = arguments.refuse
    operation = asked.read_operation(arguments.operation, "OPERATION", refuse)
    resource = asked.read_resource(arguments, refuse)
    host = asked.read_host(arguments.host, refuse)
    _warn_if_unsupported(operation, resource)
    source = read_source(arguments)
    found = find_subjects(source.snapshot, source.settings.least, operation, *resource)
    answer = _Answer(source, operation, resource, host, found)
    return print_answer(
        as_json=arguments.json,
        document=answer.document,
        lines=answer.lines,
        is_positive=answer.may_anybody,
    )


def _warn_if_unsupported(operation: Operation, resource: asked.Resource) -> None:
    supported = (Operation.ALL, *SUPPORTED[resource[0]])
    if operation not in supported:
        known = join_operations(supported)
        nouns = nouns_of(resource[0])
        warn(f"Kafka never asks for {operation.name} on {nouns}: their operations are {known}")


class _Answer:
    """The principals that are allowed, from any host or from ``host``.

    ``everyone`` holds for a principal that no ACL names.
    """

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
        self._everyone = found.everyone
        self._allowed, self._denied = found.split(self._is_allowed)
        # What everybody may do from any host, super users and an open default do not extend.
        is_everything = found.everyone.is_everywhere and not found.excluded
        self._unknown = () if is_everything else tuple(self._find_unknown())

    def _find_unknown(self) -> Iterator[str]:
        """Yield the settings that are unknown, and by which more may be allowed."""
        source = self._source
        if source.settings.super_users is None:
            yield SUPER_USERS
        if source.settings.may_open(source.snapshot, *self._resource):
            yield ALLOW_EVERYONE

    def _is_allowed(self, hosts: HostAccess) -> bool:
        return hosts.may_allow(self._host)

    @property
    def may_anybody(self) -> bool:
        """Whether somebody is allowed, or may be by an unknown setting."""
        return bool(self._allowed or self._unknown) or self._is_allowed(self._everyone)

    def lines(self) -> Iterator[str]:
        """Yield the answer for people."""
        what = f"{self._operation.name} on {describe_resource(*self._resource)}"
        yield f"{what}{describe_place(self._host)} is allowed to:"
        yield from align([*map(self._row, self._allowed)])
        yield from indent([self._describe_everyone(), *map(_UNKNOWN.__getitem__, self._unknown)])
        yield from self._source.describe()

    def _row(self, subject: SubjectAccess) -> tuple[str, str]:
        is_super = self._source.settings.is_super_user(subject.principal)
        words = [self._where(subject.hosts), _SUPER_USER if is_super else ""]
        return subject.principal, " ".join(filter(None, words))

    def _where(self, hosts: HostAccess) -> str:
        """Return the hosts; if the question names one, the releases that allow, if they differ."""
        return str(hosts) if self._host is None else hosts.name_releases(self._host)

    def _describe_everyone(self) -> str:
        if not self._is_allowed(self._everyone):
            nobody = "nobody else" if self._allowed else "nobody"
            return f"{nobody} by the ACLs" if self._unknown else nobody
        parts = ["everyone else too" if self._allowed else "everyone", self._where(self._everyone)]
        if self._denied:
            parts.append(f"except {', '.join(each.principal for each in self._denied)}")
        return ", ".join(filter(None, parts))

    def document(self) -> documents.WhoCan:
        """Return the answer for programs."""
        resource_type, name = self._resource
        return documents.WhoCan(
            operation=self._operation.name,
            resource_type=resource_type.name,
            resource_name=name,
            host=self._host,
            principals=tuple(map(self._document_of, self._allowed)),
            everyone_else=new_hosts(self._everyone),
            denied=tuple(map(self._document_of, self._denied)),
            unknown_settings=self._unknown,
            source=documents.new_source(self._source),
        )

    def _document_of(self, subject: SubjectAccess) -> documents.Principal:
        return documents.Principal(
            principal=subject.principal,
            super_user=self._source.settings.is_super_user(subject.principal),
            hosts=new_hosts(subject.hosts),
        )
