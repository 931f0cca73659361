"""May this principal do this to *some* resource of this type?

Kafka's answer differs from asking about each resource: implied operations do not count, an ALLOW
does not count if a DENY covers its whole pattern, and with allow.everyone.if.no.acl.found the
answer depends on a resource that is literally named ``hardcode``.

Source: KIP-679; Kafka 4.3 Authorizer.authorizeByResourceType (the default that brokers run).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from authorizerd.acl.bits import allow_bit, deny_bit
from authorizerd.acl.decision import AuthorizerSettings, authorize
from authorizerd.acl.errors import InvalidQuestionError
from authorizerd.acl.filters import ACLS_PER_STEP
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
from authorizerd.acl.snapshot import AclSnapshot, Rules, rules_of
from authorizerd.acl.steps import Steps

PROBE_NAME: Final = "hardcode"
LOOKUPS_PER_STEP: Final = 512
_SHARDS: Final = 256

_Pattern: TypeAlias = tuple[int, str]
_Denials: TypeAlias = tuple[tuple[int, ...], Callable[[int, str], bool]]
"""The lengths of the denied prefixes, and a function that tests if a pattern itself is denied."""

_LITERAL: Final = int(PatternType.LITERAL)
_PREFIXED: Final = int(PatternType.PREFIXED)
_EVERYTHING: Final[_Pattern] = (_LITERAL, WILDCARD)


def check_by_resource_type(operation: int, resource_type: int) -> None:
    """Reject unknown codes and codes that only filters may have, with Kafka's texts.

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

    For an unknown host, rules for single hosts can deny but not allow.

    Raises:
        InvalidQuestionError: as ``check_by_resource_type``, or the principal is ``User:*``.
    """
    check_by_resource_type(operation, resource_type)
    if authorize(snapshot, settings, principal, host, operation, resource_type, PROBE_NAME):
        return True
    index = snapshot.types[resource_type]
    rules = [rules_of(index, name) for name in (principal, WILDCARD_PRINCIPAL)]
    sources = _sources(rules, host)
    operations = (operation, Operation.ALL)
    denials = [_denials_in(patterns, operations) for patterns in sources]
    if host is None:
        denials += (_denials_of_hosts(each, operations) for each in rules if each.denying_hosts)
    # As in Kafka, a DENY of the literal * decides before any ALLOW is examined.
    if any(denials_at(_LITERAL, WILDCARD) for _, denials_at in denials):
        return False
    allows = allow_bit(operation) | allow_bit(Operation.ALL)
    # Then, as in Kafka, an ALLOW of the literal * decides: other denials do not count against it.
    if any(patterns.wildcard & allows for patterns in sources):
        return True
    cost = sum(1 + len(lengths) for lengths, _ in denials)
    work = 0
    for pattern_type, name, bits in _iterate_leaves(sources):
        if bits & allows:
            if not _is_denied(pattern_type, name, denials):
                return True
            work += cost
        work += 1
        if work >= LOOKUPS_PER_STEP:
            work = 0
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
    arrive in slices.
    """
    patterns = _PatternSets()
    for some in acls:
        for start in range(0, len(some), ACLS_PER_STEP):
            patterns.add(
                acl
                for acl in some[start : start + ACLS_PER_STEP]
                if acl.resource_type == resource_type and _applies(acl, principal, host, operation)
            )
            yield
        yield  # a slice may be empty
    return (yield from patterns.decide())


class _PatternSets:
    """The patterns that rules allow and deny.

    Why many small sets? Growing or freeing a large one would block the thread.
    """

    __slots__ = ("_allowed", "_allows_all", "_denied", "_denies_all", "_lengths")

    def __init__(self) -> None:
        self._allowed: list[list[_Pattern]] = []
        self._denied: list[set[_Pattern]] = [set() for _ in range(_SHARDS)]
        self._lengths: dict[int, None] = {}
        self._allows_all = self._denies_all = False

    def add(self, acls: Iterable[Acl]) -> None:
        allowed: list[_Pattern] = []
        for acl in acls:
            pattern = (acl.pattern_type, acl.resource_name)
            if acl.permission_type == PermissionType.ALLOW:
                self._allows_all = self._allows_all or pattern == _EVERYTHING
                allowed.append(pattern)
                continue
            self._denies_all = self._denies_all or pattern == _EVERYTHING
            self._denied[hash(pattern) % _SHARDS].add(pattern)
            if acl.pattern_type == PatternType.PREFIXED:
                self._lengths[len(acl.resource_name)] = None
        self._allowed.append(allowed)

    def decide(self) -> Steps[bool]:
        """Return True if some allowed pattern is not covered by a denial. Free the patterns.

        Why not return as soon as the answer is known? The rest would then be freed at once, which
        would block the thread.
        """
        denials = ((tuple(self._lengths), self._is_denied),)
        is_allowed = self._allows_all and not self._denies_all
        while self._allowed:
            allowed = self._allowed.pop()
            if not (is_allowed or self._denies_all):
                is_allowed = any(not _is_denied(*pattern, denials) for pattern in allowed)
            yield
        while self._denied:
            self._denied.pop()
            yield
        return is_allowed

    def _is_denied(self, pattern_type: int, name: str) -> bool:
        pattern = (pattern_type, name)
        return pattern in self._denied[hash(pattern) % _SHARDS]


def _sources(rules: Iterable[Rules], host: str | None) -> list[Patterns]:
    """Return the patterns of the rules that may allow."""
    sources = [each.any_host for each in rules]
    if host is not None:
        sources += [each.hosts.get(host, NO_PATTERNS) for each in rules]
    return [patterns for patterns in sources if patterns is not NO_PATTERNS]


def _applies(acl: Acl, principal: str, host: str | None, operation: int) -> bool:
    """Return True if the ACL applies and names ``operation`` or ALL. Implications do not count."""
    if acl.permission_type == PermissionType.ALLOW:
        host_fits = acl.host in (WILDCARD, host)
    else:
        host_fits = host is None or acl.host in (WILDCARD, host)
    return (
        host_fits
        and acl.principal in (principal, WILDCARD_PRINCIPAL)
        and acl.operation in (operation, Operation.ALL)
        and acl.permission_type in (PermissionType.ALLOW, PermissionType.DENY)
        and acl.pattern_type in (PatternType.LITERAL, PatternType.PREFIXED)
    )


def _iterate_leaves(sources: Iterable[Patterns]) -> Iterator[tuple[int, str, int]]:
    for patterns in sources:
        for name, bits in patterns.literals.items():
            yield _LITERAL, name, bits
        for name, bits in patterns.prefixes.items():
            yield _PREFIXED, name, bits


def _denials_in(patterns: Patterns, operations: tuple[int, ...]) -> _Denials:
    denies = 0
    for operation in operations:
        denies |= deny_bit(operation)
    return (
        prefix_lengths(patterns),
        lambda pattern_type, name: get_weight(patterns, pattern_type, name) & denies != 0,
    )


def _denials_of_hosts(rules: Rules, operations: tuple[int, ...]) -> _Denials:
    hosts = rules.denying_hosts
    return prefix_lengths(rules.host_denials), lambda pattern_type, name: any(
        (pattern_type, name, operation) in hosts for operation in operations
    )


def _is_denied(pattern_type: int, name: str, denials: Iterable[_Denials]) -> bool:
    """Return True if a DENY covers everything that the pattern of an ALLOW matches."""
    size = len(name)
    for lengths, denials_at in denials:
        if pattern_type == _LITERAL and denials_at(_LITERAL, name):
            return True
        for length in lengths:
            if length <= size and denials_at(_PREFIXED, name[:length]):
                return True
    return False
