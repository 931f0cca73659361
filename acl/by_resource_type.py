"""May this principal do this to *some* resource of this type?

Kafka's answer differs from asking about each resource: implied operations do not count, an ALLOW
does not count if a DENY covers its whole pattern, and with allow.everyone.if.no.acl.found the
answer depends on a resource that is literally named ``hardcode``.

Source: KIP-679; Kafka 4.3 Authorizer.authorizeByResourceType (the default that brokers run).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, TypeAlias

from authorizerd.acl.decision import AuthorizerSettings, authorize
from authorizerd.acl.errors import InvalidQuestionError
from authorizerd.acl.hosts import applies_to
from authorizerd.acl.index.bits import allow_bit, deny_bit, range_allow_bits
from authorizerd.acl.index.range_index import Network
from authorizerd.acl.model import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from authorizerd.acl.patterns import NO_PATTERNS, Patterns, get_weight, prefix_lengths
from authorizerd.acl.releases import ANY_RELEASE, RULES, ReleaseRules
from authorizerd.acl.snapshot import (
    AclSnapshot,
    Rules,
    is_grant,
    is_unjudgeable,
    rules_of,
    with_rules,
)
from authorizerd.acl.steps import Steps, in_chunks

PROBE_NAME: Final = "hardcode"

_Pattern: TypeAlias = tuple[int, str]
_Denials: TypeAlias = tuple[tuple[int, ...], Callable[[int, str], bool]]
"""The lengths of the denied prefixes, and a function that tests whether a pattern is denied."""

_LITERAL: Final = int(PatternType.LITERAL)
_PREFIXED: Final = int(PatternType.PREFIXED)
_EVERYTHING: Final[_Pattern] = (_LITERAL, WILDCARD)


def check_by_resource_type(operation: int, resource_type: int) -> None:
    """Reject, with Kafka's texts, unknown codes and codes that only filters may have.

    Raises:
        InvalidQuestionError: Kafka's IllegalArgumentException.
    """
    type_read, operation_read = ResourceType.read(resource_type), Operation.read(operation)
    if type_read is ResourceType.ANY:
        raise InvalidQuestionError(
            "Must specify a non-filter resource type for authorizeByResourceType"
        )
    if type_read is ResourceType.UNKNOWN:
        raise InvalidQuestionError("Unknown resource type")
    if operation_read is Operation.ANY:
        raise InvalidQuestionError(
            "Must specify a non-filter operation type for authorizeByResourceType"
        )
    if operation_read is Operation.UNKNOWN:
        raise InvalidQuestionError("Unknown operation type")


def authorize_by_resource_type(
    snapshot: AclSnapshot,
    settings: AuthorizerSettings,
    principal: str,
    host: str | None,
    operation: int,
    resource_type: int,
) -> Steps[bool]:
    """Return, in steps, True if the principal may do this to some resource of the type.

    For an unknown host, rules for single hosts can deny but not allow. If several releases may
    judge, each must allow it.

    Raises:
        InvalidQuestionError: as ``check_by_resource_type``, or the principal is ``User:*``.
    """
    check_by_resource_type(operation, resource_type)
    for release in snapshot.rules.releases:
        judged = with_rules(snapshot, RULES[release])
        if not (yield from _authorize(judged, settings, principal, host, operation, resource_type)):
            return False
    return True


def _authorize(
    snapshot: AclSnapshot,
    settings: AuthorizerSettings,
    principal: str,
    host: str | None,
    operation: int,
    resource_type: int,
) -> Steps[bool]:
    """Return the answer of one release. See ``authorize_by_resource_type``."""
    if authorize(snapshot, settings, principal, host, operation, resource_type, PROBE_NAME):
        return True
    index, releases = snapshot.types[resource_type], snapshot.rules
    if any(_host_fits(acl, host, releases) for acl in chain(*index.unjudgeable.values())):
        return False  # where Kafka fails
    rules = [rules_of(index, name) for name in (principal, WILDCARD_PRINCIPAL)]
    sources, networks = _list_sources(rules, host), _list_networks(rules, host, releases)
    operations = (operation, Operation.ALL)
    allows = allow_bit(operation) | allow_bit(Operation.ALL)
    range_allows = range_allow_bits(operation) | range_allow_bits(Operation.ALL)
    allowing = [(patterns, allows) for patterns in sources]
    allowing += ((network.patterns, range_allows) for network in networks)
    denials = [_denials_in(patterns, operations) for patterns in sources]
    denials += (_denials_in_network(network, operations) for network in networks)
    if host is None:
        denials += (
            _denials_of_hosts(rule, operations, releases) for rule in rules if rule.denying_hosts
        )
    # As in Kafka, a DENY of the literal * decides before any ALLOW is examined.
    if any(denials_at(_LITERAL, WILDCARD) for _, denials_at in denials):
        return False
    # Then, as in Kafka, an ALLOW of the literal * decides: other denials do not count against it.
    if any(patterns.wildcard & mask for patterns, mask in allowing):
        return True
    for leaves in in_chunks(_iterate_leaves(allowing)):
        for pattern_type, name, bits in leaves:
            if bits and not (yield from _is_denied(pattern_type, name, denials)):
                return True
        yield
    return False


def scan_by_resource_type(
    acls: Iterable[Sequence[Acl]],
    principal: str,
    host: str | None,
    operation: int,
    resource_type: int,
) -> Steps[bool]:
    """Return, in steps, True if ``acls`` allow the operation on some resource of the type.

    This is ``authorize_by_resource_type`` without an index and without the probe, for ACLs that
    arrive in chunks. As it is unknown which Kafka release judges, a range of addresses denies but
    does not allow. An ACL whose principal has no colon denies everything.
    """
    patterns = _PatternSets()
    for chunk in acls:
        for acl in chunk:
            if acl.resource_type == resource_type and _applies(acl, principal, host, operation):
                patterns.add(acl)
            yield
        yield  # a chunk may be empty
    return (yield from patterns.decide())


class _PatternSets:
    """The patterns that rules allow and deny."""

    __slots__ = ("_allowed", "_denied", "_denies_all")

    def __init__(self) -> None:
        self._allowed: list[_Pattern] = []
        self._denied: set[_Pattern] = set()
        self._denies_all = False

    def add(self, acl: Acl) -> None:
        pattern = (acl.pattern_type, acl.resource_name)
        if is_unjudgeable(acl):
            self._denies_all = True
        elif acl.permission_type == PermissionType.ALLOW:
            self._allowed.append(pattern)
        else:
            self._denied.add(pattern)

    def decide(self) -> Steps[bool]:
        """Return True if some allowed pattern is not covered by a denial."""
        if self._denies_all or _EVERYTHING in self._denied:
            return False
        if _EVERYTHING in self._allowed:
            return True
        lengths = {len(name): None for kind, name in self._denied if kind == _PREFIXED}
        denials = ((tuple(lengths), lambda kind, name: (kind, name) in self._denied),)
        for pattern in self._allowed:
            if not (yield from _is_denied(*pattern, denials)):
                return True
        return False


def _list_sources(rules: Iterable[Rules], host: str | None) -> list[Patterns]:
    """Return the patterns of the rules for every host, and of those for this one."""
    sources = [rule.any_host for rule in rules]
    if host is not None:
        sources += (rule.hosts.get(host, NO_PATTERNS) for rule in rules)
    return [patterns for patterns in sources if patterns is not NO_PATTERNS]


def _list_networks(
    rules: Iterable[Rules], host: str | None, releases: ReleaseRules
) -> list[Network]:
    """Return the networks of rules that contain a host, which a release judges.

    A release whose ranges deny also lets them allow.
    """
    if host is None or not releases.range_denies:
        return []
    return [network for rule in rules for network in rule.ranges.find_networks(host)]


def _applies(acl: Acl, principal: str, host: str | None, operation: int) -> bool:
    """Return True if the ACL applies and names ``operation`` or ALL. Implications do not count."""
    return (
        _host_fits(acl, host, ANY_RELEASE)
        and (is_unjudgeable(acl) or acl.principal in (principal, WILDCARD_PRINCIPAL))
        and (is_unjudgeable(acl) or _names(acl, operation))
    )


def _names(acl: Acl, operation: int) -> bool:
    return (
        acl.operation in (operation, Operation.ALL)
        and acl.permission_type in (PermissionType.ALLOW, PermissionType.DENY)
        and acl.pattern_type in (PatternType.LITERAL, PatternType.PREFIXED)
    )


def _host_fits(acl: Acl, host: str | None, releases: ReleaseRules) -> bool:
    return applies_to(acl.host, host, releases, allows=is_grant(acl))


def _iterate_leaves(sources: Iterable[tuple[Patterns, int]]) -> Iterator[tuple[int, str, int]]:
    """Yield each pattern with its bits that a mask selects."""
    for patterns, mask in sources:
        for name, bits in patterns.literals.items():
            yield _LITERAL, name, bits & mask
        for name, bits in patterns.prefixes.items():
            yield _PREFIXED, name, bits & mask


def _denials_in(patterns: Patterns, operations: tuple[int, ...]) -> _Denials:
    denies = 0
    for operation in operations:
        denies |= deny_bit(operation)
    return (
        prefix_lengths(patterns),
        lambda pattern_type, name: get_weight(patterns, pattern_type, name) & denies != 0,
    )


def _denials_in_network(network: Network, operations: tuple[int, ...]) -> _Denials:
    return prefix_lengths(network.patterns), lambda pattern_type, name: any(
        network.find_hosts(pattern_type, name, operation, PermissionType.DENY)
        for operation in operations
    )


def _denials_of_hosts(
    rules: Rules, operations: tuple[int, ...], releases: ReleaseRules
) -> _Denials:
    hosts = rules.denying_hosts
    kinds = (False, True) if releases.range_denies else (False,)
    return prefix_lengths(rules.host_denials), lambda pattern_type, name: any(
        (pattern_type, name, operation, is_range) in hosts
        for operation in operations
        for is_range in kinds
    )


def _is_denied(pattern_type: int, name: str, denials: Iterable[_Denials]) -> Steps[bool]:
    """Return, in steps, True if a DENY covers everything that the pattern of an ALLOW matches."""
    size = len(name)
    for lengths, denials_at in denials:
        if pattern_type == _LITERAL and denials_at(_LITERAL, name):
            return True
        for length in lengths:
            if length <= size and denials_at(_PREFIXED, name[:length]):
                return True
        yield  # there may be hundreds of networks
    return False
