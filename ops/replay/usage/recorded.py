"""The recorded tuples, and the rows in which each of them is counted.

**Invariant:** each event counts once for every ACL that it used. An event that the ACLs cannot
decide counts once under its reason, and a super user's event once under ``BY_SUPER_USERS``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from authorizerd.acl.model import Acl, Question
from authorizerd.replay.judging.asking import question_of
from authorizerd.replay.judging.report import Count
from authorizerd.replay.usage.matching import UseIndex, is_wide
from authorizerd.replay.usage.suggestions import AclUsage

NOT_EVALUATED: Final = -1
"""The ACLs cannot decide the tuple; ``label`` is the reason."""
BY_SUPER_USERS: Final = -2
DISAGREEING: Final = -3
"""The ACLs decide these events differently from the recorded decisions."""

WHOLE_TUPLE: Final = -1
"""A row of all changes, not of those that one ACL contributed to."""


class UseRow(NamedTuple):
    """How ``events`` used the ACL ``number``; negative numbers are the constants above.

    ``label`` is the resource's name if the ACL is wide, otherwise None. ``is_alone`` is True if no
    other ACL gave the same decision.
    """

    number: int
    label: str | None
    is_alone: bool
    events: int
    last_ms: int | None


class ChangeRow(NamedTuple):
    """A tuple that two sets decide differently, and a removed ACL that allowed it.

    ``is_allowed`` is the new decision.
    """

    number: int
    is_allowed: bool
    events: int
    principal: str
    resource_name: str


class Summed(NamedTuple):
    """The use of each used ACL, and the requests that used none."""

    usage: dict[Acl, AclUsage]
    not_evaluated: dict[str, Count]
    by_super_users: Count
    disagreeing: Count


class RecordedTuple(NamedTuple):
    """A distinct request, and the number of times each answer was recorded.

    Times are milliseconds since 1970, or None if no such event was recorded.
    """

    principal: str
    host: str | None
    operation: str
    resource_type: str
    resource_name: str
    pattern_type: str
    allowed_events: int
    denied_events: int
    allowed_last_ms: int | None
    denied_last_ms: int | None

    @property
    def events(self) -> int:
        return self.allowed_events + self.denied_events

    @property
    def question(self) -> Question:
        """Return the question to ask the ACLs, which must be able to decide the tuple."""
        return question_of(
            self.principal, self.host, self.operation, self.resource_type, self.resource_name
        )


def unasked_row(recorded: RecordedTuple, reason: str) -> UseRow:
    """Return the row of a tuple that ACLs cannot decide."""
    return UseRow(NOT_EVALUATED, reason, False, recorded.events, None)


def use_rows(index: UseIndex, recorded: RecordedTuple, *, is_allowed: bool) -> Iterator[UseRow]:
    """Yield the rows of a tuple for which ACLs decide ``is_allowed``."""
    if recorded.principal in index.super_users:
        yield UseRow(BY_SUPER_USERS, None, False, recorded.events, None)
        return
    disagreeing = recorded.denied_events if is_allowed else recorded.allowed_events
    if disagreeing:
        yield UseRow(DISAGREEING, None, False, disagreeing, None)
    question = recorded.question
    for was_allowed, events, last_ms in (
        (True, recorded.allowed_events, recorded.allowed_last_ms),
        (False, recorded.denied_events, recorded.denied_last_ms),
    ):
        if not events:
            continue
        for number, is_alone in index.uses(question, was_allowed=was_allowed):
            label = recorded.resource_name if is_wide(index.acls[number]) else None
            yield UseRow(number, label, is_alone, events, last_ms)


def change_rows(
    before: UseIndex, after: UseIndex, recorded: RecordedTuple, *, is_allowed: bool
) -> Iterator[ChangeRow]:
    """Yield the rows of a tuple that ``after`` answers with ``is_allowed``, and ``before`` not.

    The first has the number ``WHOLE_TUPLE``, and the others are one for each removed ACL that
    allowed the tuple. Each number identifies an ACL of ``before``.
    """
    change = (is_allowed, recorded.events, recorded.principal, recorded.resource_name)
    yield ChangeRow(WHOLE_TUPLE, *change)
    for number, _ in before.uses(recorded.question, was_allowed=True):
        if before.acls[number] not in after:
            yield ChangeRow(number, *change)
