"""The tree of a metadata log."""

from __future__ import annotations

from authorizerd.cli.shell.folders import (
    Children,
    configs_folder,
    features_folder,
    nodes_folder,
    quotas_folder,
    root_of,
    scram_folder,
    topic_folder,
    topics_folder,
)
from authorizerd.cli.shell.java_text import (
    describe_broker,
    describe_controller,
    describe_partition,
    describe_provenance,
    describe_token,
)
from authorizerd.cli.shell.log_contents import LogContents
from authorizerd.cli.shell.tree import Folder, file_of, folder_of, table_of
from authorizerd.image.cluster import ClusterImage


def log_tree(contents: LogContents) -> Folder:
    """Return the tree of a log's contents, which must not change any more."""
    image = contents.image
    provenance = contents.provenance
    nodes: Children = {
        "brokers": lambda: nodes_folder(contents.brokers, describe_broker),
        "controllers": lambda: nodes_folder(contents.controllers, describe_controller),
    }
    children: Children = {
        "clientQuotas": lambda: quotas_folder(contents.quotas),
        "cluster": lambda: folder_of(nodes),
        "configs": lambda: configs_folder(image.configs),
        "delegationToken": lambda: table_of(
            {name: describe_token(token) for name, token in contents.tokens.items()}
        ),
        "features": lambda: features_folder(image.features),
        "producerIds": lambda: table_of({"nextProducerId": str(contents.next_producer_id)}),
        "provenance": lambda: file_of(
            describe_provenance(provenance.offset, provenance.epoch, provenance.time_ms)
        ),
        "scram": lambda: scram_folder(image.credentials),
        "topics": lambda: _topics(image),
    }
    return root_of(children, lambda: contents.acls)


def _topics(image: ClusterImage) -> Folder:
    def find(name: str) -> Folder | None:
        topic = image.topics.get(name)
        if topic is None:
            return None
        return topic_folder(topic.id, name, topic.partitions, describe_partition)

    return topics_folder(image.topic_names, find, image.topics)
