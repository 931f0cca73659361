"""``authorizerd explain``: one decision, why it is so, and what would change it.

**Invariant:** the settings that the decision depends on are printed with their origin, because a
daemon or a broker with other settings may decide differently.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import msgspec

from authorizerd.acl.explanation.description import ANY_SERVER, describe
from authorizerd.acl.explanation.explainer import explain_fully
from authorizerd.acl.explanation.model import Explanation
from authorizerd.acl.model import Question
from authorizerd.acl.steps import finish
from authorizerd.cli.acl_source import (
    AclSource,
    Place,
    ReadBrokers,
    add_source_arguments,
    open_source,
)
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
from authorizerd.cli.questions.answers import (
    EXIT_DENIED,
    add_json_argument,
    print_document,
    print_lines,
)
from authorizerd.cli.questions.documents import new_source
from authorizerd.protocol.decisions.explanations import make_explanation_answer


def add_explain_arguments(parser: argparse.ArgumentParser, read_brokers: ReadBrokers) -> None:
    """Make ``parser`` parse and run this command."""
    parser.set_defaults(run=_run)
    parser.add_argument("--principal", required=True, help=PRINCIPAL_HELP)
    parser.add_argument("--host", metavar="ADDRESS", help=f"{HOST_HELP} (default: unknown)")
    parser.add_argument("--operation", required=True, help=OPERATION_HELP)
    add_resource_arguments(parser)
    add_json_argument(parser)
    add_source_arguments(parser, read_brokers)


def _run(arguments: argparse.Namespace) -> int:
    """Print the explanation; return the exit code.

    Raises as ``open_source``.
    """
    question = _question(arguments)
    source = open_source(arguments)
    explanation = finish(explain_fully(source.snapshot, source.settings, question))
    if arguments.json:
        print_document(_document(source, explanation))
    else:
        print_lines(_lines(source, explanation))
    return 0 if explanation.decision.allowed else EXIT_DENIED


def _lines(source: AclSource, explanation: Explanation) -> Iterator[str]:
    yield from describe(explanation, _server(source), source.describe_acls())
    yield source.describe_settings()


def _document(source: AclSource, explanation: Explanation) -> dict[str, object]:
    """Return the document of ``POST /v1/explain``, and the source of the ACLs."""
    answer = make_explanation_answer(explanation, _server(source))
    fields: dict[str, object] = msgspec.to_builtins(answer)
    # A listing of brokers has no offset.
    return {**fields, "offset": source.offset, "source": new_source(source)}


def _server(source: AclSource) -> str:
    """Return the address for commands that change the ACLs."""
    return source.name if source.place is Place.BROKERS else ANY_SERVER


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
