"""``authorizerd explain``: one decision, why it is so, and what would change it.

**Invariant:** the settings that the decision depends on are printed with their origin, because a
daemon or a broker with other settings may decide differently.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec.structs import replace

from authorizerd.acl.as_of import AsOf, Moment
from authorizerd.acl.explanation.description import ANY_SERVER, describe
from authorizerd.acl.explanation.explainer import explain_fully
from authorizerd.acl.explanation.model import Explanation
from authorizerd.acl.model import Question
from authorizerd.acl.past import AnswerChange, concerns
from authorizerd.acl.steps import finish
from authorizerd.cli.acl_source import (
    AclSource,
    Place,
    ReadBrokers,
    add_source_arguments,
    open_source,
)
from authorizerd.cli.question_words import (
    OPERATION_HELP,
    PRINCIPAL_HELP,
    Refuse,
    add_host_argument,
    add_resource_arguments,
    read_host,
    read_one_principal,
    read_operation,
    read_resource,
)
from authorizerd.cli.questions.answers import (
    add_json_argument,
    print_answer,
    warn,
)
from authorizerd.cli.questions.documents import new_source
from authorizerd.cli.questions.past_answers import find_past_answers
from authorizerd.metadata.errors import MetadataLogError
from authorizerd.metadata.history import History, read_history
from authorizerd.metadata.past import PastLog, read_past
from authorizerd.protocol.decisions.explanations import make_explanation_answer
from authorizerd.protocol.decisions.past_answers import NowAnswer, make_as_of, make_past_change


class _Today(msgspec.Struct, frozen=True):
    """Today's answer, if it is another one than that of ``--as-of``.

    Attributes:
        offset: the end of the log.
        since: the change since which it is the answer.
    """

    offset: int
    since: AnswerChange


def add_explain_arguments(parser: argparse.ArgumentParser, read_brokers: ReadBrokers) -> None:
    """Make ``parser`` parse and run this command."""
    parser.set_defaults(run=_run)
    parser.add_argument("--principal", required=True, help=PRINCIPAL_HELP)
    add_host_argument(parser, "unknown")
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
    today = _find_today(source, explanation)
    return print_answer(
        as_json=arguments.json,
        document=lambda: _document(source, explanation, today),
        lines=lambda: _lines(source, explanation, today),
        is_positive=explanation.decision.allowed,
    )


def _find_today(source: AclSource, explanation: Explanation) -> _Today | None:
    """Return today's answer, or None if it is the same, or if it cannot be read."""
    if source.moment is None:
        return None
    question, begin = explanation.question, AsOf(offset=source.moment.offset)

    def read(log: PastLog) -> History:
        return read_history(log, lambda acl: concerns(acl, question, source.settings), since=begin)

    try:
        history = read_past(Path(source.name), read)
    except MetadataLogError as error:
        warn(f"it is not known whether today's answer is another one: {error}")
        return None
    changes = find_past_answers(history, source.settings, question).changes
    if not changes or changes[-1].allowed == explanation.decision.allowed:
        return None
    return _Today(history.end.offset, changes[-1])


def _lines(source: AclSource, explanation: Explanation, today: _Today | None) -> Iterator[str]:
    now = None
    if today is not None:
        change = today.since.change
        answer = "allowed" if today.since.allowed else "denied"
        verb = "added" if change.is_added else "removed"
        since = Moment(change.offset, change.time_ms)
        now = f"now: {answer}, since {since}, because this was {verb}: {change.acl}"
    yield from describe(explanation, _server(source), source.describe_acls(), now)
    yield source.describe_settings()


def _document(
    source: AclSource, explanation: Explanation, today: _Today | None
) -> dict[str, object]:
    """Return the document of ``POST /v1/explain``, and the source of the ACLs."""
    answer = make_explanation_answer(explanation, _server(source))
    if source.moment is not None:
        now = None
        if today is not None:
            now = NowAnswer(today.since.allowed, today.offset, make_past_change(today.since.change))
        answer = replace(answer, as_of=make_as_of(source.moment, now))
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
