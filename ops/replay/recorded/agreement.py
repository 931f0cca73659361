"""Check whether recorded answers are those of a set of ACLs: if not, they prove nothing about it.

**Invariant:** every command that draws conclusions from a record calls ``describe_contradiction``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from authorizerd.replay.judging.asking import unasked_reason
from authorizerd.replay.judging.index import AclIndex
from authorizerd.replay.recorded.tuples import Figures, RecordedTuple

DISAGREEING_SHARE_MAX: Final = 0.05
"""Maximum share of the events that ACLs may decide differently from the record.

A few such events are normal, because ACLs change while a log is written. Many mean that the log is
from another cluster, time or configuration, or that its names were misread.
"""


class Judged(NamedTuple):
    """The events that ACLs decide, except those of super users: as recorded, or differently."""

    agrees: bool
    events: int
    tuples: int


def find_judged(tuples: Iterable[RecordedTuple], index: AclIndex) -> Iterator[Judged]:
    """Yield the events of each tuple by whether the answer is the recorded one."""
    for one in tuples:
        if unasked_reason(one) is None and one.principal not in index.settings.super_users:
            differing = find_differing(one, index)
            events = differing.events if differing else 0
            yield Judged(True, one.events - events, 0 if events == one.events else 1)
            if events:
                yield Judged(False, events, 1)


def find_differing(one: RecordedTuple, index: AclIndex) -> Figures | None:
    """Return the events that every release decides differently from the record."""
    answers = set(index.answers(one))
    if len(answers) > 1:
        return None
    return one.denied if True in answers else one.allowed


def describe_contradiction(differing: int, judged: int) -> str | None:
    """Return why a record proves nothing about ACLs, and what to do; None if it proves something.

    Args:
        differing: the events that the ACLs decide differently from the record.
        judged: the events that the ACLs decide, except those of super users.
    """
    if differing <= DISAGREEING_SHARE_MAX * judged:
        return None
    return (
        f"the ACLs decide {differing:,} of {judged:,} events ({differing / judged:.1%}) "
        f"differently from the record; above {DISAGREEING_SHARE_MAX:.0%}, a record proves "
        "nothing: pass --super-users and --allow-everyone-if-no-acl-found as the brokers have "
        "them, and use a log that these brokers wrote under these ACLs"
    )
