"""The ACLs that match a question, in the order of Kafka's scan, and their number.

Why not ``acl.matching.matching_acls``? Its list has no order and no bound: for an unknown host, it
has an ACL for each denied host. Here, unlisted hosts are only counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from itertools import islice
from operator import itemgetter
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from authorizerd.acl.deciding import HOSTS_COMPARED, scan_key, wildcard_section
from authorizerd.acl.explanation.scan import (
    iterate_patterns,
)
from authorizerd.acl.index.bits import denying_operations
from authorizerd.acl.index.range_index import Network
from authorizerd.acl.matching import (
    APPLICABLE,
    APPLIES,
    denied_hosts_at,
    denies_unindexed,
    find_networks,
    find_range_hosts,
    list_sources,
    list_unjudgeable,
)
from authorizerd.acl.model import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    PermissionType,
    Question,
)
from authorizerd.acl.patterns import NO_PATTERNS, Patterns, get_weight
from authorizerd.acl.releases import ReleaseRules
from authorizerd.acl.snapshot import (
    AclSnapshot,
    Rules,
    is_grant,
    is_unjudgeable,
    rules_of,
)

ACLS_LISTED_MAX: Final = 100
CHARACTERS_LISTED_MAX: Final = 64 * 1024
"""The maximum total size of the listed ACLs' names. Names may be long, and the list is encoded in
one step."""

_DENY: Final = int(PermissionType.DENY)

_Table: TypeAlias = tuple[str, str, Patterns]
"""A principal, a host of its ACLs, and their patterns."""
_Key: TypeAlias = tuple[Any, ...]
"""The place of an ACL in Kafka's scan. See ``scan_key``."""
_Alike: TypeAlias = tuple[_Key, Acl, Iterable[str], int]
"""ACLs that differ only in their host: the first ACL's place, that ACL, all hosts, their number."""


class _Hosts(Sized, Iterable[str], Protocol):
    """Hosts that can be counted without being read."""


class Matches(msgspec.Struct, frozen=True, kw_only=True):
    """The ACLs that match a question.

    Attributes:
        listed: the first in the order of Kafka's scan.
        denials, allows: the first that deny, and the first that allow.
        wide_denials: the first ACLs that deny every host.
        denial_count, allow_count, wide_denial_count: the number of all that deny, that allow, and
            that deny every host.
    """

    listed: tuple[Acl, ...]
    denials: tuple[Acl, ...]
    allows: tuple[Acl, ...]
    wide_denials: tuple[Acl, ...]
    denial_count: int
    allow_count: int
    wide_denial_count: int


def find_matches(snapshot: AclSnapshot, question: Question) -> Matches:
    """Return the ACLs that allow or deny ``question``."""
    found = _Found(question)
    index = snapshot.types[question.resource_type]
    # ACLs whose principal has no colon come from ``list_unjudgeable``.
    principals = dict.fromkeys(
        each for each in (question.principal, WILDCARD_PRINCIPAL) if ":" in each
    )
    rules = [(principal, rules_of(index, principal)) for principal in principals]
    tables = list(_list_tables(rules, question))
    networks = [
        (principal, network)
        for principal, each in rules
        for network, _ in find_networks(each, question, snapshot.rules)
    ]
    denied_hosts = [rule for rule in rules if question.host is None and rule[1].denying_hosts]
    searched = [patterns for _, _, patterns in tables]
    searched += (network.patterns for _, network in networks)
    searched += (each.host_denials for _, each in denied_hosts)
    name = question.resource_name
    for pattern_type, pattern_name in iterate_patterns(searched, name):
        matches = [
            *_make_plain(question, tables, pattern_type, pattern_name),
            *_make_in_ranges(question, networks, (pattern_type, pattern_name), snapshot.rules),
            *_make_denied_hosts(
                question, denied_hosts, (pattern_type, pattern_name), snapshot.rules
            ),
        ]
        found.add(matches)
    unjudgeable = list_unjudgeable(index, name) if index.unjudgeable else []
    found.add_others(unjudgeable)
    found.add_others(
        acl
        for acl in snapshot.unindexed
        if denies_unindexed(acl, question, snapshot.rules) and not is_unjudgeable(acl)
    )
    return found.finish()


def _list_tables(rules: Iterable[tuple[str, Rules]], question: Question) -> Iterator[_Table]:
    """Yield the plain rules that apply for the question's host, or for ``*``."""
    for principal, each in rules:
        for host, patterns in list_sources(each, question.host):
            if patterns is not NO_PATTERNS:
                yield principal, host, patterns


def _make_plain(
    question: Question,
    tables: Iterable[_Table],
    pattern_type: int,
    pattern_name: str,
) -> Iterator[_Alike]:
    """Yield the plain ACLs with one pattern."""
    operation, pattern = question.operation, (pattern_type, pattern_name)
    for principal, host, patterns in tables:
        bits = get_weight(patterns, pattern_type, pattern_name) & APPLIES[operation]
        if not bits:
            continue
        for bit, rule, permission in APPLICABLE[operation]:
            if bits & bit:
                yield _make_alike(question, pattern, principal, (host,), rule, permission)


def _make_in_ranges(
    question: Question,
    networks: Iterable[tuple[str, Network]],
    pattern: tuple[int, str],
    releases: ReleaseRules,
) -> Iterator[_Alike]:
    """Yield the plain ACLs for ranges with one pattern."""
    for principal, network in networks:
        for rule, permission, hosts in find_range_hosts(
            network, pattern, question.operation, releases
        ):
            groups: Iterable[_Hosts] = ((host,) for host in hosts.values())
            if len(hosts) > HOSTS_COMPARED:
                groups = [hosts.values()]
            for group in groups:
                yield _make_alike(question, pattern, principal, group, rule, permission)


def _make_denied_hosts(
    question: Question,
    denied_hosts: Iterable[tuple[str, Rules]],
    pattern: tuple[int, str],
    releases: ReleaseRules,
) -> Iterator[_Alike]:
    """Yield the plain denials of single hosts with one pattern, for an unknown host."""
    for principal, rules in denied_hosts:
        for rule in denying_operations(question.operation):
            for hosts in denied_hosts_at(rules, (*pattern, rule), releases):
                yield _make_alike(question, pattern, principal, hosts.values(), rule, _DENY)


def _make_alike(
    question: Question, pattern: tuple[int, str], principal: str, hosts: _Hosts,
    operation: int, permission: int,
) -> _Alike:  # fmt: skip
    """Return the ACLs with these fields, one for each host. There is at least one."""
    pattern_type, name = pattern
    kind, first = question.resource_type, next(iter(hosts))
    acl = Acl(kind, name, pattern_type, principal, first, operation, permission)
    return _place(acl, question), acl, hosts, len(hosts)


def _place(acl: Acl, question: Question) -> _Key:
    """Return the place at which Kafka's scan meets the ACL for the first time."""
    return scan_key(acl, wildcard_section(question.resource_name, denies=True))


class _Found:
    """Collects ACLs that arrive in the order of Kafka's scan, except those of ``add_others``."""

    __slots__ = ("_allows", "_denials", "_listed", "_question", "_wide_denials")

    def __init__(self, question: Question) -> None:
        self._question = question
        self._listed = _Shortlist()
        self._denials = _Shortlist()
        self._wide_denials = _Shortlist()
        self._allows = _Shortlist()

    def _choose(self, acl: Acl) -> Iterator[_Shortlist]:
        """Yield the lists to which an ACL belongs."""
        yield self._listed
        if is_grant(acl):
            yield self._allows
            return
        yield self._denials
        if acl.host == WILDCARD or is_unjudgeable(acl):
            yield self._wide_denials

    def add(self, some: list[_Alike]) -> None:
        """Add the plain ACLs of one pattern."""
        some.sort(key=itemgetter(0))
        for key, first, hosts, count in some:
            for shortlist in self._choose(first):
                shortlist.add(key, first, hosts, count)

    def add_others(self, acls: Iterable[Acl]) -> None:
        """Add ACLs that deny, wherever they are in the scan."""
        for acl in acls:
            key = _place(acl, self._question)
            for shortlist in self._choose(acl):
                shortlist.insert(key, acl)

    def finish(self) -> Matches:
        return Matches(
            listed=self._listed.take(),
            denials=self._denials.take(),
            allows=self._allows.take(),
            wide_denials=self._wide_denials.take(),
            denial_count=self._denials.count,
            allow_count=self._allows.count,
            wide_denial_count=self._wide_denials.count,
        )


class _Shortlist:
    """The first ACLs by their places: a bounded number, with a bounded length of their names.

    ``count`` is the number of all.
    """

    __slots__ = ("_characters", "_placed", "_unplaced", "count")

    def __init__(self) -> None:
        self.count = 0
        self._placed: list[tuple[_Key, Acl]] = []
        self._unplaced: list[tuple[_Key, Acl]] = []
        self._characters = 0

    def add(self, key: _Key, first: Acl, hosts: Iterable[str], count: int) -> None:
        """Add ACLs that differ only in their host, after all earlier ones."""
        self.count += count
        for host in islice(hosts, ACLS_LISTED_MAX - len(self._placed)):
            if self._characters >= CHARACTERS_LISTED_MAX:
                return
            acl = first if host == first.host else msgspec.structs.replace(first, host=host)
            self._characters += count_characters(acl)
            self._placed.append((key, acl))

    def insert(self, key: _Key, acl: Acl) -> None:
        """Add an ACL anywhere."""
        self.count += 1
        self._unplaced.append((key, acl))
        if len(self._unplaced) >= 2 * ACLS_LISTED_MAX:
            self._unplaced.sort(key=itemgetter(0))
            del self._unplaced[ACLS_LISTED_MAX:]

    def take(self) -> tuple[Acl, ...]:
        """Return the ACLs in order."""
        if not self._unplaced:
            return tuple(acl for _, acl in self._placed)
        # The sort is stable, so ACLs that differ only in their host stay together.
        taken: list[Acl] = []
        characters = 0
        for _, acl in sorted([*self._placed, *self._unplaced], key=itemgetter(0)):
            if len(taken) >= ACLS_LISTED_MAX or characters >= CHARACTERS_LISTED_MAX:
                break
            characters += count_characters(acl)
            taken.append(acl)
        return tuple(taken)


def count_characters(acl: Acl) -> int:
    """Return the total length of the ACL's names."""
    return len(acl.resource_name) + len(acl.principal) + len(acl.host)
