"""Find the ACLs that recorded requests used.

**Invariant:** an ALLOW is used by allowed requests, a DENY by denied ones. Each event counts once
for every ACL that it used. An event that the ACLs cannot decide counts once under its reason, and a
super user's event once under ``BY_SUPER_USERS``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple

from authorizerd.acl.model import Acl, PatternType
from authorizerd.acl.patterns import is_wildcard
from authorizerd.acl.snapshot import is_grant
from authorizerd.replay.judging.asking import Unasked, unasked_reason
from authorizerd.replay.judging.index import AclIndex
from authorizerd.replay.judging.report import Count
from authorizerd.replay.recorded.agreement import find_differing
from authorizerd.replay.recorded.rows import Rows
from authorizerd.replay.recorded.tuples import Figures, RecordedTuple

NO_ACL: Final = -1
"""The number for uses that are not of one ACL."""


class Counted(StrEnum):
    """Other counts, in addition to the use of ACLs and the tuples of each ``Unasked`` reason."""

    ALL = "all"
    ALLOWED = "allowed"
    DENIED = "denied"
    BY_SUPER_USERS = "by super users"
    DISAGREEING = "decided differently by these ACLs than recorded"


class Use(NamedTuple):
    """How events used the ACL ``number``.

    ``label`` is the resource's name if the ACL is wide, otherwise None; for ``NO_ACL``, it names
    the count. ``is_alone`` is True if no other ACL gave the same decision.
    """

    number: int
    label: str | None
    is_alone: bool
    events: int
    tuples: int
    first_ms: int
    last_ms: int


class AclUsage(NamedTuple):
    """The use of one ACL: ``alone`` means that no other ACL gave the same decision.

    ``last_ms`` is milliseconds since 1970. ``names`` are the first resource names, in order, that a
    wide ACL was used for; ``names_count`` counts all names, and ``last_name`` is the last one.
    """

    alone: Count
    with_others: Count
    last_ms: int
    names_count: int = 0
    names: tuple[str, ...] = ()
    last_name: str = ""


class Summed(NamedTuple):
    """The use of each used ACL, and all other sums by their labels."""

    usage: Mapping[Acl, AclUsage]
    others: Mapping[str | None, Use]

    def count_of(self, label: str) -> Count:
        """Return the events and tuples with a label."""
        use = self.others.get(label)
        return Count() if use is None else Count(events=use.events, tuples=use.tuples)

    @property
    def not_evaluated(self) -> dict[str, Count]:
        """The tuples that ACLs cannot decide, by reason."""
        return {why.value: self.count_of(why) for why in sorted(Unasked) if why in self.others}


def is_wide(acl: Acl) -> bool:
    """Return True if ``acl`` is an ALLOW for more than one name."""
    return is_grant(acl) and (
        acl.pattern_type == PatternType.PREFIXED or is_wildcard(acl.pattern_type, acl.resource_name)
    )


def find_uses(tuples: Iterable[RecordedTuple], index: AclIndex) -> Iterator[Use]:
    """Yield the uses of ACLs by tuples, and the other counts."""
    for one in tuples:
        yield _count(Counted.ALL, one.all_events)
        if one.allowed is not None:
            yield _count(Counted.ALLOWED, one.allowed)
        if one.denied is not None:
            yield _count(Counted.DENIED, one.denied)
        reason = unasked_reason(one)
        if reason is not None:
            yield _count(reason, one.all_events)
        elif one.principal in index.settings.super_users:
            yield _count(Counted.BY_SUPER_USERS, one.all_events)
        else:
            disagreeing = find_differing(one, index)
            if disagreeing is not None:
                yield _count(Counted.DISAGREEING, disagreeing)
            yield from _find_used(one, index)


def _count(label: Counted | Unasked, figures: Figures) -> Use:
    return Use(NO_ACL, label.value, False, figures.events, 1, figures.first_ms, figures.last_ms)


def _find_used(one: RecordedTuple, index: AclIndex) -> Iterator[Use]:
    """Yield every ACL that gives the recorded decision; the audit log names only one of them."""
    matching = list(index.matching(one))
    for figures, is_allowed in ((one.allowed, True), (one.denied, False)):
        if figures is None:
            continue
        events, first_ms, last_ms, _ = figures
        numbers = [number for number in matching if is_grant(index.acls[number]) is is_allowed]
        for number in numbers:
            label = one.resource_name if is_wide(index.acls[number]) else None
            yield Use(number, label, len(numbers) == 1, events, 1, first_ms, last_ms)


def sum_uses(tuples: Rows[RecordedTuple], index: AclIndex, names_max: int) -> Summed:
    """Return the use by all tuples, with at most ``names_max`` names of each wide ACL, or one."""
    usage: dict[Acl, AclUsage] = {}
    others: dict[str | None, Use] = {}
    found = tuples.sum(partial(find_uses, index=index), Use)
    for number, uses in groupby(found, key=attrgetter("number")):
        if number == NO_ACL:
            others = {use.label: use for use in uses}
        else:
            usage[index.acls[number]] = _sum_usage(uses, max(names_max, 1))
    return Summed(usage, others)


def _sum_usage(uses: Iterable[Use], names_max: int) -> AclUsage:
    """Return the sums of the uses of one ACL; ``uses`` are sorted by label."""
    counts = {True: Counter[str](), False: Counter[str]()}
    names: list[str] = []
    names_count, last_name, last_ms = 0, "", 0
    for label, of_label in groupby(uses, key=attrgetter("label")):
        for use in of_label:
            counts[use.is_alone].update(events=use.events, tuples=use.tuples)
            last_ms = max(last_ms, use.last_ms)
        if label is not None:
            names_count, last_name = names_count + 1, label
            if names_count <= names_max:
                names.append(label)
    alone, with_others = Count(**counts[True]), Count(**counts[False])
    return AclUsage(alone, with_others, last_ms, names_count, tuple(names), last_name)
