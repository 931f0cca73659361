"""Read the log of a stopped daemon, and append to it as the daemon would."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from authorizerd.acl.index.builder import SnapshotBuilder
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.cli.program.ending import saying
from authorizerd.daemon.process.utc_time import now_ms
from authorizerd.metadata.errors import LogDirectoryError, LogNotWrittenError
from authorizerd.metadata.log import MetadataLog
from authorizerd.metadata.replay import Replay
from authorizerd.metadata.storage import DISK, Storage
from authorizerd.metadata.writer import LogWriter
from authorizerd.protocol.records.metadata import MetadataRecord

SEGMENT_BYTES_MAX: Final = 1024 * 1024 * 1024
"""Kafka's default of metadata.log.segment.bytes."""


class StoppedLog:
    """A log whose contents were read. The caller must hold the lock before appending.

    Attributes:
        replay: the contents of the records other than ACLs.
    """

    def __init__(
        self,
        log_dir: Path,
        node_id: int,
        segment_bytes_max: int = SEGMENT_BYTES_MAX,
        storage: Storage = DISK,
    ) -> None:
        self.log_dir: Final = log_dir
        self.replay: Final = Replay()
        self._node_id = node_id
        self._log = MetadataLog.open(log_dir, storage)
        self._writer = LogWriter(
            log_dir, storage=storage, segment_bytes_max=segment_bytes_max, now_ms=now_ms
        )
        self.snapshot: Final = self._read()

    def _read(self) -> AclSnapshot:
        builder = SnapshotBuilder()
        for log_batch in self._log.batches():
            for step in self.replay.steps(log_batch):
                if step is not None:
                    builder.apply_changes(step.changes)
        return builder.freeze(self._log.progress.last_offset)

    def append(
        self, batches: Sequence[Sequence[MetadataRecord]], doubt: str, *, nothing: str, unknown: str
    ) -> int:
        """Append batches, and return the last offset.

        Args:
            doubt: the message if a signal ends the command. nothing: the end of the error if
                nothing was written. unknown: the end of the error if that is uncertain.

        Raises:
            LogDirectoryError: they cannot be written. The text says whether some may have been
                written.
        """
        try:
            with saying(lambda: doubt), closing(self._writer):
                self._writer.start(self._log.progress, self.replay, node_id=self._node_id)
                return self._writer.append(batches)
        except LogNotWrittenError as error:
            raise LogDirectoryError(f"{self.log_dir}: {error}; {nothing}") from error
        except OSError as error:
            place = error.filename or self.log_dir
            raise LogDirectoryError(f"{place}: {error.strerror or error}; {unknown}") from error
