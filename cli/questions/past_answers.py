"""Since when an answer holds, by the history that a log has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter

import msgspec

from authorizerd.acl.builder import build
from authorizerd.acl.decision import AuthorizerSettings, is_allowed
from authorizerd.acl.errors import SearchLimitError
from authorizerd.acl.model import AclAdded, Question
from authorizerd.acl.past import AnswerChange, find_answer_changes, redo_change
from authorizerd.acl.search.actions import find_actions
from authorizerd.acl.search.hosts import HostAccess
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.metadata.history import History


class PastAnswers(msgspec.Struct, frozen=True):
    """The answer at the beginning of a history, and what changed it, the oldest first.

    Attributes:
        hosts: for denials of an unknown host that is allowed if it is one of some hosts: these
            hosts. The key is the change's offset, or None for the first answer.
    """

    first: bool
    changes: tuple[AnswerChange, ...]
    hosts: Mapping[int | None, HostAccess]


def find_past_answers(
    history: History, settings: AuthorizerSettings, question: Question
) -> PastAnswers:
    """Return the answers to ``question``; ``history`` has every ACL that concerns it."""
    first = build((AclAdded(acl_id, acl) for acl_id, acl in history.acls.items()), 0)
    last = first
    for change in history.changes:
        last = redo_change(last, change)
    found = find_answer_changes(last, settings, question, history.changes)
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
    changes: Sequence[AnswerChange],
) -> dict[int | None, HostAccess]:
    wanted = {each.change.offset for each in changes if not each.allowed}
    found: dict[int | None, HostAccess | None] = {}
    if not is_allowed(snapshot, settings, question):
        found[None] = _find_allowed_hosts(snapshot, settings, question)
    for offset, batch in groupby(history.changes, key=attrgetter("offset")):
        for change in batch:
            snapshot = redo_change(snapshot, change)
        if offset in wanted:
            found[offset] = _find_allowed_hosts(snapshot, settings, question)
    return {offset: hosts for offset, hosts in found.items() if hosts is not None}


def _find_allowed_hosts(
    snapshot: AclSnapshot, settings: AuthorizerSettings, question: Question
) -> HostAccess | None:
    """Return from which hosts the question is allowed; None if from none, or too many to list."""
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
    return next((each.hosts for each in actions if each.operation == question.operation), None)
