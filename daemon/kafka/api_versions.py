"""ApiVersions: the served APIs, the features, and whether a client reached the right node.

**Invariant:** the finalized features and their epoch come from one state.

Source: KIP-511, KIP-584, KIP-1242; Kafka 4.4 KafkaApis, ApiVersionsRequest, ApiVersionsResponse,
BrokerFeatures, KRaftMetadataCache.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.actors.published import View
from authorizerd.daemon.kafka.cluster import Cluster
from authorizerd.image.cluster import ClusterImage
from authorizerd.image.features import METADATA_VERSION_FEATURE, SUPPORTED_FEATURES
from authorizerd.protocol.kafka.api import Api, ApiKey, names_software
from authorizerd.protocol.kafka.requests import ApiVersionsRequest
from authorizerd.protocol.kafka.responses import (
    ApiVersion,
    ApiVersionsAnswer,
    FinalizedFeature,
    SupportedFeature,
)

_NO_NODE: Final = -1
_UNKNOWN_EPOCH: Final = -1
_ZERO_ALLOWED: Final = 4
"""The first version in which a feature's minimum level may be 0 (KAFKA-17011)."""


class ApiVersionsHandler:
    """Check ApiVersions requests, and answer them.

    Args:
        image: the cluster image at the offset of ``applied``, empty until both are loaded.
        applied: the newest state, also while decisions are stopped.
    """

    def __init__(
        self, cluster: Cluster, image: View[ClusterImage], applied: View[AclSnapshot | None]
    ) -> None:
        self._cluster = cluster
        self._image = image
        self._applied = applied

    def is_misrouted(self, asked: ApiVersionsRequest, listener_name: str) -> bool:
        """Return True if the client expects a different cluster or node.

        As in Kafka, controllers do not check this. Until the cluster's id is known, any id
        is accepted.
        """
        cluster_id = asked.cluster_id
        if cluster_id is None or listener_name in self._cluster.controller_listeners:
            return False
        node_id = self._cluster.node_of(listener_name).node_id
        return cluster_id != (self._cluster.cluster_id or cluster_id) or asked.node_id != node_id

    def answer(self, apis: Mapping[ApiKey, Api], version: int) -> ApiVersionsAnswer:
        """Return the answer to a request of ``version`` on a listener that serves ``apis``."""
        epoch, finalized = self._finalized()
        return ApiVersionsAnswer(
            api_keys=[
                ApiVersion(key, api.first_version, api.last_version)
                for key, api in sorted(apis.items())
            ],
            supported_features=[
                SupportedFeature(name, lowest, highest)
                for name, (lowest, highest) in SUPPORTED_FEATURES.items()
                if lowest or version >= _ZERO_ALLOWED
            ],
            finalized_features_epoch=epoch,
            finalized_features=[
                FinalizedFeature(name, level, level) for name, level in sorted(finalized.items())
            ],
        )

    def _finalized(self) -> tuple[int, Mapping[str, int]]:
        """Return the epoch and the levels of the finalized features, -1 if they are unknown."""
        applied, features = self._applied.newest, self._image.newest.features
        # A log may set no metadata.version, and listings of brokers have no features at all.
        if applied is None or METADATA_VERSION_FEATURE not in features:
            return _UNKNOWN_EPOCH, {}
        return applied.offset, features


def is_valid(asked: ApiVersionsRequest) -> bool:
    """Return True if Kafka accepts the client's name, and the ids of the cluster and the node."""
    if (asked.cluster_id is not None) != (asked.node_id != _NO_NODE):
        return False
    name = asked.client_software_name
    return name is None or names_software(name, asked.client_software_version)
