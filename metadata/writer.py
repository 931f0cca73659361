"""The end of the log: batches appended, synced, and rolled into segments.

Law: nothing is acknowledged before ``append`` returns, and it returns only once its batches are
durable, the name of a new segment included. After an error nothing more is written: what is on the
disk is not known then, and only a new start, which reads it, can tell.

Source: KIP-595; Kafka 4.3 KafkaRaftLog, BatchAccumulator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from acl.cluster_changes import FeatureLevel
from metadata.directory import (
    CLEAN_SHUTDOWN_NAME,
    CORRUPT_SUFFIX,
    METADATA_TOPIC_DIRECTORY,
    is_segment_name,
    segment_name,
)
from metadata.log import Progress
from metadata.replay import Replay
from metadata.storage import AppendFile, Storage
from protocol.control_records import Record, leader_change
from protocol.metadata_records import (
    METADATA_VERSION_FEATURE,
    METADATA_VERSION_KNOWN,
    AbortTransaction,
    MetadataRecord,
    encode_value,
)
from protocol.record_batch import encode_batch

FEATURES_WRITTEN: Final = {
    METADATA_VERSION_FEATURE: METADATA_VERSION_KNOWN,
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}
"""What a log that names no metadata.version gets before anything else: a node dies without it.

They are those of a log that Kafka 4.3 formats.
"""

CLEAN_SHUTDOWN_MARK: Final = b'{"version":0,"brokerEpoch":-1}'
"""What Kafka writes into the mark of a clean shutdown, where it knows no broker epoch."""


class LogWriter:
    """Writes one log; the caller holds its lock, and calls from one thread at a time."""

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
        self._segment_bytes_max = segment_bytes_max
        self._now_ms = now_ms
        self._path = self._directory
        self._file: AppendFile | None = None
        self._segment_bytes = 0
        self._pieces: list[bytes] = []
        self._bytes_written = 0
        self._next_offset = 0
        self._epoch = 0
        self._features: dict[str, int] = {}
        self._last_timestamp_ms = 0
        self._is_whole = False

    @property
    def last_offset(self) -> int:
        return self._next_offset - 1

    @property
    def epoch(self) -> int:
        return self._epoch

    @property
    def features(self) -> Mapping[str, int]:
        """The finalized features that the log names, once it is begun."""
        return self._features

    @property
    def last_timestamp_ms(self) -> int:
        """When the last batch was written, in milliseconds since 1970."""
        return self._last_timestamp_ms

    @property
    def bytes_written(self) -> int:
        """Bytes of log written since the start."""
        return self._bytes_written

    def start(self, progress: Progress, replay: Replay, *, node_id: int) -> None:
        """Cut an unfinished write off, begin an epoch, and name the features of a new log.

        Damaged checkpoints are renamed, so that nothing is retired on the strength of them.
        A transaction that is still open is aborted, or what is written next would be part of it.

        Args:
            progress: how far the log was read, all of it.
            replay: what it was read with.

        Raises:
            OSError: the log cannot be written.
        """
        self._remove_clean_shutdown_mark()
        self._set_damaged_aside(progress)
        if progress.torn_tail is not None:
            self._storage.truncate(progress.torn_tail.path, progress.torn_tail.position)
        self._next_offset = progress.last_offset + 1
        self._epoch = progress.last_epoch + 1
        if progress.segment is None:
            self._begin_segment()
        else:
            self._path = progress.segment
            self._file = self._storage.append_to(self._path)
            self._segment_bytes = progress.segment_bytes
            self._sync_what_was_read()
        self._add([leader_change(node_id)], is_control=True)
        if replay.is_transaction_open:
            aborted = AbortTransaction("the node that began it has ended")
            self._add([(None, encode_value(aborted))])
        self._features = dict(replay.features)
        if METADATA_VERSION_FEATURE not in self._features:
            self._features |= FEATURES_WRITTEN
            named = [FeatureLevel(*feature) for feature in FEATURES_WRITTEN.items()]
            self._add([(None, encode_value(feature)) for feature in named])
        self._sync()
        self._is_whole = True

    def append(self, batches: Iterable[Sequence[MetadataRecord]]) -> int:
        """Write each item of ``batches`` as one batch, sync once; return the last offset.

        Raises:
            OSError: it is not known what of the batches is durable; nothing more can be written.
        """
        if not self._is_whole:
            raise OSError("the log could not be written before, and is not written any more")
        self._is_whole = False
        self._check_alone()
        for records in batches:
            self._add([(None, encode_value(record)) for record in records])
        self._sync()
        self._is_whole = True
        return self.last_offset

    def close(self) -> None:
        """Close the log; where all that was written is durable, mark the shutdown as clean.

        Raises:
            OSError: the mark could not be written; the next start takes a longer look then.
        """
        self._close_segment()
        if self._is_whole:
            self._is_whole = False
            with closing(self._storage.append_to(self._log_dir / CLEAN_SHUTDOWN_NAME)) as mark:
                mark.append([CLEAN_SHUTDOWN_MARK])
                mark.sync()
            self._storage.sync_directory(self._log_dir)

    def _remove_clean_shutdown_mark(self) -> None:
        """Durable before anything is written: an end that a crash tears must not look clean."""
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

    def _sync_what_was_read(self) -> None:
        """A killed process may have written what it never synced; it is built on from now on."""
        assert self._file is not None
        self._file.sync()
        self._storage.sync_directory(self._directory)

    def _check_alone(self) -> None:
        """Refuse to go on where another process has written: a lock binds only who looks at it.

        (A combined node of Kafka's begins its controller, which writes, before it finds that its
        log directory is locked.)
        """
        names = filter(is_segment_name, self._storage.names(self._directory))
        size = self._storage.size(self._path)
        if max(names) != self._path.name or size != self._segment_bytes:
            raise OSError(f"{self._directory}: another process has written to the log")

    def _close_segment(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _add(self, records: Sequence[Record], *, is_control: bool = False) -> None:
        """Add one batch to what the next sync makes durable; a segment that is full is left."""
        self._last_timestamp_ms = self._now_ms()
        batch = encode_batch(
            self._next_offset,
            self._epoch,
            self._last_timestamp_ms,
            records,
            is_control=is_control,
        )
        if self._segment_bytes and self._segment_bytes + len(batch) > self._segment_bytes_max:
            self._sync()
            self._begin_segment()
        self._pieces.append(batch)
        self._segment_bytes += len(batch)
        self._bytes_written += len(batch)
        self._next_offset += len(records)

    def _sync(self) -> None:
        """Write and sync what was added."""
        if self._pieces:
            assert self._file is not None, "started"
            self._file.append(self._pieces)
            self._file.sync()
            self._pieces.clear()

    def _begin_segment(self) -> None:
        """Go on in a new file, whose name is durable before anything stands in it."""
        self._close_segment()
        self._path = self._directory / segment_name(self._next_offset)
        self._file = self._storage.append_to(self._path)
        self._storage.sync_directory(self._directory)
        self._segment_bytes = 0
