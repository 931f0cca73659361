"""``authorizerd history``: when access changed, and by which change, as far back as a log reaches.

**Invariant:** every line names the offset from which it holds, so ``--as-of`` with that offset
gives the same ACLs. Unreadable parts of the past are named.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

import msgspec

from authorizerd.acl import past
from authorizerd.acl.as_of import Moment
from authorizerd.acl.audit.authors import Authors, Certainty
from authorizerd.acl.decision import AuthorizerSettings, is_allowed
from authorizerd.acl.errors import SearchLimitError
from authorizerd.acl.grants.reading import show_acl
from authorizerd.acl.index.builder import build
from authorizerd.acl.known_settings import (
    ALLOW_EVERYONE,
    NO_DOUBT,
    SUPER_USERS,
    Doubt,
    KnownSettings,
)
from authorizerd.acl.model import WILDCARD_PRINCIPAL, Acl, AclAdded, Question
from authorizerd.acl.patterns import matches
from authorizerd.acl.search.actions import find_actions
from authorizerd.acl.search.hosts import HostAccess
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.acl.text.kafka_acls import RESOURCE_FLAGS
from authorizerd.acl.text.named_acl import name_acl
from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.cli import question_words as asked
from authorizerd.cli.acl_source import LogPlace, SourceRequest, add_log_arguments, read_log_place
from authorizerd.cli.flags import Refuse, add_json_argument, add_text, read_request
from authorizerd.cli.output import print_document, print_lines
from authorizerd.cli.questions.authors import add_audit_arguments, read_authors
from authorizerd.cli.source_settings import USE_CONFIG, describe_settings
from authorizerd.metadata.past.history import History, read_history
from authorizerd.metadata.past.past_log import PastLog, read_past
from authorizerd.protocol.decisions import past_answers


class PastAnswers(msgspec.Struct, frozen=True):
    """The answer at the beginning of a history, and the changes that reversed it, oldest first.

    Attributes:
        hosts: for denials of an unknown host, the hosts that would be allowed. The key is the
            change's offset, or None for the first answer.
    """

    first: bool
    changes: tuple[past.AnswerChange, ...]
    hosts: Mapping[int | None, HostAccess]


def find_past_answers(
    history: History, settings: AuthorizerSettings, question: Question
) -> PastAnswers:
    """Return the answers to ``question``; ``history`` has all ACLs that concern it."""
    first = build((AclAdded(acl_id, acl) for acl_id, acl in history.acls.items()), 0)
    last = first
    for change in history.changes:
        last = past.redo_change(last, change)
    found = past.find_answer_changes(last, settings, question, history.changes)
    changes = tuple(reversed(found))
    hosts: dict[int | None, HostAccess] = {}
    if question.host is None:
        hosts = _find_hosts(history, settings, question, first, changes)
    return PastAnswers(is_allowed(first, settings, question), changes, hosts)


def _find_hosts(
    history: History,
    settings: AuthorizerSettings,
    question: Question,
    snapshot: AclSnapshot,
    changes: Sequence[past.AnswerChange],
) -> dict[int | None, HostAccess]:
    wanted = {each.change.offset for each in changes if not each.allowed}
    found: dict[int | None, HostAccess | None] = {}
    if not is_allowed(snapshot, settings, question):
        found[None] = _find_allowed_hosts(snapshot, settings, question)
    for offset, batch in groupby(history.changes, key=attrgetter("offset")):
        for change in batch:
            snapshot = past.redo_change(snapshot, change)
        if offset in wanted:
            found[offset] = _find_allowed_hosts(snapshot, settings, question)
    return {offset: hosts for offset, hosts in found.items() if hosts is not None}


def _find_allowed_hosts(
    snapshot: AclSnapshot, settings: AuthorizerSettings, question: Question
) -> HostAccess | None:
    """Return the hosts from which the question is allowed; None if there are none, or too many."""
    try:
        actions = find_actions(
            snapshot,
            settings,
            question.principal,
            question.resource_type,
            question.resource_name,
        )
    except SearchLimitError:
        return None
    return next(
        (action.hosts for action in actions if action.operation == question.operation), None
    )


_CHANGES: Final = {True: "added", False: "removed"}
UNKNOWN_HOST: Final = (
    "the host is unknown: only what every host may do is allowed, and a DENY for a single host "
    "denies; pass --host ADDRESS for the answers for one host"
)


class Selection(msgspec.Struct, frozen=True):
    """The ACLs whose history is requested: those of a principal and of everyone, those that match a
    resource, or both. ``question`` is the question to answer over time, if any.
    """

    principal: str | None
    resource: asked.Resource | None
    question: Question | None
    settings: KnownSettings

    def selects(self, acl: Acl) -> bool:
        if self.principal is not None and acl.principal not in (self.principal, WILDCARD_PRINCIPAL):
            return False
        if self.resource is None:
            return True
        resource_type, name = self.resource
        return acl.resource_type == resource_type and matches(
            acl.pattern_type, acl.resource_name, name
        )

    def needs(self, acl: Acl) -> bool:
        """Return True if ``acl`` is one of these ACLs, or may decide the question."""
        if self.selects(acl):
            return True
        return self.question is not None and past.concerns(acl, self.question, self.settings.most)


def add_history_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_run)
    text = "Type:name, for example User:alice: show its ACLs, and those of User:*"
    add_text(parser, "--principal", None, text)
    asked.add_resource_arguments(parser)
    parser.add_argument(
        "--operation",
        help="with --principal and a resource: show when the answer to this question changed, and "
        f"the change that made the difference. It is {asked.OPERATION_HELP}",
    )
    parser.add_argument("--host", help=f"with --operation: {asked.HOST_HELP} (default: unknown)")
    text = f"start here (default: the beginning of the log): {asked.MOMENT_HELP}"
    add_text(parser, "--since", "MOMENT", text)
    add_text(parser, "--until", "MOMENT", "end here (default: the end of the log)")
    add_audit_arguments(parser)
    add_json_argument(parser)
    add_log_arguments(parser)


def _run(arguments: argparse.Namespace) -> int:
    refuse: Refuse = arguments.refuse
    since = asked.read_moment(arguments.since, "--since", refuse)
    until = asked.read_moment(arguments.until, "--until", refuse)
    place = read_log_place(read_request(SourceRequest, arguments))
    wanted = _read_selection(arguments, place.settings)

    def read(log: PastLog) -> History:
        return read_history(log, wanted.needs, since=since, until=until)

    history = read_past(place.path, read)
    answers = None
    if wanted.question is not None:
        answers = find_past_answers(history, wanted.settings.least, wanted.question)
    authors = read_authors(arguments, history.changes)
    doubt = NO_DOUBT if answers is None else _doubt(history, wanted, answers)
    if arguments.json:
        print_document(_make_document(history, wanted, answers, doubt, authors))
    else:
        print_lines(_describe(history, wanted, answers, place, doubt, authors))
    return 0


def _doubt(history: History, wanted: Selection, answers: PastAnswers) -> Doubt:
    question, known = wanted.question, wanted.settings
    assert question is not None, "there are answers"
    doubts: dict[str, str] = {}
    if known.super_users is None:
        doubts[SUPER_USERS] = f"{question.principal} is a super user"
    if known.least != known.most:
        if_open = find_past_answers(history, known.most, question)
        if (if_open.first, if_open.changes) != (answers.first, answers.changes):
            doubts[ALLOW_EVERYONE] = f"{ALLOW_EVERYONE} is true"
    is_denied = not (answers.first and all(change.allowed for change in answers.changes))
    return Doubt(tuple(doubts), tuple(doubts.values())) if is_denied else NO_DOUBT


def _read_selection(arguments: argparse.Namespace, settings: KnownSettings) -> Selection:
    refuse: Refuse = arguments.refuse
    principal, resource = None, None
    if arguments.principal is not None:
        principal = asked.read_principal(arguments.principal, "--principal", refuse)
    flags = (flag.replace("-", "_") for flag in (*RESOURCE_FLAGS, "cluster"))
    if any(getattr(arguments, flag) for flag in flags):
        resource = asked.read_resource(arguments, refuse)
    if arguments.operation is None:
        if arguments.host is not None:
            refuse("--host: expected --operation as well")
        if principal is None and resource is None:
            refuse("expected --principal, or a resource such as --topic NAME, or both")
        return Selection(principal, resource, None, settings)
    if principal is None or resource is None:
        refuse("--operation: expected --principal and a resource as well")
    asked.refuse_everyone(principal, "--principal", refuse)
    question = Question(
        principal,
        asked.read_host(arguments.host, refuse),
        asked.read_operation(arguments.operation, "--operation", refuse),
        *resource,
    )
    return Selection(principal, resource, question, settings)


def _describe(
    history: History,
    wanted: Selection,
    answers: PastAnswers | None,
    place: LogPlace,
    doubt: Doubt,
    authors: Authors | None,
) -> Iterator[str]:
    if history.unreadable is not None:
        yield f"the history begins late, because a file is damaged: {history.unreadable}"
    if answers is None:
        for acl in sorted(filter(wanted.selects, history.acls.values()), key=str):
            yield f"{history.begin}: in force: {show_acl(acl)}"
        for change in history.changes:
            by = _describe_author(authors, change)
            yield f"{_moment_of(change)}: {_CHANGES[change.is_added]}{by}: {show_acl(change.acl)}"
        yield f"from {history.begin} to {history.end}"
        return
    if wanted.question is not None and wanted.question.host is None:
        yield UNKNOWN_HOST
    if doubt.keys:
        yield f"each denial holds{doubt}"
    yield f"{history.begin}: {_describe_answer(answers, answers.first, None)}"
    for each in answers.changes:
        change = each.change
        why = f"{_CHANGES[change.is_added]}{_describe_author(authors, change)}: {change.acl}"
        answer = _describe_answer(answers, each.allowed, change.offset)
        yield f"{_moment_of(change)}: {answer}, because this was {why}"
    yield f"from {history.begin} to {history.end}; the settings are today's"
    yield describe_settings(place.stated, USE_CONFIG)


def _describe_author(authors: Authors | None, change: past.PastChange) -> str:
    if authors is None:
        return ""
    author = authors.find(change)
    text = escape_unprintable(str(author))
    return f" (author {text})" if author.certainty is Certainty.UNKNOWN else f" by {text}"


def _describe_answer(answers: PastAnswers, allowed: bool, offset: int | None) -> str:
    if allowed:
        return "allowed"
    hosts = answers.hosts.get(offset)
    if hosts is None:
        return "denied"
    return f"denied from an unknown host (allowed {hosts})"


def _moment_of(change: past.PastChange) -> Moment:
    return Moment(change.offset, change.time_ms)


def _make_document(
    history: History,
    wanted: Selection,
    answers: PastAnswers | None,
    doubt: Doubt,
    authors: Authors | None,
) -> dict[str, object]:
    find_author = None if authors is None else authors.find
    begin = past_answers.make_moment(history.begin)
    answered = None
    if answers is not None:
        first = past_answers.AnswerChangeAnswer(answers.first, begin.offset, begin.time, None)
        answered = (
            first,
            *(past_answers.make_answer_change(each, find_author) for each in answers.changes),
        )
    selected = filter(wanted.selects, history.acls.values())
    answer = past_answers.HistoryAnswer(
        begin=begin,
        end=past_answers.make_moment(history.end),
        acls=tuple(name_acl(acl) for acl in sorted(selected, key=str)),
        changes=tuple(
            past_answers.make_past_change(change, find_author)
            for change in history.changes
            if wanted.selects(change.acl)
        ),
        answers=answered,
        unreadable=history.unreadable,
    )
    fields: dict[str, object] = msgspec.to_builtins(answer)
    return {**fields, "unknown_settings": doubt.keys}
