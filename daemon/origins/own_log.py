"""The daemon's own log as the origin of the ACLs: its reader, its writer, its checkpoints."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from authorizerd.actors.grant_keeper import GrantKeeper
from authorizerd.actors.update_queue import UpdateQueue
from authorizerd.config.configuration import Configuration
from authorizerd.daemon.errors import StartError
from authorizerd.daemon.kafka.quorum import Leadership
from authorizerd.daemon.origins.origin import SourceDependencies
from authorizerd.daemon.process.utc_time import now_ms
from authorizerd.daemon.sources.own_log_reader import LocalLogSource
from authorizerd.daemon.sources.own_log_writer import (
    Checkpointer,
    CheckpointPolicy,
    OwnLog,
)
from authorizerd.daemon.sources.snapshot_grants import OwnLogGrants
from authorizerd.metadata.errors import CorruptLogError
from authorizerd.metadata.log import MetadataLog
from authorizerd.metadata.storage import Storage
from authorizerd.metadata.writer import LogWriter

ACL_ID_BYTES: Final = 16

_IDS_PER_READ: Final = 256

_logger = logging.getLogger("authorizerd")


def _random_ids() -> Iterator[bytes]:
    """Yield ids without end. Each read of random bytes is a system call, so read many at once."""
    while True:
        block = os.urandom(ACL_ID_BYTES * _IDS_PER_READ)
        for start in range(0, len(block), ACL_ID_BYTES):
            yield block[start : start + ACL_ID_BYTES]


class OwnLogOrigin:
    """The parts of the daemon's own log; see ``Origin``."""

    def __init__(
        self,
        configuration: Configuration,
        cluster_id: str,
        storage: Storage,
        dependencies: SourceDependencies,
    ) -> None:
        """Open the log.

        Raises:
            LogDirectoryError: the log does not exist.
        """
        applier = dependencies.applier
        log_dir = Path(configuration.metadata_log_dir)
        self.writer: Final = LogWriter(
            log_dir,
            storage=storage,
            segment_bytes_max=configuration.metadata_log_segment_bytes,
            now_ms=now_ms,
        )
        own = OwnLog(self.writer, node_id=configuration.node_id)
        self._log_dir = configuration.metadata_log_dir
        self.cluster_id: Final = cluster_id
        self._applier = applier
        self._feed = dependencies.feed
        self.source: Final = LocalLogSource(MetadataLog.open(log_dir, storage), own)
        progress = self.source.progress
        self.updates: Final = UpdateQueue(
            own,
            dependencies.feed,
            applier.snapshot,
            applier.cluster,
            requests_max=configuration.queued_max_requests,
            new_id=partial(next, _random_ids()),
            # A checkpoint has only the state at its end, not the earlier changes of ACLs.
            acls_changed_at=lambda: max(applier.acls_changed_at, progress.checkpoint_offset),
            applied_everywhere=dependencies.applied_everywhere,
            on_written=dependencies.on_written,
        )
        checkpointer = Checkpointer(
            log_dir,
            self.writer,
            applier.snapshot,
            applier.cluster,
            CheckpointPolicy(
                bytes_between=configuration.metadata_log_max_record_bytes_between_snapshots,
                interval_ms=configuration.metadata_log_max_snapshot_interval_ms,
                retention_bytes=configuration.metadata_max_retention_bytes,
                retention_ms=configuration.metadata_max_retention_ms,
            ),
            replay=self.source.replay,
            storage=storage,
            bytes_read=lambda: progress.bytes_since_checkpoint,
        )
        self.checkpoints: Final = checkpointer.statistics
        self.grants: Final = GrantKeeper(OwnLogGrants(applier.snapshot, self.updates), now_ms)
        self.services: Final = (checkpointer.run, self.grants.run)

    @property
    def leadership(self) -> Leadership | None:
        snapshot = self._applier.snapshot.newest
        return None if snapshot is None else Leadership(self.writer.epoch, snapshot.offset + 1)

    async def load(self) -> None:
        try:
            await self.source.run(self._feed.clone())
        except OSError as error:
            place = error.filename or self._log_dir
            raise StartError(f"{place}: {error.strerror or error}") from error
        except CorruptLogError as error:
            advice = f"run `authorizerd check-log {self._log_dir}`, then again with --repair"
            raise StartError(f"{error}; {advice}") from error

    def close(self) -> None:
        """Close the log, and mark it as cleanly shut down unless writing to it has failed."""
        try:
            self.writer.close()
        except OSError as error:
            _logger.warning("the clean shutdown could not be marked: %s", error)
