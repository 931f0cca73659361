"""kafka-python's KafkaAdminClient as a client of the matrix."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    AlterConfigOp,
    ConfigResource,
    ConfigResourceType,
    ConfigSourceType,
    KafkaAdminClient,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from kafka.errors import BrokerResponseError

from authorizerd.acl.model import Acl, PatternType
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.client_matrix.deeds import (
    NODE_ID,
    AdminClient,
    Cluster,
    Config,
    Deed,
    Login,
    Operations,
    RefusedError,
    Told,
    told_of_each,
)


class KafkaPythonClient(AdminClient):
    hides: ClassVar[frozenset[Deed]] = frozenset({Deed.DESCRIBE_CONFIGS})
    told_instead: ClassVar[Mapping[Deed, int | None]] = {
        Deed.DESCRIBE_GROUPS: ErrorCode.GROUP_ID_NOT_FOUND,
    }
    notes: ClassVar[Mapping[Deed, str]] = {
        Deed.DESCRIBE_CONFIGS: "the client ignores the error of a refusal and returns no configs",
        Deed.DESCRIBE_GROUPS: "uses version 6, in which a missing group is an error "
        "(GROUP_ID_NOT_FOUND) without operations",
    }

    def __init__(self, address: str, login: Login | None) -> None:
        settings: dict[str, Any] = {"bootstrap_servers": address}
        if login is not None:
            settings |= {
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "PLAIN",
                "sasl_plain_username": login.username,
                "sasl_plain_password": login.password,
            }
        self._client = KafkaAdminClient(**settings)

    def close(self) -> None:
        self._client.close()

    def create_acls(self, acls: Sequence[Acl]) -> list[int]:
        # Of a request of several the client does not tell which of them failed.
        results = [self._client.create_acls([_binding(acl)]) for acl in acls]
        return [each["failed"][0].errno if each["failed"] else 0 for each in results]

    def describe_acls(self, topic: str, pattern_type: PatternType) -> set[Acl]:
        with _refusals():
            found, _ = self._client.describe_acls(_meant(topic, pattern_type))
        return _acls(found)

    def delete_acls(self, topic: str, pattern_type: PatternType) -> set[Acl]:
        ((_, deleted, error),) = self._client.delete_acls([_meant(topic, pattern_type)])
        _check(error.errno)
        return _acls(deleted)

    def describe_cluster(self) -> Cluster:
        told = self._client.describe_cluster()
        operations = frozenset(told["authorized_operations"])
        return Cluster([node["broker_id"] for node in told["brokers"]], operations)

    def list_groups(self) -> list[str]:
        return [group["group_id"] for group in self._client.list_groups()]

    def describe_groups(self, names: Sequence[str]) -> Told:
        return told_of_each(names, self._describe_group)

    def _describe_group(self, name: str) -> Operations:
        with _refusals():
            told = self._client.describe_groups([name])[name]
        if told["error"] is not None:  # of which the client gives the text alone
            assert f"Group {name} not found." in told["error"]
            raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND)
        return frozenset(told["authorized_operations"])

    def describe_topics(self, names: Sequence[str]) -> Told:
        told = {topic["name"]: topic for topic in self._client.describe_topics(list(names))}
        return {
            name: told[name]["error_code"] or frozenset(told[name]["authorized_operations"])
            for name in names
        }

    def describe_configs(self) -> Mapping[str, Config]:
        told = self._client.describe_configs([_node()], config_filter="all")
        return {
            name: Config(each["value"], ConfigSourceType[each["config_source"]].value)
            for name, each in told["broker"][str(NODE_ID)].items()
        }

    def alter_config(self, name: str, value: str | None) -> None:
        what = AlterConfigOp.DELETE if value is None else AlterConfigOp.SET
        # To know the keys it would describe them first, which another right allows.
        told = self._client.alter_configs(
            [_node({name: (what, value)})], raise_on_unknown=False, incremental=True
        )
        said = told["broker"][str(NODE_ID)]
        if said != "OK":  # "[Error 31] …": the client gives the text alone
            raise RefusedError(int(said.partition("]")[0].removeprefix("[Error ")))

    def describe_quorum(self) -> tuple[int, list[int]]:
        with _refusals():
            told = self._client.describe_metadata_quorum()
        (partition,) = told["topics"][0]["partitions"]
        voters = [voter["replica_id"] for voter in partition["current_voters"]]
        return partition["leader_id"], voters


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except BrokerResponseError as error:
        raise RefusedError(error.errno) from error


def _check(code: int) -> None:
    if code:
        raise RefusedError(code)


def _node(configs: Mapping[str, Any] | None = None) -> ConfigResource:
    return ConfigResource(ConfigResourceType.BROKER, str(NODE_ID), configs)


def _binding(acl: Acl) -> ACL:
    return ACL(
        acl.principal,
        acl.host,
        ACLOperation(acl.operation),
        ACLPermissionType(acl.permission_type),
        ResourcePattern(
            ResourceType(acl.resource_type),
            acl.resource_name,
            ACLResourcePatternType(acl.pattern_type),
        ),
    )


def _meant(topic: str, pattern_type: PatternType) -> ACLFilter:
    pattern = ResourcePatternFilter(ResourceType.TOPIC, topic, ACLResourcePatternType(pattern_type))
    return ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, pattern)


def _acls(found: Iterable[ACL]) -> set[Acl]:
    return {
        Acl(
            int(each.resource_pattern.resource_type),
            each.resource_pattern.resource_name,
            int(each.resource_pattern.pattern_type),
            each.principal,
            each.host,
            int(each.operation),
            int(each.permission_type),
        )
        for each in found
    }
