"""``authorizerd explain``: one decision, and the rule behind it.

**Invariant:** the settings that the decision depends on are printed with their origin, because a
daemon or a broker with other settings may decide differently.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from authorizerd.acl.audit import audit_message
from authorizerd.acl.decision import Decision, explain
from authorizerd.acl.matching import matching_acls
from authorizerd.acl.model import Acl, Question
from authorizerd.cli.acl_source import AclSource, ReadBrokers, add_source_arguments, open_source
from authorizerd.cli.question_words import (
    HOST_HELP,
    OPERATION_HELP,
    PRINCIPAL_HELP,
    Refuse,
    add_resource_arguments,
    read_host,
    read_one_principal,
    read_operation,
    read_resource,
)
from authorizerd.cli.questions.answers import EXIT_DENIED, print_lines


def add_explain_arguments(parser: argparse.ArgumentParser, read_brokers: ReadBrokers) -> None:
    """Make ``parser`` parse and run this command."""
    parser.set_defaults(run=_run)
    parser.add_argument("--principal", required=True, help=PRINCIPAL_HELP)
    parser.add_argument("--host", help=f"{HOST_HELP} (default: unknown)")
    parser.add_argument("--operation", required=True, help=OPERATION_HELP)
    add_resource_arguments(parser)
    add_source_arguments(parser, read_brokers)


def _run(arguments: argparse.Namespace) -> int:
    """Print the decision; return the exit code.

    Raises as ``open_source``.
    """
    question = _question(arguments)
    source = open_source(arguments)
    decision = explain(source.snapshot, source.settings, question)
    print_lines(_describe_decision(source, question, decision))
    return 0 if decision.allowed else EXIT_DENIED


def _describe_decision(source: AclSource, question: Question, decision: Decision) -> Iterator[str]:
    """Yield the decision with its rule, every ACL that matches, and what the ACLs are."""
    yield audit_message(question, decision, "explain")
    for acl in sorted(matching_acls(source.snapshot, question), key=_by_permission):
        yield f"  {acl}"
    yield from source.describe()


def _by_permission(acl: Acl) -> tuple[int, str]:
    return acl.permission_type, str(acl)


def _question(arguments: argparse.Namespace) -> Question:
    refuse: Refuse = arguments.refuse
    resource_type, name = read_resource(arguments, refuse)
    return Question(
        read_one_principal(arguments.principal, "--principal", refuse),
        read_host(arguments.host, refuse),
        read_operation(arguments.operation, "--operation", refuse),
        resource_type,
        name,
    )
