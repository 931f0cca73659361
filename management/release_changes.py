"""The effects of replacing the rules of one Kafka release by those of another.

An ACL changes its meaning if its host is a range of addresses and only one of the two releases
reads it. For each such ACL, representative questions are asked: each principal, each operation that
brokers ask for, each part of its range that other ACLs distinguish, and each class of names that
other patterns distinguish. Only questions whose answer changes count.

**Invariant:** every flip that is listed is real. If no limit is exceeded, every question of a known
host whose answer changes is about an ACL with a flip in the same direction.

Source: KIP-1276; ``acl.releases``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import chain, islice, product
from typing import Final, TypeAlias

import msgspec

from authorizerd.acl.decision import AuthorizerSettings, authorize
from authorizerd.acl.host_ranges import HostRange, find_range, mark_address
from authorizerd.acl.hosts import HostKind, get_kind, is_certain
from authorizerd.acl.index.bits import allowing_operations, denying_operations, weight
from authorizerd.acl.model import (
    RESOURCE_TYPES,
    WILDCARD_PRINCIPAL,
    Acl,
    Question,
    ResourceType,
)
from authorizerd.acl.operations import SUPPORTED
from authorizerd.acl.releases import ReleaseRules
from authorizerd.acl.search.areas import Place, divide, list_places
from authorizerd.acl.snapshot import AclSnapshot, is_grant, is_unjudgeable, with_rules
from authorizerd.management.name_parts import list_names

QUESTIONS_PER_ACL_MAX: Final = 10_000
QUESTIONS_MAX: Final = 500_000
"""The maximum number of questions about one ACL, and about all. An answer takes a few
microseconds."""
FLIPS_LISTED_MAX: Final = 5

_Related: TypeAlias = dict[tuple[int, str], list[Acl]]
"""The ACLs of each resource type and principal. Those for everyone include failing ones."""


class Meaning(StrEnum):
    """The effect on an ACL whose host has a slash."""

    WAKES_UP = "wakes up"
    FALLS_ASLEEP = "falls asleep"
    NEVER_MATCHES = "never matches"
    """Neither release can read the range, or no address is in it."""


class AclEffect(msgspec.Struct, frozen=True, kw_only=True):
    """An ACL whose host has a slash, and the effects of its new meaning.

    Attributes:
        allows: the new answer of ``flips``, which is the same for all.
        flips: the first questions whose answer changes.
        flip_count: the number of all that were found. Each represents a class of questions.
        is_complete: whether every class was asked about, and its answers are known. They are not
            if the range names a network interface (``acl.hosts.is_certain``).
    """

    acl: Acl
    meaning: Meaning
    allows: bool = False
    flips: tuple[Question, ...] = ()
    flip_count: int = 0
    is_complete: bool = True


def find_effects(
    snapshot: AclSnapshot,
    settings: AuthorizerSettings,
    before: ReleaseRules,
    after: ReleaseRules,
) -> list[AclEffect]:
    """Return the effects of ACLs with a slash in their host under other rules.

    ACLs that reverse most answers come first, then other changed ones, then those that never match.
    """
    slashed = [
        acl
        for acl in snapshot.acls.values()
        if "/" in acl.host
        and acl.resource_type in RESOURCE_TYPES
        and weight(acl)  # it can allow or deny
        and not is_unjudgeable(acl)
    ]
    comparison = _Comparison(snapshot, settings, before, after)
    related = _relate(snapshot, {acl.resource_type for acl in slashed})
    effects: list[AclEffect] = []
    for acl in slashed:
        if get_kind(acl.host) is not HostKind.RANGE:
            effects.append(AclEffect(acl=acl, meaning=Meaning.NEVER_MATCHES))
        elif _counts(acl, before) is not _counts(acl, after):
            effects.append(comparison.examine(acl, related))
    return sorted(effects, key=_place)


def _place(effect: AclEffect) -> tuple[bool, int, str]:
    return effect.meaning is Meaning.NEVER_MATCHES, -effect.flip_count, str(effect.acl)


def _counts(acl: Acl, rules: ReleaseRules) -> bool:
    return rules.range_allows if is_grant(acl) else rules.range_denies


def _relate(snapshot: AclSnapshot, resource_types: set[int]) -> _Related:
    related: _Related = defaultdict(list)
    for acl in snapshot.acls.values():
        if acl.resource_type in resource_types:
            name = WILDCARD_PRINCIPAL if is_unjudgeable(acl) else acl.principal
            related[acl.resource_type, name].append(acl)
    return related


class _Comparison:
    """Ask questions under both rules, within a limit for all together."""

    def __init__(
        self,
        snapshot: AclSnapshot,
        settings: AuthorizerSettings,
        before: ReleaseRules,
        after: ReleaseRules,
    ) -> None:
        self._settings = settings
        self._before = with_rules(snapshot, before)
        self._after = with_rules(snapshot, after)
        self._left = QUESTIONS_MAX

    def examine(self, acl: Acl, related: _Related) -> AclEffect:
        """Return the effects of the new meaning of ``acl``."""
        wakes_up = _counts(acl, self._after.rules)
        allows = is_grant(acl) is wakes_up
        questions_max = min(self._left, QUESTIONS_PER_ACL_MAX)
        questions = _list_questions(acl, related, self._settings)
        flips: list[Question] = []
        asked = count = 0
        for question in islice(questions, questions_max):
            asked += 1
            if self._flips(question, allows):
                count += 1
                if count <= FLIPS_LISTED_MAX:
                    flips.append(question)
        self._left -= asked
        return AclEffect(
            acl=acl,
            meaning=Meaning.WAKES_UP if wakes_up else Meaning.FALLS_ASLEEP,
            allows=allows,
            flips=tuple(flips),
            flip_count=count,
            is_complete=is_certain(acl.host)
            and (asked < questions_max or next(questions, None) is None),
        )

    def _flips(self, question: Question, allows: bool) -> bool:
        fields = msgspec.structs.astuple(question)
        return (
            authorize(self._after, self._settings, *fields) is allows
            and authorize(self._before, self._settings, *fields) is not allows
        )


def _list_questions(
    acl: Acl, related: _Related, settings: AuthorizerSettings
) -> Iterator[Question]:
    """Yield the questions that represent all those to which ``acl`` may apply."""
    addresses = find_range(acl.host)
    assert addresses is not None
    code = acl.resource_type
    for principal in _list_principals(acl, related, settings):
        others = [*related.get((code, principal), ()), *related.get((code, WILDCARD_PRINCIPAL), ())]
        hosts = list_addresses(addresses, {other.host for other in others})
        names = list_names(acl, others)
        for operation, host, name in product(_list_operations(acl), hosts, names):
            yield Question(principal, host, operation, code, name)


def list_addresses(addresses: HostRange, hosts: Iterable[str]) -> list[str]:
    """Return one address of each part of a range, as Kafka writes it.

    The hosts and ranges inside it divide a range into parts. A part that no other host names comes
    first.

    Args:
        hosts: the hosts of other ACLs.
    """
    kinds = (HostKind.ADDRESS, HostKind.RANGE)
    places = list_places(host for host in hosts if get_kind(host) in kinds)
    within = {place for place in places if _is_within(addresses, place)}
    own = HostRange(addresses.key, addresses.shift)
    areas = [area for area in divide({own, *within}) if area.place is not None]
    areas.sort(key=lambda area: isinstance(area.place, str))
    examples = [area.example for area in areas if area.example is not None]
    # An address without its zone is a different host.
    return list(
        dict.fromkeys(chain(*((example, example.partition("%")[0]) for example in examples)))
    )


def _is_within(addresses: HostRange, place: Place) -> bool:
    if isinstance(place, HostRange):
        return addresses.includes(place)
    marked = mark_address(place)
    return marked is not None and addresses.contains(marked)


def _list_principals(acl: Acl, related: _Related, settings: AuthorizerSettings) -> Iterator[str]:
    if acl.principal != WILDCARD_PRINCIPAL:
        principals: Iterable[str] = (acl.principal,)
    else:
        named = {name for code, name in related if code == acl.resource_type}
        other = "User:anybody-else"
        while other in named or other in settings.super_users:
            other += "-"
        principals = chain((other,), sorted(named - {WILDCARD_PRINCIPAL}))
    return (principal for principal in principals if principal not in settings.super_users)


def _list_operations(acl: Acl) -> list[int]:
    """Return the operations that brokers ask for and ``acl`` may decide."""
    list_rules = allowing_operations if is_grant(acl) else denying_operations
    supported = SUPPORTED[ResourceType(acl.resource_type)]
    return [int(each) for each in supported if acl.operation in list_rules(each)]
