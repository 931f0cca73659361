"""Oracle: the cluster image in plain dicts, without code of the image.

The rules are those of Kafka 4.3's PartitionRegistration.merge and its controller's replay methods.
"""

from typing import Any

from authorizerd.image import changes

LISTS = (
    "replicas", "isr", "removing_replicas", "adding_replicas", "directories",
    "eligible_leader_replicas", "last_known_eligible",
)  # fmt: skip


class Cluster:
    """Everything in a log except ACLs; ``topics`` has name and partitions by id."""

    def __init__(self) -> None:
        self.topics: dict[bytes, tuple[str, dict[int, dict[str, Any]]]] = {}
        self.configs: dict[tuple[int, str, str], str] = {}
        self.credentials: dict[tuple[str, int], object] = {}
        self.features: dict[str, int] = {}

    def apply(self, change: changes.ClusterChange) -> None:  # noqa: C901 - one case per record type
        """Apply one change; raise KeyError if it does not fit."""
        match change:
            case changes.TopicAdded(name, id):
                if id in self.topics or name in (each for each, _ in self.topics.values()):
                    raise KeyError(name)
                self.topics[id] = name, {}
            case changes.TopicRemoved(id):
                removed, _ = self.topics.pop(id)
                self.configs = {k: v for k, v in self.configs.items() if k[:2] != (2, removed)}
            case changes.PartitionAdded():
                fields = {name: getattr(change.partition, name) for name in FIELDS}
                self.topics[change.topic_id][1][change.number] = fields
            case changes.PartitionChanged():
                partition = self.topics[change.topic_id][1][change.number]
                for name in LISTS:
                    if getattr(change, name) is not None:
                        partition[name] = getattr(change, name)
                if change.leader != -2:
                    partition["leader"] = change.leader
                    partition["leader_epoch"] += 1
                if change.leader_recovery_state != -1:
                    partition["leader_recovery_state"] = change.leader_recovery_state
                partition["partition_epoch"] += 1
                partition["version"] = max(partition["version"], change.version)
            case changes.ConfigChanged(kind, resource, key, None):
                self.configs.pop((kind, resource, key), None)
            case changes.ConfigChanged(kind, resource, key, value):
                assert value is not None
                self.configs[kind, resource, key] = value
            case changes.CredentialAdded(user, mechanism, credential):
                self.credentials[user, mechanism] = credential
            case changes.CredentialRemoved(user, mechanism):
                del self.credentials[user, mechanism]
            case changes.FeatureLevel(name, 0):
                self.features.pop(name, None)
            case changes.FeatureLevel(name, level):
                self.features[name] = level


FIELDS = (
    *LISTS, "leader", "leader_epoch", "leader_recovery_state", "partition_epoch", "version",
)  # fmt: skip
