"""``authorizerd explain``: one decision, its reason, and what would change it.

**Invariant:** the settings that the decision depends on are printed with their origin, because a
daemon or a broker with different settings may decide differently. If a setting is unknown, a denial
names it, and proposed changes work for all its values.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from authorizerd.acl.as_of import AsOf, Moment
from authorizerd.acl.explanation.description import describe
from authorizerd.acl.explanation.explainer import explain_fully
from authorizerd.acl.explanation.model import Explanation
from authorizerd.acl.known_settings import (
    ALLOW_EVERYONE,
    NO_DOUBT,
    SUPER_USERS,
    Doubt,
    doubt_answer,
)
from authorizerd.acl.model import Question
from authorizerd.acl.past import AnswerChange, concerns
from authorizerd.acl.snapshot import EMPTY_SNAPSHOT
from authorizerd.cli import question_words as asked
from authorizerd.cli.acl_source import AclSource, add_source_arguments, read_source
from authorizerd.cli.flags import Refuse, add_json_argument
from authorizerd.cli.output import print_answer, warn
from authorizerd.cli.questions.history import find_past_answers
from authorizerd.metadata.errors import MetadataLogError
from authorizerd.metadata.past.history import History, read_history
from authorizerd.metadata.past.past_log import PastLog, read_past
from authorizerd.protocol.decisions.explanations import make_explanation_answer
from authorizerd.protocol.decisions.past_answers import NowAnswer, make_as_of, make_past_change

_FIRST_ACL: Final = (
    f"If {ALLOW_EVERYONE} is true, which is unknown, the first ACL of a resource ends the access "
    "that this setting gives everyone."
)


class _Today(msgspec.Struct, frozen=True):
    """Today's answer, if it differs from the answer for ``--as-of``.

    Attributes:
        offset: the end of the log.
        since: the change that led to this answer.
    """

    offset: int
    since: AnswerChange


def add_explain_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_run)
    parser.add_argument("--principal", required=True, help=asked.PRINCIPAL_HELP)
    asked.add_host_argument(parser, "unknown")
    parser.add_argument("--operation", required=True, help=asked.OPERATION_HELP)
    asked.add_resource_arguments(parser)
    add_json_argument(parser)
    add_source_arguments(parser)


def _run(arguments: argparse.Namespace) -> int:
    question = _question(arguments)
    source = read_source(arguments)
    explanation = _explain(source, question)
    today = _find_today(source, explanation)
    return print_answer(
        as_json=arguments.json,
        document=lambda: _document(source, explanation, today),
        lines=lambda: _lines(source, explanation, today),
        is_positive=explanation.decision.allowed,
    )


def _explain(source: AclSource, question: Question) -> Explanation:
    snapshot, known = source.snapshot, source.settings
    explanation = explain_fully(snapshot, known.least, question)
    effects: list[str] = []
    if known.allow_everyone_if_no_acl_found is None:
        if explanation.decision.allowed:
            # A change that denies must not leave a resource without ACLs.
            explanation = explain_fully(snapshot, known.most, question)
        default = replace(explanation.default, is_set=None)
        explanation = replace(explanation, default=default)
        if not default.acl_count:
            effects.append(_FIRST_ACL)
    if explanation.decision.allowed and known.super_users is None:
        effects.append(
            f"It stays allowed if {question.principal} is a super user, which is unknown."
        )
    changes = explanation.changes
    if not changes.listed:
        return explanation
    return replace(explanation, changes=replace(changes, effects=(*changes.effects, *effects)))


def _doubt(source: AclSource, explanation: Explanation) -> Doubt:
    if explanation.decision.allowed:
        return NO_DOUBT
    return doubt_answer(source.snapshot, source.settings, explanation.question)


def _doubt_today(source: AclSource, explanation: Explanation, today: _Today | None) -> Doubt:
    """Return why today's answer, if it is a denial, is uncertain. Today's ACLs are not examined."""
    if today is None or today.since.allowed:
        return NO_DOUBT
    return doubt_answer(EMPTY_SNAPSHOT, source.settings, explanation.question)


def _find_today(source: AclSource, explanation: Explanation) -> _Today | None:
    """Return today's answer; None if it is the same or cannot be read."""
    if source.moment is None:
        return None
    question, begin = explanation.question, AsOf(offset=source.moment.offset)
    settings = source.settings.least

    def read(log: PastLog) -> History:
        return read_history(log, lambda acl: concerns(acl, question, settings), since=begin)

    try:
        history = read_past(Path(source.name), read)
    except MetadataLogError as error:
        warn(f"it is not known whether today's answer is different: {error}")
        return None
    changes = find_past_answers(history, settings, question).changes
    if not changes or changes[-1].allowed == explanation.decision.allowed:
        return None
    return _Today(history.end.offset, changes[-1])


def _lines(source: AclSource, explanation: Explanation, today: _Today | None) -> Iterator[str]:
    now = None
    if today is not None:
        change = today.since.change
        doubt = _doubt_today(source, explanation, today)
        answer = "allowed" if today.since.allowed else f"denied{doubt}"
        verb = "added" if change.is_added else "removed"
        since = Moment(change.offset, change.time_ms)
        now = f"now: {answer}, since {since}, because this was {verb}: {change.acl}"
    lines = describe(explanation, source.server, source.describe_acls(), now)
    yield next(lines)
    doubt = _doubt(source, explanation)
    if doubt.keys:
        yield f"denied{doubt}"
    yield from lines
    yield source.describe_settings()


def _document(
    source: AclSource, explanation: Explanation, today: _Today | None
) -> dict[str, object]:
    answer = make_explanation_answer(explanation, source.server)
    if source.moment is not None:
        now = None
        if today is not None:
            now = NowAnswer(today.since.allowed, today.offset, make_past_change(today.since.change))
        answer = replace(answer, as_of=make_as_of(source.moment, now))
    fields: dict[str, object] = msgspec.to_builtins(answer)
    fields["offset"] = source.offset  # a listing of brokers has none
    names = {SUPER_USERS: "super_user", ALLOW_EVERYONE: "allow_everyone_if_no_acl_found"}
    unknown = {names[key]: None for key in source.settings.unknown}
    fields["settings"] = {**msgspec.to_builtins(answer.settings), **unknown}
    # Exactly one of the two answers is a denial.
    doubt, doubt_today = _doubt(source, explanation), _doubt_today(source, explanation, today)
    return {**fields, "unknown_settings": doubt.keys or doubt_today.keys, "source": source.document}


def _question(arguments: argparse.Namespace) -> Question:
    refuse: Refuse = arguments.refuse
    resource_type, name = asked.read_resource(arguments, refuse)
    return Question(
        asked.read_one_principal(arguments.principal, "--principal", refuse),
        asked.read_host(arguments.host, refuse),
        asked.read_operation(arguments.operation, "--operation", refuse),
        resource_type,
        name,
    )
