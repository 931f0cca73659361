"""The ACLs that kafka-gitops creates for services and for the roles of users.

They have no principal: the caller adds it.

Source: kafka-gitops 0.2.15: AbstractService, ApplicationService, KafkaConnectService,
KafkaStreamsService, RoleService.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from authorizerd.acl.model import CLUSTER_NAME, WILDCARD, Acl, Operation, PatternType, ResourceType
from authorizerd.management.formats import values

ReadService: TypeAlias = Callable[[str, str, dict[str, values.Value], bool], Iterator[Acl]]
"""A function of a service's place, name and fields, and of whether to describe its topics."""

_STREAMS_OPERATIONS: Final = (
    Operation.READ,
    Operation.WRITE,
    Operation.DESCRIBE,
    Operation.DELETE,
    Operation.CREATE,
    Operation.ALTER,
    Operation.ALTER_CONFIGS,
    Operation.DESCRIBE_CONFIGS,
)


ROLES: Final[Mapping[str, tuple[Acl, ...]]] = {
    "reader": (
        values.allow("", Operation.READ, ResourceType.TOPIC, WILDCARD),
        values.allow("", Operation.READ, ResourceType.GROUP, WILDCARD),
    ),
    "writer": (values.allow("", Operation.WRITE, ResourceType.TOPIC, WILDCARD),),
    "operator": (
        values.allow("", Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME),
        values.allow("", Operation.DESCRIBE, ResourceType.TOPIC, WILDCARD),
        values.allow("", Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, WILDCARD),
        values.allow("", Operation.READ, ResourceType.GROUP, WILDCARD),
        values.allow("", Operation.DESCRIBE, ResourceType.GROUP, WILDCARD),
    ),
}
"""The roles of users."""


def _texts(place: str, service: dict[str, values.Value], key: str) -> list[str]:
    items = values.check_list(f"{place}.{key}", service.get(key, []), "topics")
    return [values.check_text(item_place, item) for item_place, item in items]


def _topics(
    place: str, service: dict[str, values.Value], describes_topics: bool
) -> tuple[list[Acl], list[str]]:
    """Return the ACLs on the topics that are produced and consumed, and the topics consumed."""
    topic = ResourceType.TOPIC
    produced = _texts(place, service, "produces")
    consumed = _texts(place, service, "consumes")
    acls = [values.allow("", Operation.WRITE, topic, name) for name in produced]
    acls += [values.allow("", Operation.READ, topic, name) for name in consumed]
    if describes_topics:
        acls += [
            values.allow("", Operation.DESCRIBE, topic, name) for name in (*consumed, *produced)
        ]
    return acls, consumed


def _named(place: str, service: dict[str, values.Value], key: str, default: str) -> str:
    return values.check_text(f"{place}.{key}", service.get(key, default))


def _read_application(
    place: str, name: str, service: dict[str, values.Value], describes_topics: bool
) -> Iterator[Acl]:
    optional = ("principal", "group-id", "produces", "consumes")
    values.check_keys(place, service, required=("type",), optional=optional)
    acls, consumed = _topics(place, service, describes_topics)
    yield from acls
    if consumed:
        group = _named(place, service, "group-id", name)
        yield values.allow("", Operation.READ, ResourceType.GROUP, group)


def _read_connect(
    place: str, name: str, service: dict[str, values.Value], describes_topics: bool
) -> Iterator[Acl]:
    optional = ("principal", "group-id", "storage-topics", "produces", "connectors")
    values.check_keys(place, service, required=("type",), optional=optional)
    yield from _topics(place, service, describes_topics)[0]
    storage_place = f"{place}.storage-topics"
    storage = values.check_mapping(storage_place, service.get("storage-topics", {}))
    values.check_keys(storage_place, storage, required=(), optional=("config", "offset", "status"))
    for key, default in (("config", "configs"), ("offset", "offsets"), ("status", "status")):
        topic = _named(storage_place, storage, key, f"connect-{default}-{name}")
        yield values.allow("", Operation.READ, ResourceType.TOPIC, topic)
        yield values.allow("", Operation.WRITE, ResourceType.TOPIC, topic)
    group = _named(place, service, "group-id", name)
    yield values.allow("", Operation.READ, ResourceType.GROUP, group)
    connectors = values.check_mapping(f"{place}.connectors", service.get("connectors", {}))
    for key, connector in connectors.items():
        connector_place = f"{place}.connectors.{key}"
        values.check_keys(
            connector_place, connector, required=(), optional=("produces", "consumes")
        )
        acls, consumed = _topics(connector_place, connector, describes_topics)
        yield from acls
        if consumed:
            yield values.allow("", Operation.READ, ResourceType.GROUP, f"connect-{key}")


def _read_streams(
    place: str, name: str, service: dict[str, values.Value], describes_topics: bool
) -> Iterator[Acl]:
    optional = ("principal", "application-id", "produces", "consumes")
    values.check_keys(place, service, required=("type",), optional=optional)
    yield from _topics(place, service, describes_topics)[0]
    application = _named(place, service, "application-id", name)
    for operation in _STREAMS_OPERATIONS:
        yield values.allow("", operation, ResourceType.TOPIC, application, PatternType.PREFIXED)
    for operation in (Operation.READ, Operation.DESCRIBE, Operation.DELETE):
        yield values.allow("", operation, ResourceType.GROUP, application)
    yield values.allow("", Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME)


SERVICES: Final[Mapping[str, ReadService]] = {
    "application": _read_application,
    "kafka-connect": _read_connect,
    "kafka-streams": _read_streams,
}
"""The kinds of services."""
