"""Julie Ops' topology: projects with topics, and the roles of principals on them.

The ACLs are those that Julie creates with its default configuration: a topic's full name has the
context, the other top-level keys, its project and its own name, joined by dots. RBAC, subjects of
schemas, Control Center (whose topics Julie's configuration names) and custom roles without the file
of roles as a second document are losses.

The scope is the ALLOWs of the topology's principals. It has no denials, because Julie has none. It
excludes principals with losses: their other ACLs may come from the lost part.

Source: Julie Ops 4: TopologyCustomDeserializer, TopicCustomDeserializer, AccessControlManager,
ProjectImpl, Topic.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from authorizerd.acl.model import WILDCARD, Acl
from authorizerd.management.formats import julie_roles, values
from authorizerd.management.formats.julie_roles import USER_KEYS, CustomRoles, fill_in, read_roles
from authorizerd.management.formats.model import AclsRead, AclTextError, Loss, Scope
from authorizerd.management.formats.parsing import parse_documents
from authorizerd.management.plan.selector import Managed

_SEPARATOR: Final = "."
_SECTIONS: Final = ("context", "projects", "platform", "special_topics")
_ROLES: Final = ("consumers", "producers", "streams", "connectors", "ksql", "schemas", "rbac")
_TOPIC_KEYS: Final = (
    "config",
    "consumers",
    "dataType",
    "metadata",
    "plan",
    "producers",
    "schemas",
    "subject.name.strategy",
)
_PLATFORM: Final[Mapping[str, tuple[str, ...]]] = {
    "kafka": ("instances", "quotas", "rbac"),
    "kafka_connect": ("rbac",),
    "schema_registry": ("instances", "rbac"),
    "control_center": ("instances",),
    "ksql": ("instances",),
}
_ASCII: Final = re.compile(r"[\0-\x7f]+")


class _User(NamedTuple):
    """A principal in a list of the topology; ``fields`` are its role's fields."""

    place: str
    principal: str
    fields: dict[str, values.Value]

    def text(self, key: str, default: str | None = None) -> str | None:
        value = self.fields.get(key)
        return default if value is None else values.check_text(f"{self.place}.{key}", value)

    def named(self, key: str, default: str) -> str:
        return self.text(key, default) or ""

    def topics(self, key: str) -> list[str]:
        place = f"{self.place}.topics"
        topics = values.check_mapping(place, values.or_empty(self.fields.get("topics"), {}))
        values.check_keys(place, topics, required=(), optional=("read", "write"))
        items = values.check_list(f"{place}.{key}", values.or_empty(topics.get(key), []), "topics")
        return [values.check_text(*item) for item in items]


_TopicUsers: TypeAlias = tuple[list[_User], list[_User]]
"""Consumers and producers."""


def read(text: str) -> AclsRead:
    first, *others = parse_documents(text, merges=False) or [(values.DOCUMENT, None)]
    if len(others) > 1:
        raise AclTextError(others[1][0], "expected at most a topology and its file of roles")
    topology = _Topology(read_roles(*others[0]) if others else None)
    acls = tuple(dict.fromkeys(topology.read(*first)))
    managed = (
        Managed(principal=principal, permission_type="ALLOW")
        for principal in sorted(topology.principals - topology.uncertain)
    )
    return AclsRead(acls, tuple(topology.losses), Scope(entries=tuple(managed)))


class _Topology:
    """The state of one reading.

    Attributes:
        losses: parts that are not ACLs, or that the topology alone does not define.
        principals: all principals with ACLs.
        uncertain: principals that may have more ACLs than were read.
    """

    def __init__(self, roles: CustomRoles | None) -> None:
        self._roles = roles
        self.losses: list[Loss] = []
        self.principals: set[str] = set()
        self.uncertain: set[str] = set()

    def read(self, place: str, value: values.Value) -> Iterator[Acl]:
        document = values.check_mapping(place, value)
        prefix = [values.check_text("context", document.get("context"))]
        prefix += (
            values.check_text(key, document[key]) for key in document if key not in _SECTIONS
        )
        for place, project in values.check_list(
            "projects", values.or_empty(document.get("projects"), []), "projects"
        ):
            yield from self._read_project(place, values.check_mapping(place, project), prefix)
        yield from self._read_platform(values.or_empty(document.get("platform"), {}))
        topics = values.check_list(
            "special_topics", values.or_empty(document.get("special_topics"), []), "topics"
        )
        for place, topic in topics:
            yield from self._read_topic(place, topic, None, ([], []))

    def _lose(self, place: str, reason: str, principals: Iterable[str] = ()) -> None:
        self.losses.append(Loss(None, f"{place}: {reason}"))
        self.uncertain.update(principals)

    def _check(self, user: _User, acls: Iterable[Acl]) -> Iterator[Acl]:
        self.principals.add(user.principal)
        for acl in acls:
            yield values.check_creatable(user.place, acl)

    def _read_project(
        self, place: str, project: dict[str, values.Value], prefix: list[str]
    ) -> Iterator[Acl]:
        name = values.check_text(f"{place}.name", project.get("name"))
        full = _SEPARATOR.join((*prefix, name, ""))
        users = self._read_users(place, project)
        topics = values.check_list(
            f"{place}.topics", values.or_empty(project.get("topics"), []), "topics"
        )
        for item_place, topic in topics:
            yield from self._read_topic(item_place, topic, full, users)
        yield from self._read_streams(f"{place}.streams", project.get("streams"), full)
        yield from self._read_ksql(f"{place}.ksql", project.get("ksql"), full)
        yield from self._read_connectors(f"{place}.connectors", project.get("connectors"))
        for user in _users(f"{place}.schemas", project.get("schemas"), _SCHEMA_KEYS):
            self._lose(user.place, "subjects of schemas have no ACLs in Kafka")
        for role in sorted(project.keys() - {"name", "topics", *_ROLES}):
            yield from self._read_custom(f"{place}.{role}", role, project[role])
        if project.get("rbac"):
            self._lose(f"{place}.rbac", "RBAC has no ACLs in Kafka")

    def _read_custom(self, place: str, role: str, value: values.Value) -> Iterator[Acl]:
        """Yield the ACLs of principals with a custom role; without the roles, they are lost."""
        users = list(_users(place, value, USER_KEYS))
        if self._roles is None:
            for user in users:
                reason = "Julie's file of custom roles says what it may"
                self._lose(user.place, reason, (user.principal,))
            return
        if role not in self._roles:
            known = ", ".join(self._roles)
            raise AclTextError(place, f"unknown role {role!r}: expected one of {known}")
        for user in users:
            acls = fill_in(self._roles[role], user.place, user.principal, user.fields)
            yield from self._check(user, acls)

    def _read_users(self, place: str, value: dict[str, values.Value]) -> _TopicUsers:
        consumers = list(_users(f"{place}.consumers", value.get("consumers"), ("group",)))
        keys = ("transactionId", "idempotence")
        producers = list(_users(f"{place}.producers", value.get("producers"), keys))
        self.principals.update(user.principal for user in (*consumers, *producers))
        return consumers, producers

    def _read_topic(
        self, place: str, value: values.Value, prefix: str | None, others: _TopicUsers
    ) -> Iterator[Acl]:
        """Yield the ACLs of a topic's users.

        Args:
            prefix: the beginning of its name; None for a special topic, which is named in full.
                others: the project's users, who use every topic in it.
        """
        values.check_keys(place, value, required=("name",), optional=_TOPIC_KEYS)
        name = _name_topic(place, value, prefix)
        consumers, producers = self._read_users(place, value)
        for user in (*consumers, *others[0]):
            group = user.named("group", WILDCARD)
            yield from self._check(user, julie_roles.consume(user.principal, name, group))
        first: dict[str, list[Acl]] = {}
        for user in (*producers, *others[1]):
            acls = list(self._check(user, _produce(user, name)))
            if first.setdefault(user.principal, acls) != acls:
                self._lose(
                    user.place, f"Julie takes only the first producer {user.principal} of {name}"
                )
        for acls in first.values():
            yield from acls

    def _read_streams(self, place: str, value: values.Value, prefix: str) -> Iterator[Acl]:
        keys = ("topics", "applicationId", "exactlyOnce")
        for user in _users(place, value, keys):
            exactly_once = values.check_flag(
                f"{user.place}.exactlyOnce", user.fields.get("exactlyOnce", False)
            )
            read, written = user.topics("read"), user.topics("write")
            if not read:
                raise AclTextError(f"{user.place}.topics.read", "expected at least one topic")
            application = user.named("applicationId", prefix)
            yield from self._check(
                user, julie_roles.stream(user.principal, application, read, written, exactly_once)
            )

    def _read_ksql(self, place: str, value: values.Value, prefix: str) -> Iterator[Acl]:
        keys = ("topics", "applicationId", "ksqlDbId")
        for user in _users(*_access_control(place, value), keys):
            application = user.named("applicationId", prefix)
            read, written = user.topics("read"), user.topics("write")
            yield from self._check(
                user, julie_roles.run_ksql_application(user.principal, application, read, written)
            )

    def _read_connectors(self, place: str, value: values.Value) -> Iterator[Acl]:
        for user in _users(*_access_control(place, value), _CONNECTOR_KEYS):
            if user.fields.get("connectors"):
                self._lose(f"{user.place}.connectors", "RBAC has no ACLs in Kafka")
            own_topics = (
                user.named("status_topic", "connect-status"),
                user.named("offset_topic", "connect-offsets"),
                user.named("configs_topic", "connect-configs"),
            )
            acls = julie_roles.connect(
                user.principal,
                own_topics,
                user.named("group", "connect-cluster"),
                user.topics("read"),
                user.topics("write"),
            )
            yield from self._check(user, acls)

    def _read_platform(self, value: values.Value) -> Iterator[Acl]:
        values.check_keys("platform", value, required=(), optional=_PLATFORM)
        systems: dict[str, dict[str, values.Value]] = {}
        for key, keys in _PLATFORM.items():
            place = f"platform.{key}"
            systems[key] = values.check_mapping(place, values.or_empty(value.get(key), {}))
            values.check_keys(place, systems[key], required=(), optional=keys)
            if systems[key].get("rbac"):
                self._lose(f"{place}.rbac", "RBAC has no ACLs in Kafka")
        registries = systems["schema_registry"].get("instances")
        keys = ("topic", "consumer_offsets_topic", "group")
        for user in _users("platform.schema_registry.instances", registries, keys):
            acls = julie_roles.run_schema_registry(
                user.principal,
                user.named("topic", "_schemas"),
                user.named("consumer_offsets_topic", "__consumer_offsets"),
                user.named("group", "schema-registry"),
            )
            yield from self._check(user, acls)
        centers = systems["control_center"].get("instances")
        for user in _users("platform.control_center.instances", centers, ("appId",)):
            reason = "Julie's configuration names the topics of Control Center"
            self._lose(user.place, reason, (user.principal,))
        servers = systems["ksql"].get("instances")
        for user in _users("platform.ksql.instances", servers, ("ksqlDbId", "owner")):
            server = values.check_text(f"{user.place}.ksqlDbId", user.fields.get("ksqlDbId"))
            yield from self._check(user, julie_roles.run_ksql_server(user.principal, server))


_SCHEMA_KEYS: Final = ("subjects", "role", "prefixed")
_CONNECTOR_KEYS: Final = (
    "topics",
    "status_topic",
    "offset_topic",
    "configs_topic",
    "group",
    "cluster_id",
    "connectors",
)


def _name_topic(place: str, value: dict[str, values.Value], prefix: str | None) -> str:
    name = values.check_text(f"{place}.name", value["name"])
    if prefix is None:
        return name
    data_type = value.get("dataType")
    if data_type is not None:
        name += _SEPARATOR + values.check_text(f"{place}.dataType", data_type)
    if not _ASCII.fullmatch(prefix + name):
        raise AclTextError(place, f"expected the name of a topic in ASCII, found {prefix + name!r}")
    return prefix + name


def _users(place: str, value: values.Value, keys: tuple[str, ...]) -> Iterator[_User]:
    for item_place, item in values.check_list(place, values.or_empty(value, []), "principals"):
        values.check_keys(item_place, item, required=("principal",), optional=("metadata", *keys))
        yield _User(
            item_place, values.check_text(f"{item_place}.principal", item["principal"]), item
        )


def _access_control(place: str, value: values.Value) -> tuple[str, values.Value]:
    """Return the list of principals of a role, which may be next to its artefacts."""
    if not isinstance(value, dict):
        return place, value
    optional = ("access_control", "artefacts", "artifacts")
    values.check_keys(place, value, required=(), optional=optional)
    return f"{place}.access_control", value.get("access_control")


def _produce(user: _User, topic: str) -> Iterator[Acl]:
    # Julie only checks whether the field is present, even if it is false.
    is_idempotent = user.fields.get("idempotence") is not None
    return julie_roles.produce(user.principal, topic, user.text("transactionId"), is_idempotent)
