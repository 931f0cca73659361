"""aiokafka's AIOKafkaAdminClient, on a loop of its own, as a client of the matrix."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import BrokerResponseError

from tests.client_matrix.deeds import (
    NODE_ID,
    AdminClient,
    Cluster,
    Config,
    Deed,
    Login,
    RefusedError,
    Told,
    told_of_each,
)

T = TypeVar("T")


class AiokafkaClient(AdminClient):
    told_instead: ClassVar[Mapping[Deed, int | None]] = {
        Deed.DESCRIBE_CLUSTER: None,
        Deed.DESCRIBE_GROUPS: None,
        Deed.DESCRIBE_TOPICS: None,
    }
    notes: ClassVar[Mapping[Deed, str]] = {
        Deed.DESCRIBE_CLUSTER: "returns no operations: the client uses Metadata up to version 5",
        Deed.DESCRIBE_TOPICS: "returns no operations: the client uses Metadata up to version 5",
        Deed.DESCRIBE_GROUPS: "returns no operations: the client reads an answer of version 3, "
        "which has them, as version 2",
        Deed.ALTER_CONFIGS: "not incremental: the client has only AlterConfigs, which replaces "
        "all configs of the node",
    }
    offers_no_acls: ClassVar[str] = "AIOKafkaAdminClient has no call for ACLs"
    offers_no_more: ClassVar[str] = "AIOKafkaAdminClient has no call for it"

    def __init__(self, address: str, login: Login | None) -> None:
        settings: dict[str, Any] = {"bootstrap_servers": address}
        if login is not None:
            settings |= {
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "PLAIN",
                "sasl_plain_username": login.username,
                "sasl_plain_password": login.password,
            }
        self._runner = asyncio.Runner()
        self._client = self._run(_started(settings))

    def close(self) -> None:
        self._run(self._client.close())
        self._runner.close()

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        try:
            return self._runner.run(coroutine)
        except BrokerResponseError as error:
            raise RefusedError(error.errno) from error

    def describe_cluster(self) -> Cluster:
        told = self._run(self._client.describe_cluster())
        return Cluster([node["node_id"] for node in told["brokers"]], None)

    def list_groups(self) -> list[str]:
        return [group[0] for group in self._run(self._client.list_consumer_groups())]

    def describe_groups(self, names: Sequence[str]) -> Told:
        return told_of_each(names, self._describe_group)

    def _describe_group(self, name: str) -> int | None:
        (answer,) = self._run(
            self._client.describe_consumer_groups([name], include_authorized_operations=True)
        )
        ((code, group, *_),) = answer.groups
        assert group == name
        return code or None

    def describe_topics(self, names: Sequence[str]) -> Told:
        told = self._run(self._client.describe_topics(list(names)))
        assert {topic["topic"] for topic in told} == set(names)
        return {topic["topic"]: topic["error_code"] or None for topic in told}

    def describe_configs(self) -> Mapping[str, Config]:
        (answer,) = self._run(self._client.describe_configs([_node()]))
        ((code, _, _, name, entries),) = answer.resources
        assert name == str(NODE_ID)
        _check(code)
        return {key: Config(value, source) for key, value, _, source, *_ in entries}

    def alter_config(self, name: str, value: str | None) -> None:
        configs = {} if value is None else {name: value}
        answers = self._run(self._client.alter_configs([_node(configs)]))
        # There is one more answer: the client asks about topics too, even where there are none.
        ((code, _, _, resource),) = [each for answer in answers for each in answer.resources]
        assert resource == str(NODE_ID)
        _check(code)


async def _started(settings: Mapping[str, Any]) -> AIOKafkaAdminClient:
    client = AIOKafkaAdminClient(**settings)
    try:
        await client.start()
    except BaseException:
        await client.close()
        raise
    return client


def _check(code: int) -> None:
    if code:
        raise RefusedError(code)


def _node(configs: Mapping[str, str] | None = None) -> ConfigResource:
    return ConfigResource(ConfigResourceType.BROKER, str(NODE_ID), configs)
