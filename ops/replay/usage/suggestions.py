"""Suggest grants to remove, and narrower replacements for wide grants.

**Invariant:** a suggestion removes grants, never denials. The ACLs that replace a wide grant permit
only what it permitted, so a suggested set allows nothing that the old one denied. The final
suggestions were evaluated on every recorded tuple, and changed no answer.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, groupby
from operator import attrgetter
from typing import Final, NamedTuple

from msgspec.structs import replace

from authorizerd.acl.grants.reading import read_grants
from authorizerd.acl.hosts import is_certain
from authorizerd.acl.index.pattern_set import PatternSet
from authorizerd.acl.model import RESOURCE_TYPES, WILDCARD, Acl, PatternType
from authorizerd.acl.patterns import is_wildcard
from authorizerd.acl.snapshot import is_grant
from authorizerd.acl.text.kafka_acls import why_inexpressible
from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.errors import UsageError
from authorizerd.replay.judging.asking import unasked_reason
from authorizerd.replay.judging.index import AclIndex
from authorizerd.replay.recorded.rows import Rows, SelectiveFind
from authorizerd.replay.recorded.selecting import select_changed
from authorizerd.replay.recorded.tuples import RecordedTuple
from authorizerd.replay.text import format_count
from authorizerd.replay.usage.uses import NO_ACL, AclUsage, is_wide

_LAST_ACL: Final = (
    "it is the last ACL of resources that allow.everyone.if.no.acl.found would open, unless it is"
    " false"
)
_UNCERTAIN: Final = (
    "only a broker knows whether it has the network interface that the host names, so the record"
    " may contain requests that used it"
)
_GRANTED: Final = "it ends by itself: see authorizerd acls grants"


class Difference(NamedTuple):
    """Events that a suggested set would newly deny, and a removed ALLOW that would allow them.

    ``number`` is ``NO_ACL`` if the answer differs for another reason.
    """

    number: int
    principal: str
    resource_name: str
    events: int


class Suggestions(NamedTuple):
    """Changes to a set of ACLs.

    ``replaced`` has each grant to remove, with the narrower ones that replace it, if any.
    ``left_out`` has grants that are kept although their use suggests a change, with the reasons.
    """

    replaced: Mapping[Acl, tuple[Acl, ...]]
    left_out: Mapping[Acl, str]

    def apply(self, acls: Iterable[Acl]) -> tuple[Acl, ...]:
        """Return the changed set: the ACLs that stay, in their order, then the new ones."""
        staying = (acl for acl in acls if acl not in self.replaced)
        # A new ACL may equal one that stays.
        return tuple(dict.fromkeys(chain(staying, *self.replaced.values())))

    def without(self, reasons: Mapping[Acl, str]) -> Suggestions:
        """Return the suggestions without those for the ACLs in ``reasons``, which are kept."""
        replaced = {acl: new for acl, new in self.replaced.items() if acl not in reasons}
        left_out = {acl: reasons[acl] for acl in self.replaced if acl in reasons}
        return Suggestions(replaced, {**self.left_out, **left_out})


def suggest(
    acl_set: AclSet, judged: Iterable[Acl], usage: Mapping[Acl, AclUsage], *, names_max: int
) -> Suggestions:
    """Return the suggestions for ``judged``, the ACLs in force for the whole window."""
    replaced: dict[Acl, tuple[Acl, ...]] = {}
    reasons: dict[Acl, str] = {}
    granted = {grant.acl for grant in read_grants(item.acl for item in acl_set.acls).grants}
    for acl in judged:
        used = usage.get(acl)
        narrower = () if used is None else narrower_acls(acl, used, names_max=names_max)
        if is_grant(acl) and (narrower or used is None):
            replaced[acl] = narrower
            for reason in filter(None, map(why_inexpressible, (acl, *narrower))):
                reasons.setdefault(acl, reason)
            if acl in granted:
                reasons[acl] = _GRANTED
            if not is_certain(acl.host):
                reasons.setdefault(acl, _UNCERTAIN)
    return _keep_resources_closed(acl_set, Suggestions(replaced, {}).without(reasons))


def narrower_acls(wide: Acl, used: AclUsage, *, names_max: int) -> tuple[Acl, ...]:
    """Return narrower ACLs that match every name that ``wide`` was used for.

    There is one ACL for each name. If there are too many names, there is one ACL for their common
    prefix, or none if that prefix is not narrower.
    """
    if not is_wide(wide):
        return ()
    if used.names_count <= names_max:
        # A literal "*" is the wildcard, and Kafka rejects ACLs for the empty name.
        if WILDCARD in used.names or "" in used.names:
            return ()
        return tuple(_with_pattern(wide, PatternType.LITERAL, name) for name in used.names)
    # The names are sorted, so the common prefix of the first and last is common to all.
    prefix = os.path.commonprefix([used.names[0], used.last_name])  # noqa: RUF071 - not paths
    if is_wildcard(wide.pattern_type, wide.resource_name):
        # The wildcard does not match names such as "*a", which a prefix "*" would.
        is_narrower = prefix != "" and not prefix.startswith(WILDCARD)
    else:
        is_narrower = len(prefix) > len(wide.resource_name)
    return (_with_pattern(wide, PatternType.PREFIXED, prefix),) if is_narrower else ()


def _with_pattern(acl: Acl, pattern_type: PatternType, name: str) -> Acl:
    return replace(acl, pattern_type=int(pattern_type), resource_name=name)


def _keep_resources_closed(acl_set: AclSet, suggestions: Suggestions) -> Suggestions:
    """Return the suggestions that leave every resource at least one ACL.

    With allow.everyone.if.no.acl.found, a resource without ACLs is open to everyone. The record may
    contain no request for it, so comparing answers would not find this.
    """
    if acl_set.allow_everyone_if_no_acl_found is False:
        return suggestions
    remaining = PatternSet(suggestions.apply(item.acl for item in acl_set.acls))
    return suggestions.without(
        {
            acl: _LAST_ACL
            for acl in suggestions.replaced
            if acl.resource_type in RESOURCE_TYPES and not remaining.covers(acl)
        }
    )


def prove(
    acl_set: AclSet,
    suggestions: Suggestions,
    compare: Callable[[AclSet], Mapping[Acl | None, str]],
) -> tuple[Suggestions, AclSet]:
    """Return the suggestions that change no answer, and the set with them.

    After the first comparison, every grant whose removal changed an answer is restored. The second
    comparison must find no difference.

    Args:
        compare: returns how the answers of a set differ, like the function ``compare``.

    Raises:
        UsageError: a difference remains that no removed ACL explains.
    """
    while True:
        acls = suggestions.apply(item.acl for item in acl_set.acls)
        suggested = acl_set.with_acls(acls, source=f"{acl_set.source}, as suggested")
        reasons = compare(suggested) if suggestions.replaced else {}
        if None in reasons:
            raise UsageError(f"no suggestion is safe: with the suggested ACLs, {reasons[None]}")
        if not reasons:
            return suggestions, suggested
        suggestions = suggestions.without({acl: why for acl, why in reasons.items() if acl})


def compare(tuples: Rows[RecordedTuple], before: AclIndex, other: AclSet) -> dict[Acl | None, str]:
    """Return the answers of ``other`` that differ, by the removed ALLOW that would prevent it.

    The key is None for answers that differ for another reason.
    """
    after = AclIndex.of(other)
    find = SelectiveFind(
        partial(find_differences, before=before, after=after),
        partial(select_changed, candidate=after, baseline=before),
    )
    return {
        None if number == NO_ACL else before.acls[number]: _describe(number, some)
        for number, some in groupby(tuples.sum(find, Difference), key=attrgetter("number"))
    }


def find_differences(
    tuples: Iterable[RecordedTuple], before: AclIndex, after: AclIndex
) -> Iterator[Difference]:
    """Yield the tuples that ``after`` answers differently, for each removed ALLOW."""
    for one in tuples:
        if unasked_reason(one) is not None:
            continue
        was, answers = before.answers(one), after.answers(one)
        if was == answers:
            continue
        is_allowed = not any(old and not new for old, new in zip(was, answers, strict=True))
        removed = (
            number
            for number in before.matching(one)
            if is_grant(before.acls[number]) and before.acls[number] not in after.numbers
        )
        for number in [NO_ACL] if is_allowed else list(removed) or [NO_ACL]:
            yield Difference(number, one.principal, one.resource_name, one.events)


def _describe(number: int, differences: Iterator[Difference]) -> str:
    """Return the number of events, and the first tuple as an example."""
    example = next(differences)
    events = sum((difference.events for difference in differences), example.events)
    outcome = "decided otherwise" if number == NO_ACL else "newly denied"
    return escape_unprintable(
        f"{format_count(events, 'event')} would be {outcome}, such as those of "
        f"{example.principal} on {example.resource_name}"
    )
