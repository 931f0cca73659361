"""Keep the copy of a followed log short: replace its log with a checkpoint when it has grown.

**Invariant:** a checkpoint is taken at a batch's end, outside metadata transactions, and contains
everything up to there. Otherwise, a start from the copy would lack records.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

import trio

from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.actors.published import View
from authorizerd.daemon.process.thread_switching import Pace
from authorizerd.daemon.process.threads import run_in_thread
from authorizerd.daemon.sources.own_log_writer import (
    CHECK_SECONDS,
    RETRY_SECONDS,
    CheckpointStatistics,
)
from authorizerd.daemon.sources.status import SourceStatus
from authorizerd.image.cluster import ClusterImage
from authorizerd.metadata.checkpoint_writer import CheckpointState
from authorizerd.metadata.log_copy import LogCopy

_POLL_SECONDS: Final = 0.05

_logger = logging.getLogger(__name__)


class CopyCheckpointer:
    """Write checkpoints of the copy when they are due, and report whether it can be written.

    Args:
        status: its ``copy_fault`` is kept up to date.
        applied: the newest state, also while decisions are stopped.
        cluster: the image that is published together with it.
        is_complete: returns True if the state at this offset has all records up to there, and no
            transaction is open.
        bytes_between: the size of the copy's log above which a checkpoint is due.
    """

    def __init__(
        self,
        copy: LogCopy,
        status: SourceStatus,
        applied: View[AclSnapshot | None],
        cluster: View[ClusterImage],
        *,
        is_complete: Callable[[int], bool],
        bytes_between: int,
    ) -> None:
        self._copy = copy
        self._status = status
        self._applied = applied
        self._cluster = cluster
        self._is_complete = is_complete
        self._bytes_between = bytes_between
        self.statistics: Final = CheckpointStatistics()

    async def run(self) -> None:
        """Check every second whether a checkpoint is due; retry a failed one after a minute."""
        retry_at = 0.0
        while True:
            await trio.sleep(CHECK_SECONDS)
            self._status.copy_fault = self._copy.fault
            is_early = trio.current_time() < retry_at
            if is_early or not self._copy.is_checkpoint_due(self._bytes_between):
                continue
            try:
                await self._write()
            except OSError as error:
                self.statistics.failures += 1
                _logger.error("cannot checkpoint the copy of the cluster's metadata: %s", error)
                retry_at = trio.current_time() + RETRY_SECONDS

    async def _write(self) -> None:
        begin = await run_in_thread(self._copy.begin_checkpoint)
        # Poll instead of waiting for a state: a state is published before it is saved in the copy.
        while not self._is_usable(self._applied.newest, begin):  # noqa: ASYNC110 - see above
            await trio.sleep(_POLL_SECONDS)
        snapshot = self._applied.newest
        assert snapshot is not None
        state = CheckpointState(
            end_offset=snapshot.offset + 1,
            epoch=self._copy.end.epochs.find(snapshot.offset),
            timestamp_ms=self._copy.end.last_timestamp_ms,
            cluster=self._cluster.newest,
            acls=snapshot.acls,
            keeps_nodes=True,
            # It counts only if it ends with this state: batches may have followed in the meantime.
            last_batch=self._copy.end.last_batch,
        )
        del snapshot  # see `Checkpointer`: freeing a snapshot late blocks the loop
        if await run_in_thread(self._copy.write_checkpoint, state, Pace().rest_if_due):
            self.statistics.written += 1
            self.statistics.last_end_offset = state.end_offset

    def _is_usable(self, newest: AclSnapshot | None, begin: int) -> bool:
        """Return True if a checkpoint of this state replaces the log below ``begin``."""
        if newest is None or not begin - 1 <= newest.offset <= self._copy.last_offset:
            return False
        return self._is_complete(newest.offset)
