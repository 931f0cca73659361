"""The tree of a cluster that brokers describe: each folder asks for its content when it is opened.

**Invariant:** what a broker does not tell is left out, and a message says so, once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache, partial
from typing import Final, Protocol, TypeVar

from authorizerd.cli.broker_acls import BrokerReader, run_on_brokers
from authorizerd.cli.questions.answers import warn
from authorizerd.cli.shell.broker_source import (
    BROKER,
    TOPIC,
    ToldMetadata,
    ToldNode,
    ToldPartition,
    fetch_acls,
    fetch_configs,
    fetch_credentials,
    fetch_features,
    fetch_metadata,
    fetch_quotas,
)
from authorizerd.cli.shell.errors import NotToldError
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

T = TypeVar("T")

NOTE: Final = (
    "brokers do not tell all; ids of ACLs are derived here. A log has the rest (--log-dir)"
)


class Ask(Protocol):
    """Ask the brokers, through a new connection. Blocks."""

    def __call__(self, fetch: Callable[[BrokerReader], Awaitable[T]], /) -> T: ...


def open_broker_tree(servers: str, command_config: str | None) -> tuple[Folder, str]:
    """Return the tree of a cluster, and a note about what it lacks.

    Args:
        servers: addresses, as ``--bootstrap-server`` has them.
        command_config: the path of a properties file, or None.
    """

    def ask(fetch: Callable[[BrokerReader], Awaitable[T]]) -> T:
        return run_on_brokers(servers, command_config, fetch)

    return broker_tree(ask, warn), NOTE


def broker_tree(ask: Ask, warn: Callable[[str], None]) -> Folder:
    """Return the tree of what brokers tell. Nothing is asked yet.

    Folders raise StartError if no broker answers, or the log-in is refused.

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


def _cluster(metadata: ToldMetadata) -> Folder:
    return folder_of({"brokers": lambda: nodes_folder(metadata.brokers, _describe_node)})


def _describe_node(node: ToldNode) -> str:
    rack = "Optional.empty" if node.rack is None else f"Optional[{node.rack}]"
    listener = f"Endpoint(host='{node.host}', port={node.port})"
    return f"BrokerRegistration(id={node.id}, listeners=[{listener}], rack={rack})"


def _topics(metadata: ToldMetadata) -> Folder:
    topics = metadata.topics

    def find(name: str) -> Folder | None:
        topic = topics.get(name)
        if topic is None:
            return None
        return topic_folder(topic.id, name, topic.partitions, _describe_partition)

    return topics_folder({topic.id: name for name, topic in topics.items()}, find, topics)


def _describe_partition(partition: ToldPartition) -> str:
    return (
        f"PartitionRegistration(replicas={list(partition.replicas)}, isr={list(partition.isr)}, "
        f"leader={partition.leader}, leaderEpoch={partition.leader_epoch})"
    )


class _Configs:
    """The folder of configs. Those of topics are asked for when somebody looks at them."""

    def __init__(
        self,
        ask: Ask,
        warn: Callable[[str], None],
        load_metadata: Callable[[], ToldMetadata | None],
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
        numbers = map(str, metadata.brokers)
        if not self._learn([(BROKER, ""), *((BROKER, number) for number in numbers)]):
            return None
        self._topics = [(TOPIC, name) for name in metadata.topics]
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
