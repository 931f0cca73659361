"""A followed cluster as the origin of the ACLs: its source, its copy, and the path of changes to
it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from authorizerd.actors.authorizer import RequestContext
from authorizerd.actors.grant_keeper import GrantKeeper
from authorizerd.config.configuration import Configuration
from authorizerd.config.follow.settings import FollowSettings, SourceKind
from authorizerd.daemon.origins.origin import SourceDependencies
from authorizerd.daemon.process.utc_time import now_ms
from authorizerd.daemon.sources.brokers.listing_copy import ListingCopy
from authorizerd.daemon.sources.brokers.source import BrokersSource
from authorizerd.daemon.sources.cluster_grants import FollowedGrants
from authorizerd.daemon.sources.copy_checkpointer import CopyCheckpointer
from authorizerd.daemon.sources.freshness import Freshness
from authorizerd.daemon.sources.nodes import NodeOpener
from authorizerd.daemon.sources.quorum.source import QuorumSource
from authorizerd.daemon.sources.status import SourceStatus
from authorizerd.daemon.sources.writes.forwarded import new_updates
from authorizerd.metadata.log_copy import LogCopy
from authorizerd.metadata.storage import PRIVATE_DISK


class FollowedCluster:
    """The parts that follow a cluster; see ``Origin``.

    Args:
        is_super_user, may_alter, timeout_ms: see ``new_updates``.
    """

    leadership: Final = None  # this node does not lead a log

    def __init__(
        self,
        configuration: Configuration,
        follow: FollowSettings,
        dependencies: SourceDependencies,
        *,
        is_super_user: Callable[[str], bool],
        may_alter: Callable[[RequestContext], bool],
        timeout_ms: Callable[[], int],
    ) -> None:
        self._feed: Final = dependencies.feed
        self._status: Final = SourceStatus(follow.kind)
        self._freshness: Final = Freshness(
            dependencies.feed.clone(), self._status, stale_max_ms=follow.stale_max_ms
        )
        self._copy: Final = LogCopy(
            Path(configuration.metadata_log_dir),
            node_id=configuration.node_id,
            storage=PRIVATE_DISK,
            segment_bytes_max=configuration.metadata_log_segment_bytes,
        )
        self._opener: Final = NodeOpener(follow)
        applier = dependencies.applier
        self.source: QuorumSource | BrokersSource
        if follow.kind is SourceKind.BROKERS:
            listings = ListingCopy(
                self._copy, applier.applied, node_id=configuration.node_id, now_ms=now_ms
            )
            is_complete = listings.is_complete
            self.source = BrokersSource(
                follow,
                listings,
                self._freshness,
                self._status,
                applier.applied,
                open_node=self._opener.open,
            )
        else:
            self.source = quorum = QuorumSource(
                follow,
                self._copy,
                self._opener.open,
                applied=applier.applied,
                cluster=applier.cluster,
                freshness=self._freshness,
                status=self._status,
            )
            is_complete = quorum.is_complete
        checkpointer = CopyCheckpointer(
            self._copy,
            self._status,
            applier.applied,
            applier.cluster,
            is_complete=is_complete,
            bytes_between=configuration.metadata_log_max_record_bytes_between_snapshots,
        )
        self.checkpoints: Final = checkpointer.statistics
        grants = FollowedGrants(
            applier.snapshot,
            self.source,
            self._opener.open,
            knows_ids=follow.kind is SourceKind.QUORUM,
        )
        self.grants: Final = GrantKeeper(grants, now_ms, enforces=follow.grants_enforce)
        self.services: Final = (
            self._follow,
            checkpointer.run,
            self.grants.run,
            grants.connections.run,
        )
        self.updates: Final = new_updates(
            follow,
            destination=self.source,
            open_node=self._opener.open,
            snapshot=applier.applied,
            journal=applier.journal,
            is_super_user=is_super_user,
            may_alter=may_alter,
            requests_max=configuration.queued_max_requests,
            timeout_ms=timeout_ms,
            applied_everywhere=dependencies.applied_everywhere,
        )

    async def _follow(self) -> None:
        await self.source.run(self._feed.clone())

    @property
    def cluster_id(self) -> str:
        return self._copy.cluster_id or ""

    async def load(self) -> None:
        """Return at once: ``services`` follow the cluster from startup on."""

    def close(self) -> None:
        self._copy.close()
