"""Convert the flags of ``authorizerd acls`` to a plan of ACLs and filters, without I/O.

No request has been sent yet, so an error found here has changed nothing. ACLs are grouped by
resource pattern, because kafka-acls checks, creates and deletes them in such groups.

Source: Kafka 4.3 AclCommand, AclEntry, SecurityUtils.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, TypeAlias

import msgspec

from authorizerd.acl.model import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from authorizerd.acl.operations import SUPPORTED
from authorizerd.acl.text.kafka_acls import RESOURCE_FLAGS
from authorizerd.acl.text.letter_case import ascii_upper
from authorizerd.cli.acls.arguments import Arguments
from authorizerd.cli.acls.errors import ILLEGAL_ARGUMENT, KafkaAclsError, UsageError
from authorizerd.management.formats.listing import Entry


@dataclass(frozen=True, slots=True)
class Group:
    """The entries of one resource pattern, whose type may be ANY or MATCH in a removal."""

    pattern: AclFilter
    entries: tuple[Entry, ...]

    def acls(self) -> list[Acl]:
        name = self.pattern.resource_name
        assert name is not None
        return [
            Acl(self.pattern.resource_type, name, self.pattern.pattern_type, *entry)
            for entry in self.entries
        ]

    def filters(self) -> list[AclFilter]:
        """Return the filters for a deletion: one per entry, or the pattern if there is no entry."""
        return [
            msgspec.structs.replace(self.pattern, **entry._asdict()) for entry in self.entries
        ] or [self.pattern]


@dataclass(frozen=True, slots=True)
class Listing:
    """List the ACLs that any of ``filters`` matches; with ``principals``, only their ACLs."""

    filters: tuple[AclFilter, ...]
    principals: tuple[str, ...]
    as_json: bool = False


@dataclass(frozen=True, slots=True)
class Addition:
    """Create the ACLs of each group."""

    groups: tuple[Group, ...]


@dataclass(frozen=True, slots=True)
class Removal:
    """Remove each group, after the user's confirmation if ``asks``."""

    groups: tuple[Group, ...]
    asks: bool


Plan: TypeAlias = Listing | Addition | Removal

_JAVA_BLANKS: Final = "".join(map(chr, range(0x21)))  # what String.trim strips
_CLUSTER: Final = AclFilter(
    resource_type=ResourceType.CLUSTER,
    resource_name=CLUSTER_NAME,
    pattern_type=PatternType.LITERAL,
)
_PATTERN_TYPES: Final = ("ANY", "MATCH", "LITERAL", "PREFIXED")
_OPERATIONS: Final = {operation.name.replace("_", ""): operation for operation in Operation}

_Operations: TypeAlias = Mapping[ResourceType, Sequence[Operation]]

_PRODUCED: Final[_Operations] = {
    ResourceType.TOPIC: (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
}
_CONSUMED: Final[_Operations] = {
    ResourceType.TOPIC: (Operation.READ, Operation.DESCRIBE),
    ResourceType.GROUP: (Operation.READ,),
}


def make_plan(given: Arguments) -> Plan:
    """Return the plan for the given flags."""
    if given.has("list"):
        filters = tuple(_filters(given))
        return Listing(filters, tuple(_principals(given, "principal")), given.has("json"))
    if given.has("remove"):
        return Removal(_groups(given), asks=not given.has("force"))
    pattern_type = _pattern_type(given)
    if pattern_type in (PatternType.ANY, PatternType.MATCH):
        raise UsageError(
            f"A '--resource-pattern-type' value of '{pattern_type.name}' is not valid when adding "
            "acls."
        )
    groups = _groups(given)
    if not all(group.entries for group in groups):
        raise UsageError(
            "You must specify one of: --allow-principal, --deny-principal when trying to add ACLs."
        )
    return Addition(groups)


def _groups(given: Arguments) -> tuple[Group, ...]:
    """Return the entries of each resource, sorted by resource type, name and pattern type."""
    entries: dict[AclFilter, set[Entry]] = {}
    if given.has("producer"):
        _add_role(given, _PRODUCED, entries)
        if given.has("idempotent"):
            entries[_CLUSTER] = set(_entries(given, [Operation.IDEMPOTENT_WRITE]))
    if given.has("consumer"):
        _add_role(given, _CONSUMED, entries)
    if not (given.has("producer") or given.has("consumer")):
        of_each = set(_entries(given, _operations(given)))
        entries = dict.fromkeys(_resources(given), of_each)
    ordered = sorted(
        entries, key=lambda each: (each.resource_type, each.resource_name or "", each.pattern_type)
    )
    groups = tuple(Group(pattern, tuple(sorted(entries[pattern]))) for pattern in ordered)
    for group in groups:
        _check_operations(group)
    return groups


def _add_role(
    given: Arguments, operations: _Operations, entries: dict[AclFilter, set[Entry]]
) -> None:
    """Add the operations that a role needs on its kinds of resources; skip other resources."""
    for pattern in _resources(given):
        needed = operations.get(ResourceType(pattern.resource_type))
        if needed is not None:
            entries.setdefault(pattern, set()).update(_entries(given, needed))


def _check_operations(group: Group) -> None:
    resource_type = ResourceType(group.pattern.resource_type)
    supported = (Operation.ALL, *SUPPORTED[resource_type])
    if any(entry.operation not in supported for entry in group.entries):
        names = ", ".join(operation.name for operation in supported)
        raise UsageError(f"ResourceType {resource_type.name} only supports operations [{names}]")


def _entries(given: Arguments, operations: Iterable[Operation]) -> list[Entry]:
    allowed = _principals(given, "allow-principal")
    denied = _principals(given, "deny-principal")
    wanted = list(operations)
    entries = [
        Entry(principal, host, operation, permission_type)
        for principals, hosts, permission_type in (
            (allowed, _hosts(given, "allow-host"), PermissionType.ALLOW),
            (denied, _hosts(given, "deny-host"), PermissionType.DENY),
        )
        for principal, operation, host in product(principals, wanted, hosts)
    ]
    # Java rejects ANY when it creates an entry, so without principals it accepts ANY.
    if entries and Operation.ANY in wanted:
        raise KafkaAclsError((ILLEGAL_ARGUMENT, "operation must not be ANY"))
    return entries


def _principals(given: Arguments, flag: str) -> list[str]:
    principals = [text.strip(_JAVA_BLANKS) for text in given.values(flag)]
    for principal in principals:
        # Kafka before 3.9 stored such principals, and only a removal may name them.
        if ":" not in principal and not given.has("remove"):
            reason = f"expected a string in format principalType:principalName but got {principal}"
            raise KafkaAclsError((ILLEGAL_ARGUMENT, reason))
    return principals


def _hosts(given: Arguments, flag: str) -> list[str]:
    return [text.strip(_JAVA_BLANKS) for text in given.values(flag)] or [WILDCARD]


def _operations(given: Arguments) -> list[Operation]:
    """Return the operations by their kafka-acls names, in any case; UNKNOWN for other names."""
    names = [text.strip(_JAVA_BLANKS) for text in given.values("operation")] or ["All"]
    return [_OPERATIONS.get(ascii_upper(name), Operation.UNKNOWN) for name in names]


def _resources(given: Arguments) -> list[AclFilter]:
    filters = list(_filters(given))
    if not filters:
        raise UsageError(
            "You must provide at least one resource: --topic <topic> or --cluster or "
            "--group <group> or --delegation-token <Delegation Token ID>"
        )
    return filters


def _filters(given: Arguments) -> Iterator[AclFilter]:
    """Yield a filter for each named resource. ``--cluster`` counts only with type LITERAL."""
    pattern_type = _pattern_type(given)
    for flag, resource_type in RESOURCE_FLAGS.items():
        for text in given.values(flag):
            # kafka-acls trims every name but this one.
            name = text if flag == "transactional-id" else text.strip(_JAVA_BLANKS)
            yield AclFilter(
                resource_type=resource_type, resource_name=name, pattern_type=pattern_type
            )
    if pattern_type == PatternType.LITERAL and (given.has("cluster") or given.has("idempotent")):
        yield _CLUSTER


def _pattern_type(given: Arguments) -> PatternType:
    for text in given.values("resource-pattern-type"):
        if ascii_upper(text) not in _PATTERN_TYPES:
            raise _unknown_pattern_type(text)
    return PatternType[ascii_upper(given.value("resource-pattern-type") or "LITERAL")]


def _unknown_pattern_type(text: str) -> KafkaAclsError:
    if ascii_upper(text) == PatternType.UNKNOWN.name:
        reason = f"Unknown resource-pattern-type: {text}"
    else:
        reason = f"Value [{text}] is not one of [{'|'.join(_PATTERN_TYPES)}]"
    return KafkaAclsError(
        (
            "joptsimple.OptionArgumentConversionException",
            f"Cannot parse argument '{text}' of option resource-pattern-type",
        ),
        ("joptsimple.ValueConversionException", reason),
    )
