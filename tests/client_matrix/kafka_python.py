"""kafka-python's KafkaAdminClient as a client of the matrix."""

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
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka.errors import BrokerResponseError

from authorizerd.acl.model import Acl, PatternType
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.client_matrix.calls import (
    NODE_ID,
    PASSWORD,
    AdminClient,
    Call,
    Cluster,
    Config,
    Login,
    Operations,
    RefusedError,
    Reported,
    Tls,
    check_code,
    python_settings,
    report_each,
)


class KafkaPythonClient(AdminClient):
    """kafka-python."""

    hides: ClassVar[frozenset[Call]] = frozenset({Call.DESCRIBE_CONFIGS})
    reported_instead: ClassVar[Mapping[Call, int | None]] = {
        Call.DESCRIBE_GROUPS: ErrorCode.GROUP_ID_NOT_FOUND
    }
    notes: ClassVar[Mapping[Call, str]] = {
        Call.DESCRIBE_CONFIGS: "if refused, the client ignores the error and returns no configs",
        Call.DESCRIBE_GROUPS: "uses version 6, in which a missing group is an error "
        "(GROUP_ID_NOT_FOUND) without operations",
    }

    def __init__(self, address: str, login: Login | None, tls: Tls | None = None) -> None:
        self._client = KafkaAdminClient(**python_settings(address, login, tls))

    def close(self) -> None:
        self._client.close()

    def create_acls(self, acls: Sequence[Acl]) -> list[int]:
        # The client does not report which ACL of a request failed, so each gets its own request.
        results = [self._client.create_acls([_binding(acl)]) for acl in acls]
        return [each["failed"][0].errno if each["failed"] else 0 for each in results]

    def describe_acls(self, topic: str, pattern_type: PatternType) -> set[Acl]:
        with _refusals():
            found, _ = self._client.describe_acls(_filter_of(topic, pattern_type))
        return _acls(found)

    def delete_acls(self, topic: str, pattern_type: PatternType) -> set[Acl]:
        ((_, deleted, error),) = self._client.delete_acls([_filter_of(topic, pattern_type)])
        check_code(error.errno)
        return _acls(deleted)

    def describe_cluster(self) -> Cluster:
        reported = self._client.describe_cluster()
        operations = frozenset(reported["authorized_operations"])
        return Cluster([node["broker_id"] for node in reported["brokers"]], operations)

    def list_groups(self) -> list[str]:
        return [group["group_id"] for group in self._client.list_groups()]

    def describe_groups(self, names: Sequence[str]) -> Reported:
        return report_each(names, self._describe_group)

    def _describe_group(self, name: str) -> Operations:
        with _refusals():
            reported = self._client.describe_groups([name])[name]
        if reported["error"] is not None:  # the client reports only its text
            assert f"Group {name} not found." in reported["error"]
            raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND)
        return frozenset(reported["authorized_operations"])

    def describe_topics(self, names: Sequence[str]) -> Reported:
        reported = {topic["name"]: topic for topic in self._client.describe_topics(list(names))}
        return {
            name: reported[name]["error_code"] or frozenset(reported[name]["authorized_operations"])
            for name in names
        }

    def describe_configs(self) -> Mapping[str, Config]:
        reported = self._client.describe_configs([_node()], config_filter="all")
        return {
            name: Config(each["value"], ConfigSourceType[each["config_source"]].value)
            for name, each in reported["broker"][str(NODE_ID)].items()
        }

    def alter_config(self, name: str, value: str | None) -> None:
        what = AlterConfigOp.DELETE if value is None else AlterConfigOp.SET
        # Otherwise the client describes the keys first, which needs another right.
        reported = self._client.alter_configs(
            [_node({name: (what, value)})], raise_on_unknown=False, incremental=True
        )
        said = reported["broker"][str(NODE_ID)]
        if said != "OK":  # "[Error 31] …": the client reports only text
            raise RefusedError(int(said.partition("]")[0].removeprefix("[Error ")))

    def describe_quorum(self) -> tuple[int, list[int]]:
        with _refusals():
            reported = self._client.describe_metadata_quorum()
        (partition,) = reported["topics"][0]["partitions"]
        voters = [voter["replica_id"] for voter in partition["current_voters"]]
        return partition["leader_id"], voters

    def alter_credential(self, user: str, mechanism: str, iterations: int | None) -> None:
        wanted = ScramMechanism[mechanism.replace("-", "_")]
        change = (
            UserScramCredentialDeletion(user, wanted)
            if iterations is None
            else UserScramCredentialUpsertion(user, wanted, PASSWORD, iterations)
        )
        text = self._client.alter_user_scram_credentials([change])[user]
        if text is not None:  # the client reports only the text
            assert text == ErrorCode.CLUSTER_AUTHORIZATION_FAILED.text
            raise RefusedError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    def describe_credentials(self, user: str) -> Mapping[str, int]:
        with _refusals():
            reported = self._client.describe_user_scram_credentials([user])[user]
        assert reported["error"] in (None, ""), reported
        return {
            each["mechanism"].name.replace("_", "-"): each["iterations"]
            for each in reported["credential_infos"]
        }


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except BrokerResponseError as error:
        raise RefusedError(error.errno) from error


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


def _filter_of(topic: str, pattern_type: PatternType) -> ACLFilter:
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
