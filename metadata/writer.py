"""The end of the log: batches appended, synced, and rolled into segments.

Law: nothing is acknowledged before ``append`` returns, and it returns only once its batches are
durable, the name of a new segment included. What is appended together stands in one segment, which
is begun, where it has to be, before a byte of it is written: so an append that wants descriptors or
room for a new file is refused, and the log is as it was. After any other error nothing more is
written: what is on the disk is not known then, and only a new start, which reads it, can tell.

Source: KIP-595; Kafka 4.3 KafkaRaftLog, BatchAccumulator.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.image.changes import FeatureLevel
from authorizerd.metadata.directory import (
    CLEAN_SHUTDOWN_NAME,
    CORRUPT_SUFFIX,
    METADATA_TOPIC_DIRECTORY,
    segment_name,
)
from authorizerd.metadata.errors import LogNotWrittenError
from authorizerd.metadata.log import Progress
from authorizerd.metadata.replay import Replay
from authorizerd.metadata.storage import AppendFile, Storage
from authorizerd.protocol.records.batch import encode_batch
from authorizerd.protocol.records.control import Record, leader_change
from authorizerd.protocol.records.metadata import (
    METADATA_VERSION_FEATURE,
    METADATA_VERSION_KNOWN,
    AbortTransaction,
    MetadataRecord,
    encode_value,
)

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


SHORTAGES: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT))
"""Errors of want that may pass: where nothing was written yet, the log need not be given up."""


class _Batch(msgspec.Struct, frozen=True):
    """The records of a batch that is still to be encoded."""

    records: Sequence[Record]
    is_control: bool = False


def _data(records: Iterable[MetadataRecord]) -> _Batch:
    return _Batch([(None, encode_value(record)) for record in records])


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
            OSError, LogNotWrittenError: the log cannot be written.
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
        first = [_Batch([leader_change(node_id)], is_control=True)]
        if replay.is_transaction_open:
            first.append(_data([AbortTransaction("the node that began it has ended")]))
        self._features = dict(replay.features)
        if METADATA_VERSION_FEATURE not in self._features:
            self._features |= FEATURES_WRITTEN
            first.append(_data([FeatureLevel(*each) for each in FEATURES_WRITTEN.items()]))
        self._write(first)
        self._is_whole = True

    def append(self, batches: Iterable[Sequence[MetadataRecord]]) -> int:
        """Write each item of ``batches`` as one batch, sync once; return the last offset.

        Raises:
            LogNotWrittenError: nothing was written, and a later append may succeed.
            OSError: it is not known what of the batches is durable; nothing more can be written.
        """
        if not self._is_whole:
            raise OSError("the log could not be written before, and is not written any more")
        data = [_data(records) for records in batches]
        self._is_whole = False
        try:
            self._check_alone()
            self._write(data)
        except LogNotWrittenError:
            self._is_whole = True
            raise
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
        log directory is locked.) What goes on with the log stands behind it, in its file or in one
        that is named by its end.
        """
        with _nothing_written():
            is_alone = self._storage.size(self._path) == self._segment_bytes
            if self._segment_bytes:
                following = self._directory / segment_name(self._next_offset)
                is_alone = is_alone and not self._storage.exists(following)
        if not is_alone:
            raise OSError(f"{self._directory}: another process has written to the log")

    def _close_segment(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, batches: Sequence[_Batch]) -> None:
        """Write ``batches``, all into one segment, and sync them."""
        pieces: list[bytes] = []
        offset, now_ms = self._next_offset, self._last_timestamp_ms
        for batch in batches:
            now_ms = self._now_ms()
            pieces.append(
                encode_batch(
                    offset, self._epoch, now_ms, batch.records, is_control=batch.is_control
                )
            )
            offset += len(batch.records)
        if not pieces:
            return
        size = sum(map(len, pieces))
        if self._segment_bytes and self._segment_bytes + size > self._segment_bytes_max:
            self._begin_segment()
        assert self._file is not None, "started"
        self._file.append(pieces)
        self._file.sync()
        self._next_offset = offset
        self._last_timestamp_ms = now_ms
        self._segment_bytes += size
        self._bytes_written += size
        self._check_written()

    def _check_written(self) -> None:
        """Refuse to acknowledge what is not where a start will look for it.

        A file that was replaced, with all that was in it, takes what is written with it.
        """
        if self._storage.size(self._path) != self._segment_bytes:
            raise OSError(f"{self._path}: another process has replaced or written to the file")

    def _begin_segment(self) -> None:
        """Go on in a new file, whose name is durable before anything stands in it.

        Raises:
            LogNotWrittenError: it could not be made, and nothing is changed.
        """
        path = self._directory / segment_name(self._next_offset)
        with _nothing_written():
            directory = self._storage.open_directory(self._directory)
        with closing(directory):
            with _nothing_written():
                file = self._storage.append_to(path)
            self._close_segment()
            self._path, self._file, self._segment_bytes = path, file, 0
            directory.sync()


@contextmanager
def _nothing_written() -> Iterator[None]:
    """Turn an error of want into LogNotWrittenError."""
    try:
        yield
    except OSError as error:
        if error.errno in SHORTAGES:
            raise LogNotWrittenError(f"the log could not be written: {error}") from error
        raise
