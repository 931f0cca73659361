"""Valid and invalid requests of every served API and version, generated from a seed.

**Invariant:** a seed gives the same requests on any machine. A round contains each version of each
API once, but requests about ACLs and users several times, in random order. Its last requests
restore the users' rights.

Some requests are left out because of bugs of the broker. It never answers IncrementalAlterConfigs
with ``validate_only``, AlterConfigs with a resource twice, or an empty value. It fails on Metadata
of a topic without name and id, and on requests of ``User:*``. A small ``max.connections`` locks
everyone out. It also keeps unknown keys, so no request sets one.
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from types import SimpleNamespace
from typing import Any, Final, TypeVar
from uuid import UUID

from authorizerd.acl.model import CLUSTER_NAME, Operation, PatternType, PermissionType, ResourceType
from authorizerd.acl.steps import finish
from authorizerd.protocol.kafka.api import APIS, ApiKey
from authorizerd.protocol.kafka.client_connection import KafkaClientConnection
from authorizerd.protocol.kafka.envelope import FORWARDABLE
from tests.kafka_rig.broker import ADMIN
from tests.support.kafka_principals import encode_principal
from tests.support.kio_codec import encode_request

T = TypeVar("T")
Fields = SimpleNamespace

ALTERS, DESCRIBES, NOBODY, FORWARDS = "alters", "describes", "nobody", "forwards"
USERS: Final = (ADMIN, ALTERS, DESCRIBES, NOBODY, FORWARDS)
ANONYMOUS: Final = None
"""The user of PLAINTEXT."""

SEEN, HIDDEN = "seen", "hidden"
TOPICS: Final = (SEEN, HIDDEN, "orders", "orders.eu")
GRANTED: Final[tuple[tuple[str, Operation], ...]] = (
    (ALTERS, Operation.ALTER),
    (ALTERS, Operation.ALTER_CONFIGS),
    (DESCRIBES, Operation.DESCRIBE),
    (DESCRIBES, Operation.DESCRIBE_CONFIGS),
    (FORWARDS, Operation.CLUSTER_ACTION),
)
"""The users' rights on the cluster, restored after each round."""

ACL_REQUESTS: Final = (ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS)
REPEATED: Final = (
    *ACL_REQUESTS,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
)
REPEATS_PER_ROUND: Final = 3
UNKNOWN_APIS: Final = (-1, 4, 95, 999)
"""API keys that Kafka 4.4 and earlier versions lack."""
NOT_KAFKAS: Final = frozenset(
    ((ApiKey.ENVELOPE, 1), (ApiKey.API_VERSIONS, 5), *((api_key, 0) for api_key in ACL_REQUESTS))
)
"""Versions that Kafka 4.3 does not serve."""
FORWARDABLE_KEYS: Final = tuple(key for key, api in APIS.items() if api.name in FORWARDABLE)

BROKER, BROKER_LOGGER, TOPIC_CONFIGS = 4, 8, 2
MAX_CONNECTIONS: Final = "max.connections"
DESCRIBED_KEYS: Final = (
    MAX_CONNECTIONS, "node.id", "queued.max.requests", "metadata.log.segment.bytes",
    "metadata.max.retention.ms", "no.such.key", "",
)  # fmt: skip
VALUES: Final = ("1000", "2147483647", "4096", "05000", " 6000 ", "many", "1e4", "2147483648")

NAMES: Final = (
    *TOPICS, "absent", "ord", "o", "*", "bad/name", "é", "\U0001f600", "..", "a" * 250, "__x",
    CLUSTER_NAME, "__consumer_offsets", "",
)  # fmt: skip
PRINCIPALS: Final = (
    *(f"User:{user}" for user in USERS[1:]), "User:ANONYMOUS", "User:*", "Group:x", ":", "User:",
    "user:alters", "User:a:b", "User:élan", "alice", "*", "",
)  # fmt: skip
FORWARDED_PRINCIPALS: Final = (*PRINCIPALS[: len(USERS)], "Group:x", ":", "User:")
SCRAM_USERS: Final = ("alters", "zoé", "u1", "u2", "u3", "a,b=c", "x" * 300, "")
QUOTA_ENTITIES: Final = ("user", "user", "client-id", "client-id", "ip", "group", "")
ODD_CODES: Final = (0, 99, -1)
ANY: Final = 1
ODD_CREATED_CODES: Final = (*ODD_CODES, ANY, ANY)
CREATED_TYPES: Final = tuple(ResourceType)[2:]
CREATED_PATTERN_TYPES: Final = (PatternType.LITERAL, PatternType.PREFIXED)
CREATED_OPERATIONS: Final = tuple(Operation)[2:]
STRANGERS: Final = ("User:zoé", "Group:x", "User:a:b", ":", "User:")
"""Principals whose rights on the cluster may change. The rounds depend on those of all others."""
HOSTS: Final = ("*", "*", "*", "127.0.0.1", "10.0.0.9", "0:0:0:0:0:0:0:1", "localhost", "")
ADDRESSES: Final = (b"\x7f\0\0\1", b"\n\0\0\x09", bytes(15) + b"\1", b"", b"\1\2\3", bytes(16))


@dataclass(frozen=True)
class Request:
    """A request of ``user``; ``body`` is ``fields`` as bytes, or a damaged copy."""

    api_key: ApiKey
    version: int
    user: str | None
    fields: Any
    body: bytes
    on_controller: bool = False

    def __str__(self) -> str:
        place = " on the controller" if self.on_controller else ""
        return (
            f"{APIS[self.api_key].name} v{self.version} by {self.user or 'ANONYMOUS'}{place}:"
            f" {self.fields} as {self.body.hex()}"
        )

    @property
    def is_whole(self) -> bool:
        """Return True if the body is not damaged."""
        return self.body == encoded(self.api_key, self.version, self.fields)


def encoded(api_key: ApiKey, version: int, fields: object) -> bytes:
    return finish(encode_request(api_key, version, fields))


def request_of(
    api_key: ApiKey,
    version: int,
    user: str | None,
    fields: Any,  # noqa: ANN401 - fields of any request
    *,
    on_controller: bool = False,
) -> Request:
    body = encoded(api_key, version, fields)
    return Request(api_key, version, user, fields, body, on_controller)


def grants() -> Request:
    """Return the request that gives the users their rights; it may be repeated."""
    rows = [
        (ResourceType.CLUSTER, CLUSTER_NAME, f"User:{user}", operation)
        for user, operation in GRANTED
    ]
    rows += [
        (ResourceType.TOPIC, SEEN, "User:ANONYMOUS", Operation.READ),
        (ResourceType.GROUP, "orders", "User:ANONYMOUS", Operation.DELETE),
        (ResourceType.TOPIC, "absent", "User:ANONYMOUS", Operation.DESCRIBE),
        (ResourceType.TOPIC, "bad/name", "User:ANONYMOUS", Operation.DESCRIBE),
    ]
    creations = [
        creation(resource_type=kind, resource_name=name, principal=principal, operation=operation)
        for kind, name, principal, operation in rows
    ]
    return request_of(ApiKey.CREATE_ACLS, 3, ADMIN, Fields(creations=creations))


def creation(**fields: object) -> Fields:
    usual: dict[str, object] = {
        "resource_pattern_type": PatternType.LITERAL,
        "host": "*",
        "permission_type": PermissionType.ALLOW,
    }
    return Fields(**usual | fields)


def every_acl() -> Request:
    fields = Fields(
        resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1,
        principal_filter=None, host_filter=None, operation=1, permission_type=1,
    )  # fmt: skip
    return request_of(ApiKey.DESCRIBE_ACLS, 3, ADMIN, fields)


def dynamic_configs() -> Request:
    resources = [
        Fields(resource_type=BROKER, resource_name=name, configuration_keys=[MAX_CONNECTIONS])
        for name in ("", "1")
    ]
    fields = Fields(resources=resources, include_synonyms=True, include_documentation=False)
    return request_of(ApiKey.DESCRIBE_CONFIGS, 4, ADMIN, fields)


def every_user() -> Request:
    return request_of(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, ADMIN, Fields(users=None))


def rounds(seed: int, count: int, topic_ids: Mapping[str, UUID]) -> Iterator[Request]:
    for number in range(count):
        random = Random(f"{seed}/{number}")
        maker = _RequestMaker(random, topic_ids)
        asked = [
            (api_key, version)
            for api_key, api in APIS.items()
            for version in api.versions
            for _ in range(REPEATS_PER_ROUND if api_key in REPEATED else 1)
        ]
        random.shuffle(asked)
        for api_key, version in asked:
            yield maker.request(api_key, version)
        yield grants()


class _RequestMaker:
    """Draw requests; ``_make`` draws the fields of each API."""

    def __init__(self, random: Random, topic_ids: Mapping[str, UUID]) -> None:
        self._random = random
        self._has_odd_codes = True
        self._ids = (*topic_ids.values(), UUID(int=99))
        self._make: Mapping[ApiKey, Callable[[int], Fields]] = {
            ApiKey.METADATA: self._metadata,
            ApiKey.FIND_COORDINATOR: self._find_coordinator,
            ApiKey.DESCRIBE_GROUPS: self._describe_groups,
            ApiKey.LIST_GROUPS: self._list_groups,
            ApiKey.SASL_HANDSHAKE: self._sasl_handshake,
            ApiKey.API_VERSIONS: self._api_versions,
            ApiKey.DESCRIBE_ACLS: self._filter,
            ApiKey.CREATE_ACLS: self._create_acls,
            ApiKey.DELETE_ACLS: self._delete_acls,
            ApiKey.DESCRIBE_CONFIGS: self._describe_configs,
            ApiKey.ALTER_CONFIGS: self._alter_configs,
            ApiKey.SASL_AUTHENTICATE: self._sasl_authenticate,
            ApiKey.INCREMENTAL_ALTER_CONFIGS: self._incremental_alter_configs,
            ApiKey.DESCRIBE_CLIENT_QUOTAS: self._describe_client_quotas,
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: self._describe_users,
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS: self._alter_users,
            ApiKey.DESCRIBE_QUORUM: self._describe_quorum,
            ApiKey.ENVELOPE: self._envelope,
            ApiKey.DESCRIBE_CLUSTER: self._describe_cluster,
        }

    def request(self, api_key: ApiKey, version: int) -> Request:
        """Return a request; one in twelve is cut or has extra bytes."""
        on_controller = api_key in _ON_CONTROLLERS and (
            api_key is ApiKey.ENVELOPE or self._once_in(5)
        )
        is_kafkas = (api_key, version) not in NOT_KAFKAS
        is_damaged = is_kafkas and self._once_in(12)
        self._has_odd_codes = not is_damaged
        fields = self._make[api_key](version)
        user = self._user(api_key, on_controller)
        if is_damaged and api_key in (*ACL_REQUESTS, ApiKey.ENVELOPE):
            user = ADMIN
        request = request_of(api_key, version, user, fields, on_controller=on_controller)
        return replace(request, body=self._damaged(request.body)) if is_damaged else request

    def _user(self, api_key: ApiKey, on_controller: bool) -> str | None:
        if self._once_in(2):
            return FORWARDS if api_key is ApiKey.ENVELOPE else ADMIN
        return self._random.choice(USERS if on_controller else (*USERS, ANONYMOUS))

    def _damaged(self, body: bytes) -> bytes:
        cuts = [body[: self._below(len(body))], body[:-1]] if body else []
        return self._random.choice([*cuts, body + b"\0", body + b"\xff\xff"])

    def _once_in(self, number: int) -> bool:
        return not self._random.randrange(number)

    def _some(self, values: Sequence[T], most: int = 4) -> list[T]:
        return [self._random.choice(values) for _ in range(self._random.randint(0, most))]

    def _code(self, known: Sequence[int], odd: Sequence[int] = ODD_CODES) -> int:
        """Return a code, sometimes 0, a future one, or a negative one."""
        is_odd = self._has_odd_codes and self._once_in(40)
        return self._random.choice(odd if is_odd else known)

    def _metadata(self, version: int) -> Fields:
        random = self._random
        topics: list[Fields] | None
        if self._once_in(5):
            topics = None if version else []
        elif version >= 12 and self._once_in(2):
            topics = [Fields(name=None, topic_id=each) for each in self._some(self._ids)]
            if self._once_in(4):
                topics += [Fields(name=name, topic_id=None) for name in self._some(NAMES)]
        elif version in (10, 11) and self._once_in(4):
            topics = [Fields(name="seen", topic_id=None), Fields(name=None, topic_id=self._ids[0])]
        else:
            topics = [Fields(name=name, topic_id=None) for name in self._some(NAMES, 8)]
        return Fields(
            topics=topics,
            allow_auto_topic_creation=random.choice((True, False)),
            include_cluster_authorized_operations=version >= 8 and random.choice((True, False)),
            include_topic_authorized_operations=version >= 8 and random.choice((True, False)),
        )

    def _find_coordinator(self, version: int) -> Fields:
        return Fields(
            key=self._random.choice(NAMES),
            coordinator_keys=self._some(NAMES, 8),
            key_type=self._random.choice((0, 0, 0, 1, 1, 2, 3, -1)) if version else 0,
        )

    def _describe_groups(self, version: int) -> Fields:
        wanted = version >= 3 and self._random.choice((True, False))
        return Fields(groups=self._some(NAMES, 8), include_authorized_operations=wanted)

    def _list_groups(self, version: int) -> Fields:
        states = ("Stable", "dead", "empty", "no state", "")
        types = ("classic", "Consumer", "share", "no type", "")
        return Fields(states_filter=self._some(states, 2), types_filter=self._some(types, 2))

    def _sasl_handshake(self, version: int) -> Fields:
        return Fields(mechanism=self._random.choice(("PLAIN", "SCRAM-SHA-256", "", "plain")))

    def _sasl_authenticate(self, version: int) -> Fields:
        return Fields(auth_bytes=self._random.choice((b"", b"\0admin\0admin-secret", b"\xff")))

    def _api_versions(self, version: int) -> Fields:
        names = ("a-client", "a", "-a", "a client", "", "é", "a.b-c.9")
        return Fields(
            client_software_name=self._random.choice(names),
            client_software_version=self._random.choice(("1.0", "1", "", "1.0-", "1_0")),
            cluster_id=None,
            node_id=-1,
        )

    def _pattern(self) -> tuple[int, str]:
        kind = self._code(tuple(ResourceType)[1:])
        if kind == ResourceType.CLUSTER and not self._once_in(8):
            return kind, CLUSTER_NAME
        return kind, self._random.choice(NAMES)

    def _create_acls(self, version: int) -> Fields:
        most = 40 if self._once_in(8) else 5
        return Fields(creations=[self._creation(version) for _ in range(1 + self._below(most))])

    def _below(self, number: int) -> int:
        return self._random.randrange(number)

    def _creation(self, version: int) -> Fields:
        kind = self._code(CREATED_TYPES, ODD_CREATED_CODES)
        is_of_all = kind == ResourceType.CLUSTER
        name = CLUSTER_NAME if is_of_all and self._below(8) else self._random.choice(NAMES)
        pattern_type = self._code(CREATED_PATTERN_TYPES, (*ODD_CREATED_CODES, PatternType.MATCH))
        return Fields(
            resource_type=kind,
            resource_name=name,
            resource_pattern_type=pattern_type if version else PatternType.LITERAL,
            principal=self._random.choice(STRANGERS if is_of_all else PRINCIPALS),
            host=self._random.choice(HOSTS),
            operation=self._code(CREATED_OPERATIONS, ODD_CREATED_CODES),
            permission_type=self._code((2, 3, 3, 3), ODD_CREATED_CODES),
        )

    def _filter(self, version: int) -> Fields:
        """Return a filter with about half of its fields open."""
        random = self._random
        kind, name = self._pattern()
        return Fields(
            resource_type_filter=kind,
            resource_name_filter=None if self._once_in(3) else name,
            pattern_type_filter=self._code((1, 2, 2, 3, 4)) if version else PatternType.LITERAL,
            principal_filter=None if self._once_in(2) else random.choice(PRINCIPALS),
            host_filter=None if self._once_in(2) else random.choice(HOSTS),
            operation=1 if self._once_in(2) else self._code(tuple(Operation)[1:]),
            permission_type=1 if self._once_in(2) else self._code((1, 2, 3)),
        )

    def _delete_acls(self, version: int) -> Fields:
        return Fields(filters=[self._deletion(version) for _ in range(1 + self._below(4))])

    def _deletion(self, version: int) -> Fields:
        """Return a filter that does not match the users' rights on the cluster."""
        drawn = self._filter(version)
        if drawn.resource_type_filter in (ResourceType.ANY, ResourceType.CLUSTER):
            drawn.principal_filter = self._random.choice(STRANGERS)
        return drawn

    def _config_resource(self) -> tuple[int, str]:
        kind = BROKER if self._below(8) else self._random.choice((0, 3, 99, -1))
        return kind, self._random.choice(("1", "1", "1", "", "", "2", "one", "-1"))

    def _describe_configs(self, version: int) -> Fields:
        resources = []
        for _ in range(self._below(4)):
            kind, name = self._config_resource()
            name = "01" if name == "1" and self._once_in(4) else name
            keys = self._random.sample(DESCRIBED_KEYS, 1 + self._below(4))
            resources.append(
                Fields(resource_type=kind, resource_name=name, configuration_keys=keys)
            )
        return Fields(
            resources=resources,
            include_synonyms=self._random.choice((True, False)),
            include_documentation=version >= 3 and self._once_in(2),
        )

    def _altered(self, operations: Sequence[int]) -> Fields:
        random = self._random
        kind, name = self._config_resource()
        configs = []
        for _ in range(random.choice((0, 1, 1, 1, 2))):
            operation = random.choice(operations)
            unknown = "no.such.key" if operation else "node.id"
            key = random.choice((MAX_CONNECTIONS,) * 5 + ("node.id", unknown))
            value = None if self._once_in(8) else random.choice(VALUES)
            configs.append(Fields(name=key, config_operation=operation, value=value))
        return Fields(resource_type=kind, resource_name=name, configs=configs)

    def _alter_configs(self, version: int) -> Fields:
        drawn = [self._altered((0,)) for _ in range(self._below(4))]
        resources = {  # Kafka treats all unknown types as the same
            (each.resource_type == BROKER, each.resource_name): each for each in drawn
        }
        return Fields(resources=[*resources.values()], validate_only=self._once_in(4))

    def _incremental_alter_configs(self, version: int) -> Fields:
        resources = [self._altered((0, 0, 0, 1, 1, 2, 3, 7)) for _ in range(self._below(4))]
        return Fields(resources=resources, validate_only=False)

    def _sound_alteration(self) -> Fields:
        """Return a valid alteration, which a broker forwards."""
        value = self._random.choice(("1000", "2147483647", "4096"))
        config = Fields(name=MAX_CONNECTIONS, config_operation=0, value=value)
        name = self._random.choice(("", "1"))
        resource = Fields(resource_type=BROKER, resource_name=name, configs=[config])
        return Fields(resources=[resource], validate_only=False)

    def _describe_client_quotas(self, version: int) -> Fields:
        random = self._random
        components = [
            Fields(
                entity_type=random.choice(QUOTA_ENTITIES),
                match_type=random.choice((0, 0, 1, 2, 2, 3, -1)),
                match=random.choice((None, None, "alters", "")),
            )
            for _ in range(self._below(4))
        ]
        return Fields(components=components, strict=random.choice((True, False)))

    def _describe_users(self, version: int) -> Fields:
        return Fields(users=[Fields(name=name) for name in self._some(SCRAM_USERS, 6)])

    def _alter_users(self, version: int) -> Fields:
        users = self._some(SCRAM_USERS, 6)
        below = self._below(len(users) + 1)
        return Fields(
            deletions=[Fields(name=name, mechanism=self._mechanism()) for name in users[:below]],
            upsertions=[self._upsertion(name) for name in users[below:]],
        )

    def _upsertion(self, name: str) -> Fields:
        random = self._random
        mechanism = self._mechanism()
        return Fields(
            name=name,
            mechanism=mechanism,
            iterations=random.choice((4096, 4096, 8192, 16_384, 4095, 16_385, 0, -1)),
            salt=random.choice((b"salt", b"\xff", b"s" * 1024)),
            salted_password=random.randbytes(64 if mechanism == 2 else 32),
        )

    def _mechanism(self) -> int:
        return self._random.choice((1, 1, 1, 2, 2, 2, 0, 3, -1))

    def _describe_quorum(self, version: int) -> Fields:
        topics = [
            Fields(
                topic_name=name,
                partitions=[Fields(partition_index=each) for each in self._some((0, 0, 1, -1), 2)],
            )
            for name in self._some(("__cluster_metadata", "__cluster_metadata", SEEN, ""), 2)
        ]
        if self._once_in(2):
            partitions = [Fields(partition_index=0)]
            topics = [Fields(topic_name="__cluster_metadata", partitions=partitions)]
        return Fields(topics=topics)

    def _describe_cluster(self, version: int) -> Fields:
        return Fields(
            include_cluster_authorized_operations=self._random.choice((True, False)),
            endpoint_type=self._random.choice((1, 1, 2, 0, 3, -1)) if version else 1,
            include_fenced_brokers=version >= 2 and self._random.choice((True, False)),
        )

    def _envelope(self, version: int) -> Fields:
        random = self._random
        carried = random.choice(FORWARDABLE_KEYS * 4 + (ApiKey.METADATA, ApiKey.DESCRIBE_ACLS))
        inner_version = random.choice(APIS[carried].versions)
        self._has_odd_codes = False
        fields = (
            self._sound_alteration()
            if carried in (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS)
            else self._make[carried](inner_version)
        )
        body = encoded(carried, inner_version, fields)
        data = inner_request(carried, inner_version, body)
        if self._once_in(10):
            data = data[: self._below(len(data))]
        elif self._once_in(20):
            data = struct.pack(">h", random.choice(UNKNOWN_APIS)) + data[2:]
        principal = encode_principal(random.choice(FORWARDED_PRINCIPALS))
        if self._once_in(10):
            principal = random.choice((b"", b"\0\1" + principal[2:], principal[:-1]))
        return Fields(
            request_data=data,
            request_principal=None if self._once_in(20) else principal,
            client_host_address=random.choice(ADDRESSES[:2] * 6 + ADDRESSES),
        )


_ON_CONTROLLERS: Final = (
    ApiKey.API_VERSIONS, ApiKey.DESCRIBE_QUORUM, ApiKey.ENVELOPE, ApiKey.DESCRIBE_CLUSTER,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS, *ACL_REQUESTS,
)  # fmt: skip
"""APIs that are also used on the controller's listener."""


def inner_request(api_key: ApiKey, version: int, body: bytes) -> bytes:
    """Return a request without its size, as in an Envelope."""
    return KafkaClientConnection("inner", 1).frame_request(api_key, version, body)[4:]
