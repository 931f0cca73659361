"""The interface of an origin: a source of changes, a way to make changes, and their tasks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import trio

from authorizerd.actors.authorizer import RequestContext
from authorizerd.actors.grant_keeper import GrantKeeper
from authorizerd.actors.record_applier import Message, RecordApplier
from authorizerd.actors.updates import Updates
from authorizerd.daemon.kafka.quorum import Leadership
from authorizerd.daemon.process.stages import Service
from authorizerd.daemon.sources.own_log_writer import CheckpointStatistics
from authorizerd.daemon.sources.source import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceDependencies:
    """The parts that an origin works with.

    Attributes:
        feed: leads to the applier, and to the workers if there are any.
        applied_everywhere: returns once every other deciding process has applied what the applier
            has published.
        on_written: called for each request that has changed ACLs in the daemon's own log, with the
            last offset of its changes; None without an audit log.
    """

    feed: trio.MemorySendChannel[Message]
    applier: RecordApplier
    applied_everywhere: Callable[[], Awaitable[None]]
    on_written: Callable[[RequestContext, int], None] | None = None


class Origin(Protocol):
    """The daemon's own log, or a followed cluster.

    Attributes:
        services: tasks that run next to the applier until the daemon ends.
        grants: begins and ends grants, or only counts them. It is one of the services.
    """

    @property
    def source(self) -> Source: ...

    @property
    def updates(self) -> Updates: ...

    @property
    def checkpoints(self) -> CheckpointStatistics: ...

    @property
    def grants(self) -> GrantKeeper: ...

    @property
    def services(self) -> Sequence[Service]: ...

    @property
    def cluster_id(self) -> str:
        """The cluster's id, empty until it is known."""

    @property
    def leadership(self) -> Leadership | None:
        """This node's leadership of the log, None if it does not lead, or not yet."""

    async def load(self) -> None:
        """Pass on everything that is available at startup; return without waiting for a cluster.

        Raises:
            StartError: the log is damaged, or cannot be read or written.
            MetadataLogError: the log is inconsistent.
        """

    def close(self) -> None:
        """Close the files."""
