"""Find the ACLs that recorded requests used, and those whose removal would change an answer.

**Invariant:** an ALLOW is used by allowed requests, a DENY by denied ones. Each event counts once
for every ACL that it used. An event that the ACLs cannot decide counts once under its reason, and a
super user's event once under ``BY_SUPER_USERS``.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain, groupby
from operator import attrgetter
from typing import Final, NamedTuple

from authorizerd.acl.model import Acl, PermissionType
from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.judging.asking import unasked_reason
from authorizerd.replay.judging.index import AclIndex
from authorizerd.replay.judging.report import Count
from authorizerd.replay.recorded.rows import Rows
from authorizerd.replay.recorded.tuples import RecordedTuple
from authorizerd.replay.usage.proving import Changed, Comparison
from authorizerd.replay.usage.suggestions import AclUsage, is_wide

NOT_EVALUATED: Final = -1
"""The ACLs cannot decide the tuple; ``label`` is the reason."""
BY_SUPER_USERS: Final = -2
DISAGREEING: Final = -3
"""The ACLs decide these events differently from the recorded decisions."""

WHOLE_TUPLE: Final = -1
"""All changes, not those that one ACL contributed to."""


class Use(NamedTuple):
    """How events used the ACL ``number``; negative numbers are the constants above.

    ``label`` is the resource's name if the ACL is wide, otherwise None. ``is_alone`` is True if no
    other ACL gave the same decision.
    """

    number: int
    label: str | None
    is_alone: bool
    events: int
    tuples: int
    last_ms: int


class Difference(NamedTuple):
    """Tuples that two sets decide differently, and a removed ACL that allowed them.

    ``is_allowed`` is the new decision.
    """

    number: int
    principal: str
    resource_name: str
    is_allowed: bool
    events: int
    tuples: int


class Summed(NamedTuple):
    """The use of each used ACL, and the requests that used none."""

    usage: dict[Acl, AclUsage]
    not_evaluated: dict[str, Count]
    by_super_users: Count
    disagreeing: Count


def find_uses(tuples: Iterable[RecordedTuple], index: AclIndex) -> Iterator[Use]:
    """Yield the uses of ACLs by tuples."""
    for one in tuples:
        last_ms = one.all_events.last_ms
        reason = unasked_reason(one)
        if reason is not None:
            yield Use(NOT_EVALUATED, reason.value, False, one.events, 1, last_ms)
        elif one.principal in index.settings.super_users:
            yield Use(BY_SUPER_USERS, None, False, one.events, 1, last_ms)
        else:
            disagreeing = one.denied if index.allows(one) else one.allowed
            if disagreeing is not None:
                yield Use(DISAGREEING, None, False, disagreeing.events, 1, disagreeing.last_ms)
            yield from _find_used(one, index)


def _find_used(one: RecordedTuple, index: AclIndex) -> Iterator[Use]:
    """Yield every ACL that decides as recorded; the audit log names only one of them."""
    matching = list(index.matching(one))
    for figures, is_allowed in ((one.allowed, True), (one.denied, False)):
        if figures is None:
            continue
        numbers = [
            number
            for number in matching
            if (index.acls[number].permission_type == PermissionType.ALLOW) is is_allowed
        ]
        for number in numbers:
            label = one.resource_name if is_wide(index.acls[number]) else None
            yield Use(number, label, len(numbers) == 1, figures.events, 1, figures.last_ms)


def sum_uses(tuples: Rows[RecordedTuple], index: AclIndex, names_max: int) -> Summed:
    """Return the use by all tuples, with at most ``names_max`` names for each wide ACL."""
    summed = Summed({}, {}, Count(), Count())
    found = tuples.sum(partial(find_uses, index=index), Use)
    for number, uses in groupby(found, key=attrgetter("number")):
        if number >= 0:
            summed.usage[index.acls[number]] = _sum_usage(uses, names_max)
        elif number == NOT_EVALUATED:
            for use in uses:
                assert use.label is not None, "a reason"
                summed.not_evaluated[use.label] = Count(events=use.events, tuples=use.tuples)
        else:
            (use,) = uses
            count = Count(events=use.events, tuples=use.tuples)
            if number == BY_SUPER_USERS:
                summed = summed._replace(by_super_users=count)
            else:
                summed = summed._replace(disagreeing=count)
    return summed


def _sum_usage(uses: Iterable[Use], names_max: int) -> AclUsage:
    """Return the sums of the uses of one ACL, which are in the order of their labels."""
    alone, with_others = Counter[str](), Counter[str]()
    names: list[str] = []
    names_count, last_ms, name_max = 0, -sys.maxsize, None
    for label, of_label in groupby(uses, key=attrgetter("label")):
        for use in of_label:
            counts = alone if use.is_alone else with_others
            counts.update(events=use.events, tuples=use.tuples)
            last_ms = max(last_ms, use.last_ms)
        if label is not None:
            names_count += 1
            name_max = label
            if names_count <= max(names_max, 1):
                names.append(label)
    return AclUsage(
        alone=Count(**alone),
        with_others=Count(**with_others),
        last_ms=last_ms,
        names_count=names_count,
        name_min=names[0] if names else None,
        name_max=name_max,
        names=tuple(names[:names_max]),
    )


def find_differences(
    tuples: Iterable[RecordedTuple], before: AclIndex, after: AclIndex
) -> Iterator[Difference]:
    """Yield the tuples that ``after`` answers differently, each as ``WHOLE_TUPLE`` first.

    Each number identifies an ACL of ``before`` that ``after`` lacks.
    """
    for one in tuples:
        if unasked_reason(one) is not None:
            continue
        is_allowed = after.allows(one)
        if before.allows(one) is is_allowed:
            continue
        removed = (
            number
            for number in before.matching(one)
            if before.acls[number].permission_type == PermissionType.ALLOW
            and before.acls[number] not in after.numbers
        )
        for number in (WHOLE_TUPLE, *removed):
            yield Difference(number, one.principal, one.resource_name, is_allowed, one.events, 1)


def compare(tuples: Rows[RecordedTuple], before: AclIndex, other: AclSet) -> Comparison:
    """Return the tuples that ``other`` answers differently, in total and by removed ACL."""
    found = tuples.sum(
        partial(find_differences, before=before, after=AclIndex.of(other)), Difference
    )
    changed = {
        number: _sum_differences(some) for number, some in groupby(found, key=attrgetter("number"))
    }
    whole = changed.pop(WHOLE_TUPLE, None)
    return Comparison(whole, {before.acls[number]: one for number, one in changed.items()})


def _sum_differences(differences: Iterator[Difference]) -> Changed:
    example = next(differences)
    counts = {answer: Counter[str]() for answer in (False, True)}
    for one in chain((example,), differences):
        counts[one.is_allowed].update(events=one.events, tuples=one.tuples)
    return Changed(
        newly_denied=Count(**counts[False]),
        newly_allowed=Count(**counts[True]),
        resource_name=example.resource_name,
        principal=example.principal,
    )
