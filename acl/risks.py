"""Name the ACLs that an auditor would question, and say why.

``acl.surprises`` names ACLs that probably do not do what their authors meant. The risks here are of
ACLs that do: they allow much, or to many, or they deny less than they seem to.

**Invariant:** a risk never affects a decision. An ACL that no possible release ever applies has no
risk but that of a DENY without effect. An ACL whose effect is not known has a risk that says so.

Source: Kafka 4.3 KafkaApis, ControllerApis and AclEntry for what each operation allows; KIP-679,
by which WRITE on any topic implies IDEMPOTENT_WRITE; KIP-939; KIP-1276.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from types import MappingProxyType
from typing import Final

import msgspec

from authorizerd.acl.decision import AuthorizerSettings, is_allowed
from authorizerd.acl.explanation.words import join_words, name_operation, name_pattern, name_type
from authorizerd.acl.host_ranges import find_range
from authorizerd.acl.hosts import is_certain, never_matches
from authorizerd.acl.model import (
    CLUSTER_NAME,
    OPERATIONS,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    Operation,
    PatternType,
    PermissionType,
    Question,
    ResourceType,
)
from authorizerd.acl.operations import SUPPORTED
from authorizerd.acl.patterns import is_wildcard, matches
from authorizerd.acl.releases import RULES
from authorizerd.acl.snapshot import AclSnapshot, is_unjudgeable

ANONYMOUS: Final = "User:ANONYMOUS"
SHORT_PREFIX_CHARACTERS: Final = 2
WIDE_RANGE_BITS: Final = 16
"""A range is wide if it leaves at least so many bits of an address open: 65,536 addresses."""
_WRITTEN_BITS_MAX: Final = 32
_SOME_HOST: Final = "0.0.0.0"  # noqa: S104 - nothing binds to it; no client has this address
_SEPARATORS: Final = "._-"
_KNOWN_TYPES: Final = frozenset(SUPPORTED)
_READS_ABOUT: Final = frozenset((Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS))
"""The operations that show names and settings only."""
_USUAL: Final = frozenset((Operation.READ, Operation.WRITE, *_READS_ABOUT))
_ON_CLUSTER: Final = MappingProxyType(
    {
        Operation.ALTER: "may change ACLs, so it can give itself everything",
        Operation.ALTER_CONFIGS: "may change the settings of brokers",
        Operation.CLUSTER_ACTION: "may act as a broker, and so read every topic without an ACL",
        Operation.CREATE: "may create topics of any name",
    }
)
_ON_TOPICS: Final = MappingProxyType(
    {
        Operation.DELETE: "may delete the topic and its records",
        Operation.ALTER: "may add partitions, after which keys move to other partitions",
        Operation.ALTER_CONFIGS: "may shorten the retention, and so delete the topic's records",
    }
)
INTERNAL_TOPICS: Final = MappingProxyType(
    {
        "__consumer_offsets": "the positions of all consumer groups",
        "__share_group_state": "the state of all share groups",
        "__transaction_state": "the state of all transactions",
        "_schemas": "the schemas of the Schema Registry",
        "connect-configs": "the settings of connectors, often with passwords",
    }
)
"""What the topics contain in which Kafka and programs around it usually keep their own state."""


class Level(StrEnum):
    """How urgent it is to look at an ACL."""

    HIGH = "high"
    MEDIUM = "medium"


class RiskKind(StrEnum):
    """The kinds of risks. The value is a title."""

    EVERYONE = "allowed to everyone"
    CLUSTER = "control of the cluster"
    WILDCARD = "every name"
    INTERNAL = "internal topics"
    TOKENS = "tokens of other users"
    ALL = "all operations"
    CHANGES = "changes of topics"
    SHORT_PREFIX = "very short prefix"
    TRANSACTIONS = "endless transactions"
    RANGE = "wide range of hosts"
    DENIAL = "DENY with little effect"
    UNKNOWN = "effect not known"


class Risk(msgspec.Struct, frozen=True, gc=False):
    """A reason to question an ACL, as a sentence about it."""

    kind: RiskKind
    level: Level
    sentence: str


def find_risks(acl: Acl, snapshot: AclSnapshot, settings: AuthorizerSettings) -> Iterator[Risk]:
    """Yield the risks of an ACL, at most one of each kind.

    Args:
        snapshot: all ACLs, of which ``acl`` is one. Only the risks of a DENY depend on the others.
        settings: if they are not known, those that allow the least.
    """
    if is_unjudgeable(acl) or acl.permission_type != PermissionType.ALLOW:
        yield from _find_denial_risks(acl, snapshot, settings)
    elif is_certain(acl.host) and not never_matches(acl.host, snapshot.rules):
        yield from _find_grant_risks(acl)


def _find_grant_risks(acl: Acl) -> Iterator[Risk]:
    if acl.resource_type not in _KNOWN_TYPES or acl.operation not in OPERATIONS:
        yield Risk(
            RiskKind.UNKNOWN, Level.MEDIUM, "a later Kafka version knows what this ACL allows"
        )
        return
    if acl.operation == Operation.IDEMPOTENT_WRITE:
        return
    usual = Level.MEDIUM if acl.operation in _READS_ABOUT else Level.HIGH
    if acl.principal == WILDCARD_PRINCIPAL:
        yield Risk(RiskKind.EVERYONE, usual, f"{acl.principal} is everyone who can connect")
    elif acl.principal == ANONYMOUS:
        sentence = f"{acl.principal} is everyone who connects without a login"
        yield Risk(RiskKind.EVERYONE, usual, sentence)
    if acl.resource_type == ResourceType.CLUSTER:
        if matches(acl.pattern_type, acl.resource_name, CLUSTER_NAME):
            yield from _find_cluster_risks(acl)
    else:
        yield from _find_name_risks(acl, usual)
        yield from _find_operation_risks(acl)
    addresses = find_range(acl.host)
    if addresses is not None and addresses.shift >= WIDE_RANGE_BITS:
        shift = addresses.shift
        count = f"{2**shift:,}" if shift <= _WRITTEN_BITS_MAX else f"2^{shift}"
        sentence = f"host '{acl.host}' is a range of {count} addresses"
        yield Risk(RiskKind.RANGE, Level.MEDIUM, sentence)


def _find_cluster_risks(acl: Acl) -> Iterator[Risk]:
    is_all = acl.operation == Operation.ALL
    effect = _ON_CLUSTER.get(Operation.ALTER if is_all else Operation.read(acl.operation))
    if effect is not None:
        level = Level.MEDIUM if acl.operation == Operation.CREATE else Level.HIGH
        sentence = f"{name_operation(acl.operation)} on the cluster: the principal {effect}"
        yield Risk(RiskKind.CLUSTER, level, sentence)


def _find_name_risks(acl: Acl, usual: Level) -> Iterator[Risk]:
    """Yield the risks of a pattern that matches more names, or others, than it seems to."""
    name, is_prefix = acl.resource_name, acl.pattern_type != PatternType.LITERAL
    if is_wildcard(acl.pattern_type, name) or (is_prefix and not name):
        kind = name_type(acl.resource_type)
        sentence = f"it applies to every {kind}, also to those that are created later"
        yield Risk(RiskKind.WILDCARD, usual, sentence)
        return  # Every name includes the internal ones.
    if is_prefix and (len(name) <= SHORT_PREFIX_CHARACTERS or not name.strip(_SEPARATORS)):
        kind = name_type(acl.resource_type)
        sentence = f"it applies to every {kind} whose name begins with '{name}'"
        yield Risk(RiskKind.SHORT_PREFIX, Level.MEDIUM, sentence)
    if acl.resource_type != ResourceType.TOPIC or acl.operation in _READS_ABOUT:
        return
    found = [
        topic
        for topic in INTERNAL_TOPICS
        if topic == name or (is_prefix and topic.startswith(name))
    ]
    if found:
        contents = join_words([f"{topic} has {INTERNAL_TOPICS[topic]}" for topic in found])
        level = Level.MEDIUM if acl.operation == Operation.READ else Level.HIGH
        if found == ["connect-configs"]:
            level = Level.HIGH
        sentence = f"{name_pattern(acl.pattern_type, name)} matches internal topics: {contents}"
        yield Risk(RiskKind.INTERNAL, level, sentence)


def _find_operation_risks(acl: Acl) -> Iterator[Risk]:
    """Yield the risks of an operation on topics, groups and other resources but the cluster."""
    kind, operation = ResourceType(acl.resource_type), Operation(acl.operation)
    is_all = operation == Operation.ALL
    if kind == ResourceType.USER and (is_all or operation == Operation.CREATE_TOKENS):
        sentence = "the principal may create delegation tokens of these users, and act as them"
        yield Risk(RiskKind.TOKENS, Level.HIGH, sentence)
    strong = [each.name for each in SUPPORTED[kind] if each not in _USUAL]
    if is_all and strong:
        sentence = f"ALL includes {join_words(strong)}, and what a later Kafka adds"
        yield Risk(RiskKind.ALL, Level.MEDIUM, sentence)
    elif kind == ResourceType.TOPIC and operation in _ON_TOPICS:
        sentence = f"{operation.name}: the principal {_ON_TOPICS[operation]}"
        yield Risk(RiskKind.CHANGES, Level.MEDIUM, sentence)
    if kind == ResourceType.TRANSACTIONAL_ID and operation == Operation.TWO_PHASE_COMMIT:
        sentence = "a transaction without a time limit can hold back all readers of its topics"
        yield Risk(RiskKind.TRANSACTIONS, Level.MEDIUM, sentence)


def _find_denial_risks(
    acl: Acl, snapshot: AclSnapshot, settings: AuthorizerSettings
) -> Iterator[Risk]:
    """Yield the risk of a DENY that leaves open what it seems to deny.

    A DENY overrides every ALLOW that applies to the same request, but not for super users, and not
    from other hosts.
    """
    if is_unjudgeable(acl):
        return  # It denies more than it says, see `acl.surprises`.
    if acl.principal in settings.super_users:
        sentence = f"{acl.principal} is a super user, so this DENY has no effect"
        yield Risk(RiskKind.DENIAL, Level.HIGH, sentence)
        return
    if acl.host == WILDCARD:
        return
    rules = snapshot.rules
    if never_matches(acl.host, rules):
        sentence = f"host '{acl.host}' never matches, so this DENY has no effect"
        yield Risk(RiskKind.DENIAL, Level.HIGH, sentence)
        return
    older = [each for each in rules.releases if not RULES[each].range_denies]
    if older and find_range(acl.host) is not None:
        sentence = f"Kafka {' and '.join(older)} knows no ranges: this DENY has no effect there"
        yield Risk(RiskKind.DENIAL, Level.HIGH, sentence)
    elif _is_allowed_elsewhere(acl, snapshot, settings):
        sentence = f"other ACLs allow the same from hosts other than '{acl.host}'"
        yield Risk(RiskKind.DENIAL, Level.MEDIUM, sentence)


def _is_allowed_elsewhere(acl: Acl, snapshot: AclSnapshot, settings: AuthorizerSettings) -> bool:
    """Return True if an ALLOW from every host applies to the name of a DENY's pattern."""
    kind, operation = acl.resource_type, acl.operation
    if (
        acl.principal == WILDCARD_PRINCIPAL
        or kind not in _KNOWN_TYPES
        or operation not in OPERATIONS
    ):
        return False
    operations = SUPPORTED[ResourceType(kind)] if operation == Operation.ALL else (operation,)
    return any(
        is_allowed(
            snapshot, settings, Question(acl.principal, _SOME_HOST, each, kind, acl.resource_name)
        )
        for each in operations
    )
