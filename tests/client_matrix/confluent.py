"""confluent-kafka's AdminClient, which is librdkafka's, as a client of the matrix."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, ClassVar

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from confluent_kafka.admin import AdminClient as ConfluentAdminClient

from authorizerd.acl.model import Acl, Operation, PatternType, PermissionType
from authorizerd.acl.model import ResourceType as AclResource
from tests.client_matrix import calls
from tests.oracles.standard_authorizer import acl_of

SECONDS_MAX = 20.0
_ANY: Any = None  # the client's annotations do not allow None, but the client does


class ConfluentClient(calls.AdminClient):
    """confluent-kafka."""

    hides: ClassVar[frozenset[calls.Call]] = frozenset({calls.Call.DESCRIBE_ACLS})
    crashes: ClassVar[frozenset[calls.Call]] = frozenset({calls.Call.DESCRIBE_CREDENTIALS})
    notes: ClassVar[Mapping[calls.Call, str]] = {
        calls.Call.DESCRIBE_ACLS: "if refused, librdkafka ignores the error and returns no ACLs",
        calls.Call.DESCRIBE_CREDENTIALS: "if refused, librdkafka crashes, also with Kafka, so the "
        "refusal is not tried",
    }
    offers_no_more: ClassVar[str] = "librdkafka has no call for it"

    def __init__(
        self, address: str, login: calls.Login | None, tls: calls.Tls | None = None
    ) -> None:
        settings: dict[str, str | int | float | bool] = {
            "bootstrap.servers": address,
            "security.protocol": calls.security_protocol(login, tls),
        }
        if tls is not None:
            settings["ssl.ca.location"] = str(tls.authority)
            if tls.keystore is not None:
                settings["ssl.key.location"] = str(tls.keystore)
                settings["ssl.certificate.location"] = str(tls.keystore)
        if login is not None:
            settings |= {
                "sasl.mechanism": login.mechanism,
                "sasl.username": login.username,
                "sasl.password": login.password,
            }
        self._client = ConfluentAdminClient(settings)

    def create_acls(self, acls: Sequence[Acl]) -> list[int]:
        # The client rejects a request with a repeated ACL.
        return [_code_of(self._client.create_acls([_binding(acl)])) for acl in acls]

    def describe_acls(self, topic: str, pattern_type: PatternType) -> set[Acl]:
        return _acls(_result_of(self._client.describe_acls(_filter_of(topic, pattern_type))))

    def delete_acls(self, topic: str, pattern_type: PatternType) -> set[Acl]:
        (future,) = self._client.delete_acls([_filter_of(topic, pattern_type)]).values()
        return _acls(_result_of(future))

    def describe_cluster(self) -> calls.Cluster:
        reported = _result_of(self._client.describe_cluster(include_authorized_operations=True))
        operations = reported.authorized_operations or ()  # None where there are none
        return calls.Cluster([node.id for node in reported.nodes], _operations(operations))

    def list_groups(self) -> list[str]:
        listed = _result_of(self._client.list_consumer_groups())
        if listed.errors:
            raise calls.RefusedError(listed.errors[0].args[0].code())
        return [group.group_id for group in listed.valid]

    def describe_groups(self, names: Sequence[str]) -> calls.Reported:
        futures = self._client.describe_consumer_groups(
            list(names), include_authorized_operations=True
        )
        return calls.report_each(names, lambda name: _operations_of(futures[name]))

    def describe_topics(self, names: Sequence[str]) -> calls.Reported:
        futures = self._client.describe_topics(
            TopicCollection(list(names)), include_authorized_operations=True
        )
        return calls.report_each(names, lambda name: _operations_of(futures[name]))

    def describe_configs(self) -> Mapping[str, calls.Config]:
        (future,) = self._client.describe_configs([_node()]).values()
        return {
            name: calls.Config(each.value, each.source) for name, each in _result_of(future).items()
        }

    def alter_config(self, name: str, value: str | None) -> None:
        what = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        entry = ConfigEntry(name, value or "", incremental_operation=what)
        (future,) = self._client.incremental_alter_configs([_node(entry)]).values()
        _result_of(future)

    def alter_credential(self, user: str, mechanism: str, iterations: int | None) -> None:
        wanted = ScramMechanism[mechanism.replace("-", "_")]
        change = (
            UserScramCredentialDeletion(user, wanted)
            if iterations is None
            else UserScramCredentialUpsertion(
                user, ScramCredentialInfo(wanted, iterations), calls.PASSWORD.encode()
            )
        )
        (future,) = self._client.alter_user_scram_credentials([change]).values()
        _result_of(future)

    def describe_credentials(self, user: str) -> Mapping[str, int]:
        futures: Any = self._client.describe_user_scram_credentials([user])
        infos = _result_of(futures[user]).scram_credential_infos
        return {each.mechanism.name.replace("_", "-"): each.iterations for each in infos}


def _result_of(future: Future[Any]) -> Any:  # noqa: ANN401 - what a future holds
    try:
        return future.result(timeout=SECONDS_MAX)
    except KafkaException as error:
        raise calls.RefusedError(error.args[0].code()) from error


def _code_of(futures: Mapping[AclBinding, Future[Any]]) -> int:
    (future,) = futures.values()
    try:
        _result_of(future)
    except calls.RefusedError as error:
        return error.code
    return 0


def _operations(operations: Iterable[AclOperation]) -> calls.Operations:
    return frozenset(each.name for each in operations)


def _operations_of(future: Future[Any]) -> calls.Operations:
    return _operations(_result_of(future).authorized_operations)


def _node(*entries: ConfigEntry) -> ConfigResource:
    return ConfigResource(
        ConfigResource.Type.BROKER, str(calls.NODE_ID), incremental_configs=list(entries)
    )


def _binding(acl: Acl) -> AclBinding:
    return AclBinding(
        ResourceType[AclResource(acl.resource_type).name],
        acl.resource_name,
        ResourcePatternType[PatternType(acl.pattern_type).name],
        acl.principal,
        acl.host,
        AclOperation[Operation(acl.operation).name],
        AclPermissionType[PermissionType(acl.permission_type).name],
    )


def _filter_of(topic: str, pattern_type: PatternType) -> AclBindingFilter:
    return AclBindingFilter(
        ResourceType.TOPIC, topic, ResourcePatternType[pattern_type.name], _ANY, _ANY,
        AclOperation.ANY, AclPermissionType.ANY,
    )  # fmt: skip


def _acls(bindings: Iterable[Any]) -> set[Acl]:
    return {
        acl_of(
            [
                each.restype.name, each.name, each.resource_pattern_type.name, each.principal,
                each.host, each.operation.name, each.permission_type.name,
            ]
        )
        for each in bindings
    }  # fmt: skip
