"""The end of the daemon's own log: assign offsets, append batches, and sync them.

**Invariant:** nothing is acknowledged before ``append`` returns, and ``append`` returns only when
its batches are durable, including the name of a new segment. A new segment is created before any
byte is written. If descriptors or disk space are lacking, the append is refused and the log
unchanged. After any other error the writer writes nothing more: the contents of the disk are
unknown until a restart reads them.

Source: KIP-595; Kafka 4.3 KafkaRaftLog, BatchAccumulator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.image.changes import FeatureLevel
from authorizerd.image.features import METADATA_VERSION_FEATURE, METADATA_VERSION_KNOWN, features_at
from authorizerd.metadata.directory import (
    CLEAN_SHUTDOWN_NAME,
    CORRUPT_SUFFIX,
    METADATA_TOPIC_DIRECTORY,
    segment_name,
)
from authorizerd.metadata.errors import LogNotWrittenError
from authorizerd.metadata.log import Progress
from authorizerd.metadata.replay import Replay
from authorizerd.metadata.segments import SegmentWriter, nothing_written
from authorizerd.metadata.storage import Storage
from authorizerd.protocol.records.batch import encode_batch
from authorizerd.protocol.records.control import Record, leader_change
from authorizerd.protocol.records.metadata import AbortTransaction, MetadataRecord, encode_values

FEATURES_WRITTEN: Final = features_at(METADATA_VERSION_KNOWN)
"""The features written first into a log without a metadata.version. Kafka nodes fail without it.

They are the features of a log that Kafka 4.4 formats.
"""

CLEAN_SHUTDOWN_MARK: Final = b'{"version":0,"brokerEpoch":-1}'
"""Kafka's content of the clean shutdown file if no broker epoch is known."""


class _Batch(msgspec.Struct, frozen=True):
    """The records of a batch that is not encoded yet."""

    records: Sequence[Record]
    is_control: bool = False


def _data(records: Iterable[MetadataRecord]) -> _Batch:
    return _Batch([(None, value) for value in encode_values(records)])


class LogWriter:
    """Write one log. The caller holds its lock, and calls from one thread at a time.

    Attributes:
        features: the finalized features of the log, once writing has begun.
        last_timestamp_ms: the time of the last batch, in milliseconds since 1970.
    """

    def __init__(
        self,
        log_dir: Path,
        *,
        storage: Storage,
        segment_bytes_max: int,
        now_ms: Callable[[], int],
    ) -> None:
        self._log_dir = log_dir
        self._directory = log_dir / METADATA_TOPIC_DIRECTORY
        self._storage = storage
        self._segments = SegmentWriter(
            self._directory, storage, segment_bytes_max=segment_bytes_max
        )
        self._now_ms = now_ms
        self._next_offset = 0
        self.epoch = 0
        self.features: dict[str, int] = {}
        self.last_timestamp_ms = 0
        self._is_whole = False

    @property
    def last_offset(self) -> int:
        return self._next_offset - 1

    @property
    def bytes_written(self) -> int:
        """The bytes written to the log since the start."""
        return self._segments.bytes_written

    def start(
        self,
        progress: Progress,
        replay: Replay,
        *,
        node_id: int,
        metadata_version: int = METADATA_VERSION_KNOWN,
    ) -> None:
        """Cut an unfinished write off, begin an epoch, and write the features of a new log.

        Damaged checkpoints are renamed, so that no retention decision relies on them. An open
        transaction is aborted; otherwise the next records would become part of it.

        Args:
            progress: the result of reading the whole log.
            replay: the replay that read it.
            metadata_version: the level for a log that has none.

        Raises:
            OSError, LogNotWrittenError: the log cannot be written.
        """
        self._remove_clean_shutdown_mark()
        self._set_damaged_aside(progress)
        self._segments.start(progress)
        self._next_offset = progress.last_offset + 1
        self.epoch = progress.last_epoch + 1
        first = [_Batch([leader_change(node_id)], is_control=True)]
        if replay.is_transaction_open:
            first.append(_data([AbortTransaction("the node that began it has ended")]))
        self.features = dict(replay.features)
        if METADATA_VERSION_FEATURE not in self.features:
            new = features_at(metadata_version)
            self.features |= new
            first.append(_data([FeatureLevel(*each) for each in new.items()]))
        self._write(first)
        self._is_whole = True

    def append(
        self,
        batches: Iterable[Sequence[MetadataRecord]],
        before_sync: Callable[[], object] = lambda: None,
    ) -> int:
        """Write each item of ``batches`` as one batch, and sync once. Return the last offset.

        Args:
            before_sync: called once everything is written.

        Raises:
            LogNotWrittenError: nothing was written, and a later append may succeed.
            OSError: it is not known which batches are durable. Nothing more can be written.
        """
        if not self._is_whole:
            raise OSError(
                "the log accepts no writes: an earlier one failed, or writing has not begun"
            )
        data = [_data(records) for records in batches]
        # False until the write has succeeded, so that an unexpected error ends all writing.
        self._is_whole = False
        try:
            self._check_alone()
            self._write(data, before_sync)
        except LogNotWrittenError:
            self._is_whole = True
            raise
        self._is_whole = True
        return self.last_offset

    def close(self) -> None:
        """Close the log. If everything written is durable, mark the shutdown as clean.

        Raises:
            OSError: the mark could not be written. The next start then checks more.
        """
        self._segments.close()
        if self._is_whole:
            # Nothing may be written after the mark.
            self._is_whole = False
            with closing(self._storage.append_to(self._log_dir / CLEAN_SHUTDOWN_NAME)) as mark:
                mark.append([CLEAN_SHUTDOWN_MARK])
                mark.sync()
            self._storage.sync_directory(self._log_dir)

    def _remove_clean_shutdown_mark(self) -> None:
        """Remove the mark durably before the first write: a torn end must not look clean."""
        with suppress(FileNotFoundError):
            self._storage.remove(self._log_dir / CLEAN_SHUTDOWN_NAME)
        self._storage.sync_directory(self._log_dir)

    def _set_damaged_aside(self, progress: Progress) -> None:
        for damaged in progress.damaged_checkpoints:
            path = damaged.checkpoint.path
            with suppress(FileNotFoundError):
                self._storage.rename(path, path.with_name(path.name + CORRUPT_SUFFIX))
        if progress.damaged_checkpoints:
            self._storage.sync_directory(self._directory)

    def _check_alone(self) -> None:
        """Refuse to continue if another process has written.

        A lock stops only processes that check it.

        A combined Kafka node starts its controller, which writes, before it notices the lock. Its
        records follow the log's end, in the same file or in a file named after that end.
        """
        with nothing_written():
            is_alone = self._storage.size(self._segments.path) == self._segments.size
            # While the segment is empty, the next segment would have the same name.
            if self._segments.size:
                following = self._directory / segment_name(self._next_offset)
                is_alone = is_alone and not self._storage.exists(following)
        if not is_alone:
            raise OSError(f"{self._directory}: another process has written to the log")

    def _write(
        self, batches: Sequence[_Batch], before_sync: Callable[[], object] = lambda: None
    ) -> None:
        """Write ``batches`` into one segment, and sync them."""
        pieces: list[bytes] = []
        offset, now_ms = self._next_offset, self.last_timestamp_ms
        for batch in batches:
            now_ms = self._now_ms()
            pieces.append(
                encode_batch(offset, self.epoch, now_ms, batch.records, is_control=batch.is_control)
            )
            offset += len(batch.records)
        if not pieces:
            return
        self._segments.append(pieces, self._next_offset)
        before_sync()
        self._segments.sync()
        self._next_offset = offset
        self.last_timestamp_ms = now_ms
        self._check_written()

    def _check_written(self) -> None:
        """Refuse to acknowledge records that a start would not find.

        If the file was replaced, its records are lost with it.
        """
        # Check by path: the open descriptor would still belong to the replaced file.
        path = self._segments.path
        if self._storage.size(path) != self._segments.size:
            raise OSError(f"{path}: another process has replaced or written to the file")
