"""aiokafka's AIOKafkaAdminClient, on its own asyncio loop, as a client of the matrix."""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import BrokerResponseError

from tests.client_matrix.calls import (
    NODE_ID,
    AdminClient,
    Call,
    Cluster,
    Config,
    Login,
    RefusedError,
    Reported,
    Tls,
    check_code,
    python_settings,
    report_each,
)

T = TypeVar("T")


class AiokafkaClient(AdminClient):
    """aiokafka."""

    reported_instead: ClassVar[Mapping[Call, int | None]] = {
        Call.DESCRIBE_CLUSTER: None,
        Call.DESCRIBE_GROUPS: None,
        Call.DESCRIBE_TOPICS: None,
    }
    notes: ClassVar[Mapping[Call, str]] = {
        Call.DESCRIBE_CLUSTER: "returns no operations: the client uses Metadata up to version 5",
        Call.DESCRIBE_TOPICS: "returns no operations: the client uses Metadata up to version 5",
        Call.DESCRIBE_GROUPS: "returns no operations: the client gets them in a version 3 "
        "answer, but parses it as version 2",
        Call.ALTER_CONFIGS: "not incremental: the client has only AlterConfigs, which replaces "
        "all configs of the node",
    }
    offers_no_acls: ClassVar[str] = "AIOKafkaAdminClient has no call for ACLs"
    offers_no_more: ClassVar[str] = "AIOKafkaAdminClient has no call for it"

    def __init__(self, address: str, login: Login | None, tls: Tls | None = None) -> None:
        self._runner = asyncio.Runner()
        self._client = self._run(_started(python_settings(address, login, tls)))

    def close(self) -> None:
        self._run(self._client.close())
        self._runner.close()

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        try:
            return self._runner.run(coroutine)
        except BrokerResponseError as error:
            raise RefusedError(error.errno) from error

    def describe_cluster(self) -> Cluster:
        reported = self._run(self._client.describe_cluster())
        return Cluster([node["node_id"] for node in reported["brokers"]], None)

    def list_groups(self) -> list[str]:
        return [group[0] for group in self._run(self._client.list_consumer_groups())]

    def describe_groups(self, names: Sequence[str]) -> Reported:
        return report_each(names, self._describe_group)

    def _describe_group(self, name: str) -> int | None:
        (answer,) = self._run(
            self._client.describe_consumer_groups([name], include_authorized_operations=True)
        )
        ((code, group, *_),) = answer.groups
        assert group == name
        return code or None

    def describe_topics(self, names: Sequence[str]) -> Reported:
        reported = self._run(self._client.describe_topics(list(names)))
        assert {topic["topic"] for topic in reported} == set(names)
        return {topic["topic"]: topic["error_code"] or None for topic in reported}

    def describe_configs(self) -> Mapping[str, Config]:
        (answer,) = self._run(self._client.describe_configs([_node()]))
        ((code, _, _, name, entries),) = answer.resources
        assert name == str(NODE_ID)
        check_code(code)
        return {key: Config(value, source) for key, value, _, source, *_ in entries}

    def alter_config(self, name: str, value: str | None) -> None:
        configs = {} if value is None else {name: value}
        answers = self._run(self._client.alter_configs([_node(configs)]))
        # The client sends one more request, for topics, even if there are none.
        ((code, _, _, resource),) = [each for answer in answers for each in answer.resources]
        assert resource == str(NODE_ID)
        check_code(code)


async def _started(settings: Mapping[str, Any]) -> AIOKafkaAdminClient:
    client = AIOKafkaAdminClient(**settings)
    try:
        await client.start()
    except BaseException:
        await client.close()
        raise
    return client


def _node(configs: Mapping[str, str] | None = None) -> ConfigResource:
    return ConfigResource(ConfigResourceType.BROKER, str(NODE_ID), configs)
