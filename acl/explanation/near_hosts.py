"""Hosts from which a denied question would be allowed, and ACLs whose host never matches.

The host of an ACL is compared as text with the client's IP address, and from Kafka 4.4 on it may be
a range. So a host name, or an IPv6 address in its short form, never matches.
"""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from itertools import takewhile
from operator import eq
from typing import Final

from msgspec.structs import replace

from authorizerd.acl.explanation.model import NearMiss, NearMissKind
from authorizerd.acl.explanation.probe import Probe
from authorizerd.acl.explanation.words import count_of, describe_access
from authorizerd.acl.host_ranges import find_range
from authorizerd.acl.hosts import host_address, never_matches
from authorizerd.acl.index.bits import DENIES
from authorizerd.acl.model import WILDCARD_PRINCIPAL, Acl
from authorizerd.acl.patterns import NO_PATTERNS, Patterns, find_leaves, look_up
from authorizerd.acl.releases import ReleaseRules
from authorizerd.acl.search.areas import list_examples
from authorizerd.acl.snapshot import rules_of

HOSTS_SEARCHED_MAX: Final = 65_536


def find_near_hosts(
    probe: Probe, denial_count: int, denial: Acl | None, unsearched: list[str]
) -> list[NearMiss]:
    """Return the hosts from which a denied question would be allowed, the closest first.

    Args:
        denial_count: the number of ACLs that deny the question; ``denial`` is the first of them.
        unsearched: gets a sentence if not all hosts are searched.
    """
    question, name = probe.question, probe.question.resource_name
    own = rules_of(probe.index, question.principal)
    everyone = rules_of(probe.index, WILDCARD_PRINCIPAL)
    bits = look_up(own.any_host, name) | look_up(everyone.any_host, name)
    if bits & DENIES[question.operation]:
        return []  # denied from every host
    if bits & probe.allows:
        return [] if denial is None else [_make_denied_hosts(probe, denial_count, denial)]
    search = _Search(probe)
    searched = 0
    sources = (
        (question.principal, own, everyone.hosts),
        (WILDCARD_PRINCIPAL, everyone, own.hosts),
    )
    for principal, rules, others in sources:
        for host, patterns in rules.hosts.items():
            searched += 1
            if searched > HOSTS_SEARCHED_MAX:
                unsearched.append(f"Only the ACLs of {HOSTS_SEARCHED_MAX} hosts were compared.")
                return search.finish()
            bits = look_up(patterns, name)
            if bits & probe.allows:
                bits |= look_up(others.get(host, NO_PATTERNS), name)
                if not bits & DENIES[question.operation]:
                    search.add(principal, host, patterns)
    return search.finish()


def _make_denied_hosts(probe: Probe, denial_count: int, denial: Acl) -> NearMiss:
    """Return a near miss: only ACLs of single hosts deny the question."""
    question = probe.question
    allowed = f"{question.principal} is {describe_access(question)}"
    if question.host is not None:
        denied = f"host {question.host}"
        if denial.host != question.host:
            denied = f"the range {denial.host}, which has {denied}"
        text = f"An ACL denies {denied}. From hosts that no ACL names, {allowed}."
        return NearMiss(kind=NearMissKind.HOST, text=text, acl=denial)
    denies = f"an ACL denies host {denial.host}"
    if denial_count > 1:
        denies = f"{denial_count} ACLs deny single hosts, such as {denial.host}"
    text = f"Denied only because the host is unknown and {denies}. From other hosts, {allowed}."
    return NearMiss(kind=NearMissKind.UNKNOWN_HOST, text=text, acl=denial)


class _Search:
    """The ALLOWs of other hosts that would decide, in any order."""

    __slots__ = ("_best", "_has_ranges", "_hosts", "_misspelt", "_probe")

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        principals = (probe.question.principal, WILDCARD_PRINCIPAL)
        self._has_ranges = any(
            rules_of(probe.index, principal).ranges.networks for principal in principals
        )
        self._best: tuple[int, str, str] | None = None
        """The distance of the closest host, that host, and the ACL's host, which contains it."""
        self._hosts: set[str] = set()
        self._misspelt: tuple[int, str, str, Acl] | None = None
        """The distance of the closest host that no client can have, that host, why it never
        matches, and the ACL."""

    def add(self, principal: str, host: str, patterns: Patterns) -> None:
        """Add an ALLOW of other hosts that no DENY of the same text overrides."""
        probe = self._probe
        asked, releases = probe.question.host, probe.snapshot.rules
        if not never_matches(host, releases):
            example = self._find_allowed(host)
            if example is not None:
                self._hosts.add(host)  # it may have ACLs for the principal and for everyone
                alike = (
                    0 if asked is None else sum(1 for _ in takewhile(bool, map(eq, example, asked)))
                )
                rank = (-alike, example, host)
                if self._best is None or rank < self._best:
                    self._best = rank
        elif asked is not None and not probe.has_denial:
            found = _find_mismatch(host, asked, releases)
            if found is not None:
                distance, reason = found
                if self._misspelt is None or (distance, host) < self._misspelt[:2]:
                    bits, pattern_type, name = find_leaves(
                        patterns, probe.question.resource_name, probe.allows
                    )[-1]
                    acl = probe.make_allow(principal, host, pattern_type, name, bits)
                    self._misspelt = (distance, host, reason, acl)

    def _find_allowed(self, host: str) -> str | None:
        """Return a client's host within an ACL's host, from which the answer is allow."""
        addresses = find_range(host)
        if addresses is None and not self._has_ranges:
            return host
        candidates = [host] if addresses is None else list_examples(addresses)
        return next(
            (
                candidate
                for candidate in candidates
                if self._probe.is_allowed(replace(self._probe.question, host=candidate))
            ),
            None,
        )

    def finish(self) -> list[NearMiss]:
        """Return the near misses, the closest first."""
        misses: list[NearMiss] = []
        if self._best is not None:
            misses.append(self._make_other_host(*self._best[1:]))
        if self._misspelt is not None:
            distance, _, reason, acl = self._misspelt
            misses.insert(min(distance, len(misses)), self._make_misspelt(acl, reason))
        return misses

    def _make_other_host(self, host: str, acl_host: str) -> NearMiss:
        probe = self._probe
        instead = replace(probe.question, host=host)
        others = len(self._hosts) - 1
        more = count_of(others, "other host") if others else ""
        if acl_host != host:
            more = " and ".join(filter(None, (f"others in {acl_host}", more)))
        question, access = probe.question, describe_access(probe.question)
        if question.host is None:
            kind = NearMissKind.UNKNOWN_HOST
            text = f"If the host were known to be {host}, {question.principal} would be {access}."
            if more:
                text += f" The same holds for {more}."
        else:
            kind = NearMissKind.HOST
            hosts = f"{host} and {more}" if more else host
            text = f"{question.principal} is {access} from host {hosts}, but not from host"
            text += f" {question.host}."
        return NearMiss(kind=kind, text=text, acl=probe.rule_acl(instead), instead=instead)

    def _make_misspelt(self, acl: Acl, reason: str) -> NearMiss:
        asked = self._probe.question.host
        assert asked is not None, "no host is misspelt if none is asked about"
        rewritten = replace(acl, host=asked)
        text = f"An ACL allows host `{acl.host}`, which never matches: {reason}."
        return NearMiss(kind=NearMissKind.HOST, text=text, acl=acl, rewritten=rewritten)


def _find_mismatch(host: str, asked: str, releases: ReleaseRules) -> tuple[int, str] | None:
    """Return why an ACL's host never matches, and 0 if ``asked`` was probably intended, else 1."""
    written = host_address(host.strip().strip("[]"))
    if written is not None:
        return (0, f"Kafka writes this address as {asked}") if written == asked else None
    try:
        network = ip_network(host.strip(), strict=False)
        is_meant = ip_address(asked.partition("%")[0]) in network
    except ValueError:
        return 1, "Kafka compares hosts only as IP addresses"
    if not is_meant:
        return None
    if not releases.range_denies:
        return 0, f"Kafka {releases} compares single addresses, not ranges"
    return 0, "Kafka cannot read this range"
