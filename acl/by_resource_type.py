"""May this principal do this to *some* resource of this type?

Kafka's answer differs from asking about each resource: implications do not count, an ALLOW whose
pattern a DENY covers wholly does not either, and with allow.everyone.if.no.acl.found the answer
hangs on a resource that is really named ``hardcode``.

Source: KIP-679; Kafka 4.3 Authorizer.authorizeByResourceType (the default that brokers run).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from acl.bits import allow_bit, deny_bit
from acl.decision import AuthorizerSettings, authorize
from acl.errors import InvalidQuestionError
from acl.model import WILDCARD_PRINCIPAL, Operation, ResourceType
from acl.patterns import NO_PATTERNS, Patterns
from acl.snapshot import AclSnapshot, rules_of

PROBE_NAME: Final = "hardcode"


def check_by_resource_type(operation: int, resource_type: int) -> None:
    """Refuse what stands for several types or operations, or for none, with Kafka's texts.

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
) -> bool:
    """Return whether some resource of ``resource_type`` may exist that the principal may use so.

    Raises:
        InvalidQuestionError: as ``check_by_resource_type``, or the principal is ``User:*``.
    """
    check_by_resource_type(operation, resource_type)
    if authorize(snapshot, settings, principal, host, operation, resource_type, PROBE_NAME):
        return True
    sources = tuple(_sources(snapshot, principal, host, resource_type))
    allows = allow_bit(operation) | allow_bit(Operation.ALL)
    denies = deny_bit(operation) | deny_bit(Operation.ALL)
    if any(patterns.wildcard & denies for patterns, _ in sources):
        return False
    if any(patterns.wildcard & allows for patterns, may_allow in sources if may_allow):
        return True
    denied = tuple(patterns for patterns, _ in sources)
    for patterns, may_allow in sources:
        if not may_allow:
            continue
        if any(
            bits & allows
            and not any(other.literals.get(name, 0) & denies for other in denied)
            and not _is_covered(name, denied, denies)
            for name, bits in patterns.literals.items()
        ):
            return True
        if any(
            bits & allows and not _is_covered(name, denied, denies)
            for name, bits in patterns.prefixes.items()
        ):
            return True
    return False


def _sources(
    snapshot: AclSnapshot, principal: str, host: str | None, resource_type: int
) -> Iterator[tuple[Patterns, bool]]:
    """Yield the patterns whose rules speak of this principal and host, and whether they may allow.

    For an unknown host the rules of single hosts may only deny.
    """
    index = snapshot.types[resource_type]
    for name in (principal, WILDCARD_PRINCIPAL):
        rules = rules_of(index, name)
        yield rules.any_host, True
        if host is None:
            for patterns in rules.hosts.values():
                yield patterns, False
        else:
            yield rules.hosts.get(host, NO_PATTERNS), True


def _is_covered(name: str, denied: tuple[Patterns, ...], denies: int) -> bool:
    """Say whether a DENY on a prefix covers every name that ``name``, as a prefix, stands for."""
    return any(
        patterns.prefixes.get(name[:length], 0) & denies
        for patterns in denied
        for length in patterns.lengths
        if length <= len(name)
    )
