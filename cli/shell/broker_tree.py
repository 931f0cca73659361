"""The tree of a cluster that brokers describe: each folder asks for its content when it is opened.

**Invariant:** what a broker does not tell is left out, and a message says so, once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache, partial
from typing import Final, Protocol, TypeVar

from authorizerd.cli.broker_acls import BrokerReader, run_on_brokers
from authorizerd.cli.output import warn
from authorizerd.cli.shell.broker_source import (
    BROKER,
    TOPIC,
    NotToldError,
    fetch_acls,
    fetch_configs,
    fetch_credentials,
    fetch_features,
    fetch_metadata,
    fetch_quotas,
)
from authorizerd.cli.shell.folders import (
    Children,
    config_table,
    features_folder,
    name_resource,
    nodes_folder,
    quotas_folder,
    read_resource_name,
    root_of,
    scram_folder,
    topic_folder,
    topics_folder,
)
from authorizerd.cli.shell.tree import Folder, folder_of
from authorizerd.image.cluster import ConfigResource
from authorizerd.protocol.kafka.responses import (
    MetadataAnswer,
    MetadataBroker,
    MetadataPartition,
    MetadataTopic,
)

T = TypeVar("T")

NOTE: Final = (
    "brokers do not tell all; ids of ACLs are derived here. A log has the rest (--log-dir)"
)


class Ask(Protocol):
    """Ask the brokers, through a new connection. Blocks."""

    def __call__(self, fetch: Callable[[BrokerReader], Awaitable[T]], /) -> T: ...


def open_broker_tree(servers: str, command_config: str | None) -> Folder:
    """Return the tree of a cluster. ``NOTE`` says what it lacks.

    Args:
        servers: addresses, as ``--bootstrap-server`` has them.
        command_config: the path of a properties file, or None.
    """

    def ask(fetch: Callable[[BrokerReader], Awaitable[T]]) -> T:
        return run_on_brokers(servers, command_config, fetch)

    return broker_tree(ask, warn)


def broker_tree(ask: Ask, warn: Callable[[str], None]) -> Folder:
    """Return the tree of what brokers tell. Nothing is asked yet.

    Folders raise CommandError if no broker answers, or the log-in is refused.

    Args:
        warn: called with a line for each folder that is left out.
    """

    def load(path: str, fetch: Callable[[BrokerReader], Awaitable[T]]) -> Callable[[], T | None]:
        def ask_once() -> T | None:
            try:
                return ask(fetch)
            except NotToldError as error:
                warn(f"{path} is left out: {error}")
                return None

        return cache(ask_once)

    metadata = load("/image/cluster and /image/topics", fetch_metadata)
    configs = _Configs(ask, warn, metadata)
    children: Children = {
        "clientQuotas": _folder(load("/image/clientQuotas", fetch_quotas), quotas_folder),
        "cluster": _folder(metadata, _cluster),
        "configs": configs.open,
        "features": _folder(load("/image/features", fetch_features), features_folder),
        "scram": _folder(load("/image/scram", fetch_credentials), scram_folder),
        "topics": _folder(metadata, _topics),
    }
    return root_of(children, load("/acl and /image/acls", fetch_acls))


def _folder(
    load: Callable[[], T | None], create: Callable[[T], Folder]
) -> Callable[[], Folder | None]:
    def open_folder() -> Folder | None:
        loaded = load()
        return None if loaded is None else create(loaded)

    return open_folder


def _cluster(metadata: MetadataAnswer) -> Folder:
    brokers = {int(each.node_id): each for each in metadata.brokers}
    return folder_of({"brokers": lambda: nodes_folder(brokers, _describe_node)})


def _describe_node(node: MetadataBroker) -> str:
    name = node.rack
    rack = "Optional.empty" if name is None else f"Optional[{name}]"
    listener = f"Endpoint(host='{node.host}', port={node.port})"
    return f"BrokerRegistration(id={node.node_id}, listeners=[{listener}], rack={rack})"


def _list_topics(metadata: MetadataAnswer) -> dict[str, MetadataTopic]:
    """Return the topics by name that this client may describe."""
    return {each.name: each for each in metadata.topics if each.name and not each.error_code}


def _topics(metadata: MetadataAnswer) -> Folder:
    topics = _list_topics(metadata)

    def find(name: str) -> Folder | None:
        topic = topics.get(name)
        if topic is None:
            return None
        partitions = {int(each.partition_index): each for each in topic.partitions}
        return topic_folder(_id_of(topic), name, partitions, _describe_partition)

    return topics_folder({_id_of(topic): name for name, topic in topics.items()}, find, topics)


def _id_of(topic: MetadataTopic) -> bytes:
    """Return the 16 bytes of a topic's id, zeros if the broker does not tell it."""
    found = topic.topic_id
    return bytes(16) if found is None else bytes(found.bytes)


def _describe_partition(partition: MetadataPartition) -> str:
    return (
        f"PartitionRegistration(replicas={list(partition.replica_nodes)}, "
        f"isr={list(partition.isr_nodes)}, leader={partition.leader_id}, "
        f"leaderEpoch={partition.leader_epoch})"
    )


class _Configs:
    """The folder of configs. Those of topics are asked for when somebody looks at them."""

    def __init__(
        self,
        ask: Ask,
        warn: Callable[[str], None],
        load_metadata: Callable[[], MetadataAnswer | None],
    ) -> None:
        self._ask: Final = ask
        self._warn: Final = warn
        self._load_metadata: Final = load_metadata
        self._known: Final[dict[ConfigResource, Mapping[str, str]]] = {}
        self._topics: list[ConfigResource] = []
        self._refused: Final[set[str]] = set()

    def open(self) -> Folder | None:
        """Return the folder, or None if the broker does not tell its own configs."""
        metadata = self._load_metadata()
        if metadata is None:
            return None
        numbers = (str(each.node_id) for each in metadata.brokers)
        if not self._learn([(BROKER, ""), *((BROKER, number) for number in numbers)]):
            return None
        self._topics = [(TOPIC, name) for name in _list_topics(metadata)]
        return Folder(self._names, self._find)

    def _names(self) -> list[str]:
        self._learn([each for each in self._topics if each not in self._known])
        return [name_resource(resource) for resource, values in self._known.items() if values]

    def _find(self, name: str) -> Folder | None:
        resource = read_resource_name(name)
        if resource is None:
            return None
        if resource[0] == TOPIC and resource not in self._known:
            self._learn([resource])
        values = self._known.get(resource)
        return config_table(resource, values) if values else None

    def _learn(self, resources: Sequence[ConfigResource]) -> bool:
        """Ask for the configs of these resources; return False if none are told."""
        try:
            told = self._ask(partial(fetch_configs, resources=resources))
        except NotToldError as error:
            self._warn_once(str(error))
            return False
        for each in told.refusals:
            self._warn_once(each)
        self._known.update({each: {} for each in resources})
        self._known.update(told.values)
        return bool(told.values) or not told.refusals

    def _warn_once(self, reason: str) -> None:
        if reason not in self._refused:
            self._refused.add(reason)
            self._warn(f"/image/configs is incomplete: {reason}")
