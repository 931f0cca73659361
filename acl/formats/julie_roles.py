"""The ACLs that Julie Ops makes of each role, with its default configuration.

A name of a group or a transactional id that ends with ``*`` is a prefix; ``*`` alone is the
wildcard.

Source: Julie Ops 4: AclsBindingsBuilder, and the defaults in Connector, SchemaRegistryInstance and
KsqlServerInstance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from authorizerd.acl.model import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)

_REGISTRY_OPERATIONS: Final = (
    Operation.CREATE,
    Operation.DESCRIBE_CONFIGS,
    Operation.DESCRIBE,
    Operation.WRITE,
    Operation.READ,
)


def allow(
    principal: str,
    operation: Operation,
    resource_type: ResourceType,
    name: str = CLUSTER_NAME,
    pattern_type: PatternType = PatternType.LITERAL,
) -> Acl:
    """Return an ACL of the only kind that Julie makes: it allows, from every host."""
    return Acl(
        int(resource_type),
        name,
        int(pattern_type),
        principal,
        WILDCARD,
        int(operation),
        int(PermissionType.ALLOW),
    )


def _allow_pattern(
    principal: str, operation: Operation, resource_type: ResourceType, pattern: str
) -> Acl:
    if pattern.endswith(WILDCARD) and pattern != WILDCARD:
        prefix = pattern.removesuffix(WILDCARD)
        return allow(principal, operation, resource_type, prefix, PatternType.PREFIXED)
    return allow(principal, operation, resource_type, pattern)


def _allow_prefix(principal: str, operation: Operation, kind: ResourceType, prefix: str) -> Acl:
    return allow(principal, operation, kind, prefix, PatternType.PREFIXED)


def consume(principal: str, topic: str, group: str) -> Iterator[Acl]:
    """Yield the ACLs of a consumer of one topic."""
    yield allow(principal, Operation.DESCRIBE, ResourceType.TOPIC, topic)
    yield allow(principal, Operation.READ, ResourceType.TOPIC, topic)
    yield _allow_pattern(principal, Operation.READ, ResourceType.GROUP, group)


def produce(
    principal: str, topic: str, transactional_id: str | None, is_idempotent: bool
) -> Iterator[Acl]:
    """Yield the ACLs of a producer to one topic."""
    yield allow(principal, Operation.DESCRIBE, ResourceType.TOPIC, topic)
    yield allow(principal, Operation.WRITE, ResourceType.TOPIC, topic)
    if transactional_id is not None:
        for operation in (Operation.DESCRIBE, Operation.WRITE):
            kind = ResourceType.TRANSACTIONAL_ID
            yield _allow_pattern(principal, operation, kind, transactional_id)
    if transactional_id is not None or is_idempotent:
        yield allow(principal, Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)


def _use_topics(principal: str, read: Iterable[str], written: Iterable[str]) -> Iterator[Acl]:
    for topic in read:
        yield allow(principal, Operation.READ, ResourceType.TOPIC, topic)
    for topic in written:
        yield allow(principal, Operation.WRITE, ResourceType.TOPIC, topic)


def stream(
    principal: str, prefix: str, read: Iterable[str], written: Iterable[str], is_exactly_once: bool
) -> Iterator[Acl]:
    """Yield the ACLs of an application of Kafka Streams."""
    yield from _use_topics(principal, read, written)
    yield _allow_prefix(principal, Operation.ALL, ResourceType.TOPIC, prefix)
    yield _allow_prefix(principal, Operation.READ, ResourceType.GROUP, prefix)
    if is_exactly_once:
        for operation in (Operation.WRITE, Operation.DESCRIBE):
            yield _allow_prefix(principal, operation, ResourceType.TRANSACTIONAL_ID, prefix)


def run_ksql_application(
    principal: str, prefix: str, read: Iterable[str], written: Iterable[str]
) -> Iterator[Acl]:
    """Yield the ACLs of an application of ksqlDB."""
    yield from _use_topics(principal, read, written)
    yield _allow_prefix(principal, Operation.ALL, ResourceType.TOPIC, prefix)
    yield _allow_prefix(principal, Operation.ALL, ResourceType.GROUP, prefix)


def connect(
    principal: str,
    own_topics: Sequence[str],
    group: str,
    read: Iterable[str],
    written: Iterable[str],
) -> Iterator[Acl]:
    """Yield the ACLs of a connector; ``own_topics`` are those of status, offsets and configs."""
    yield from _use_topics(principal, own_topics, own_topics)
    yield allow(principal, Operation.CREATE, ResourceType.CLUSTER)
    yield allow(principal, Operation.READ, ResourceType.GROUP, group)
    yield from _use_topics(principal, read, written)


def run_schema_registry(
    principal: str, topic: str, offsets_topic: str, group: str
) -> Iterator[Acl]:
    """Yield the ACLs of a Schema Registry."""
    for operation in _REGISTRY_OPERATIONS:
        yield allow(principal, operation, ResourceType.TOPIC, topic)
    yield allow(principal, Operation.DESCRIBE, ResourceType.TOPIC, offsets_topic)
    yield allow(principal, Operation.READ, ResourceType.GROUP, group)


def run_ksql_server(principal: str, name: str) -> Iterator[Acl]:
    """Yield the ACLs of a ksqlDB server."""
    prefix = f"_confluent-ksql-{name}"
    yield allow(principal, Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER)
    yield _allow_prefix(principal, Operation.ALL, ResourceType.TOPIC, prefix)
    yield allow(principal, Operation.ALL, ResourceType.TOPIC, f"{name}ksql_processing_log")
    yield _allow_prefix(principal, Operation.ALL, ResourceType.GROUP, prefix)
