"""The JSON of answers about the past: ``context.as_of``, and the history of ACLs.

**Invariant:** an answer about the past has ``as_of`` in its context, so it cannot be mistaken for
an answer about the present.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from authorizerd.acl.as_of import Moment, format_time
from authorizerd.acl.audit.authors import Author
from authorizerd.acl.past import AnswerChange, PastChange
from authorizerd.acl.text.named_acl import NamedAcl, name_acl

ANSWERS_MAX: Final = 200
"""The maximum number of answers in a history, so that writing it is a short step."""


class AuthorAnswer(msgspec.Struct, frozen=True, gc=False):
    """Who made a change; see ``Author``."""

    certainty: Literal["written", "complete", "only", "one_of", "unknown"]
    principals: tuple[str, ...]
    by_way_of: str | None
    reason: str


class PastChangeAnswer(msgspec.Struct, frozen=True, gc=False):
    """An ACL that was added or removed. As of ``offset``, the change is visible.

    ``by`` is absent if there is no audit log.
    """

    offset: int
    time: str | None
    change: Literal["add", "remove"]
    acl: NamedAcl
    by: AuthorAnswer | UnsetType = UNSET


class NowAnswer(msgspec.Struct, frozen=True):
    """The newest answer, at ``offset``, and the change that led to it."""

    decision: bool
    offset: int
    since: PastChangeAnswer


class AsOfAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The moment that an answer is about. Its settings are always today's.

    ``now`` is present if the newest answer differs.
    """

    offset: int
    time: str | None
    settings: Literal["today's"]
    now: NowAnswer | None = None


class AnswerChangeAnswer(msgspec.Struct, frozen=True):
    """An answer, when it began to hold, and the change that led to it; null for the first one."""

    decision: bool
    offset: int
    time: str | None
    change: PastChangeAnswer | None


class MomentAnswer(msgspec.Struct, frozen=True):
    """A log offset and the time of its batch, null if it is not known."""

    offset: int
    time: str | None


class HistoryAnswer(msgspec.Struct, frozen=True):
    """ACLs and their changes.

    Attributes:
        acls: the ACLs in force at ``begin``.
        answers: only if a question was asked.
        unreadable: the damage that prevents the history from beginning earlier, if any.
    """

    begin: MomentAnswer
    end: MomentAnswer
    acls: tuple[NamedAcl, ...]
    changes: tuple[PastChangeAnswer, ...]
    answers: tuple[AnswerChangeAnswer, ...] | None
    unreadable: str | None


class AnswerHistory(msgspec.Struct, frozen=True):
    """Every answer to a question since a moment, the oldest first, by today's settings.

    Attributes:
        begin: the moment that was asked about.
        end: the newest offset.
        answers: the first one is the answer at ``begin``; its ``change`` is null.
        answers_left_out: how many answers after the first one are left out.
    """

    begin: MomentAnswer
    end: int
    settings: Literal["today's"]
    answers: tuple[AnswerChangeAnswer, ...]
    answers_left_out: int


_encode: Final = msgspec.json.Encoder().encode


def make_as_of(moment: Moment, now: NowAnswer | None = None) -> AsOfAnswer:
    """Return the ``as_of`` part of an answer's context."""
    return AsOfAnswer(moment.offset, _time_of(moment.time_ms), "today's", now)


def add_as_of(answer: bytes, as_of: AsOfAnswer) -> bytes:
    """Return an answer of ``encode_answer`` with ``as_of`` in its context."""
    assert answer.endswith(b"}}"), "the context is the last field of an answer"
    return b'%b,"as_of":%b}}' % (answer[:-2], _encode(as_of))


def add_as_of_to_explanation(explanation: bytes, as_of: AsOfAnswer) -> bytes:
    """Return an explanation's JSON with ``as_of``."""
    assert explanation.endswith(b"}"), "an explanation is an object"
    return b'%b,"as_of":%b}' % (explanation[:-1], _encode(as_of))


FindAuthor: TypeAlias = Callable[[PastChange], Author]


def make_past_change(change: PastChange, find_author: FindAuthor | None = None) -> PastChangeAnswer:
    """Return a change with names instead of codes.

    Args:
        find_author: None if there is no audit log.
    """
    return PastChangeAnswer(
        change.offset,
        _time_of(change.time_ms),
        "add" if change.is_added else "remove",
        name_acl(change.acl),
        UNSET if find_author is None else _make_author(find_author(change)),
    )


def _make_author(author: Author) -> AuthorAnswer:
    return AuthorAnswer(author.certainty.value, author.principals, author.by_way_of, author.reason)


def make_answer_change(
    change: AnswerChange, find_author: FindAuthor | None = None
) -> AnswerChangeAnswer:
    """Return an answer and the change that led to it, with names instead of codes."""
    made = make_past_change(change.change, find_author)
    return AnswerChangeAnswer(change.allowed, made.offset, made.time, made)


def encode_answer_history(
    begin: Moment,
    end: int,
    allowed: bool,
    changes: Sequence[AnswerChange],
    find_author: FindAuthor | None = None,
) -> bytes:
    """Return the JSON of an ``AnswerHistory``.

    Args:
        allowed: the answer at ``begin``.
        changes: the changes that reversed the answer, the newest first.
    """
    shown = changes[:ANSWERS_MAX]
    first = AnswerChangeAnswer(allowed, begin.offset, _time_of(begin.time_ms), None)
    return _encode(
        AnswerHistory(
            begin=make_moment(begin),
            end=end,
            settings="today's",
            answers=(first, *(make_answer_change(each, find_author) for each in reversed(shown))),
            answers_left_out=len(changes) - len(shown),
        )
    )


def make_moment(moment: Moment) -> MomentAnswer:
    """Return a moment with its time as text."""
    return MomentAnswer(moment.offset, _time_of(moment.time_ms))


def _time_of(time_ms: int | None) -> str | None:
    return None if time_ms is None else format_time(time_ms)
