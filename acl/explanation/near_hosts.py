"""Hosts from which a denied question would be allowed, and ACLs whose host never matches.

ACLs compare hosts as text with the client's IP address. So a network, a host name, or an IPv6
address in its short form never matches.
"""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from itertools import takewhile
from operator import eq
from typing import Final

from msgspec.structs import replace

from authorizerd.acl.bits import DENIES
from authorizerd.acl.explanation.model import NearMiss, NearMissKind
from authorizerd.acl.explanation.probe import Probe
from authorizerd.acl.explanation.scan import Pace, count_lookups
from authorizerd.acl.explanation.words import count_of, describe_access
from authorizerd.acl.hosts import host_address
from authorizerd.acl.model import WILDCARD_PRINCIPAL, Acl
from authorizerd.acl.patterns import NO_PATTERNS, look_up
from authorizerd.acl.snapshot import rules_of
from authorizerd.acl.steps import Steps

HOSTS_SEARCHED_MAX: Final = 65_536
LOOKUPS_PER_ALLOWED_HOST: Final = 8
"""Reading a host's text takes about as long as this many lookups."""


def find_near_hosts(
    probe: Probe, denial_count: int, denial: Acl | None, unsearched: list[str]
) -> Steps[list[NearMiss]]:
    """Return, in steps, from where a denied question would be allowed, the closest first.

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
    search, pace = _Search(probe), Pace()
    searched = 0
    for hosts, others in ((own.hosts, everyone.hosts), (everyone.hosts, own.hosts)):
        for host, patterns in hosts.items():
            searched += 1
            if searched > HOSTS_SEARCHED_MAX:
                unsearched.append(f"Only the ACLs of {HOSTS_SEARCHED_MAX} hosts were compared.")
                return search.finish()
            bits, lookups = look_up(patterns, name), count_lookups(patterns)
            if bits & probe.allows:
                lookups += LOOKUPS_PER_ALLOWED_HOST
                bits |= look_up(others.get(host, NO_PATTERNS), name)
                if not bits & DENIES[question.operation]:
                    search.add(host)
            if pace.is_due(lookups):
                yield
    return search.finish()


def _make_denied_hosts(probe: Probe, denial_count: int, denial: Acl) -> NearMiss:
    """Return that only ACLs of single hosts deny the question."""
    question = probe.question
    allowed = f"{question.principal} is {describe_access(question)}"
    if question.host is not None:
        text = f"An ACL denies host {question.host}. From hosts that no ACL names, {allowed}."
        return NearMiss(kind=NearMissKind.HOST, text=text, acl=denial)
    denies = f"an ACL denies host {denial.host}"
    if denial_count > 1:
        denies = f"{denial_count} ACLs deny single hosts, such as {denial.host}"
    text = f"Denied only because the host is unknown and {denies}. From other hosts, {allowed}."
    return NearMiss(kind=NearMissKind.UNKNOWN_HOST, text=text, acl=denial)


class _Search:
    """The hosts of single-host ALLOWs that would decide, in any order."""

    __slots__ = ("_best", "_hosts", "_misspelt", "_probe")

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._best: tuple[int, str] | None = None
        self._hosts: set[str] = set()
        self._misspelt: tuple[int, str, str] | None = None
        """How far the closest host that no client can have is from the one asked, the host, and
        why it never matches."""

    def add(self, host: str) -> None:
        """Add a host with which the question would be allowed, if a client could have it."""
        asked = self._probe.question.host
        if host_address(host) == host:
            self._hosts.add(host)  # it may have ACLs for the principal and for everyone
            alike = 0 if asked is None else sum(1 for _ in takewhile(bool, map(eq, host, asked)))
            place = (-alike, host)
            if self._best is None or place < self._best:
                self._best = place
        elif asked is not None and not self._probe.has_denial:
            found = _find_mismatch(host, asked)
            if found is not None:
                distance, reason = found
                if self._misspelt is None or (distance, host) < self._misspelt[:2]:
                    self._misspelt = (distance, host, reason)

    def finish(self) -> list[NearMiss]:
        """Return the near misses, the closest first."""
        misses: list[NearMiss] = []
        if self._best is not None:
            misses.append(self._make_other_host(self._best[1]))
        if self._misspelt is not None:
            distance, host, reason = self._misspelt
            misses.insert(min(distance, len(misses)), self._make_misspelt(host, reason))
        return misses

    def _make_other_host(self, host: str) -> NearMiss:
        probe = self._probe
        instead = replace(probe.question, host=host)
        others = len(self._hosts) - 1
        more = count_of(others, "other host") if others else ""
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

    def _make_misspelt(self, host: str, reason: str) -> NearMiss:
        probe = self._probe
        asked = probe.question.host
        acl = probe.rule_acl(replace(probe.question, host=host))
        assert acl is not None, "an ALLOW of this host decides"
        rewritten = replace(acl, host=asked)
        text = f"An ACL allows host `{host}`, which never matches: {reason}."
        return NearMiss(kind=NearMissKind.HOST, text=text, acl=acl, rewritten=rewritten)


def _find_mismatch(host: str, asked: str) -> tuple[int, str] | None:
    """Return why an ACL's host never matches, and 0 if ``asked`` was probably meant, else 1."""
    written = host_address(host.strip().strip("[]"))
    if written is not None:
        return (0, f"Kafka writes this address as {asked}") if written == asked else None
    try:
        network = ip_network(host.strip(), strict=False)
        is_meant = ip_address(asked) in network
    except ValueError:
        return 1, "Kafka compares hosts only as IP addresses"
    return (0, "Kafka compares single addresses, not networks") if is_meant else None
