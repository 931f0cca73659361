"""Read one checkpoint: batches of one epoch between a header and a footer.

**Invariant:** the reader trusts no batch of a checkpoint before its header. A header written by
this daemon contains the offset at which the checkpoint ends, so a renamed file is detected.

Source: KIP-630; Kafka 4.3 RecordsSnapshotReader.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from authorizerd.metadata.batch_file import BatchFile, PlacedBatch
from authorizerd.metadata.directory import Checkpoint, parse_checkpoint_name
from authorizerd.metadata.epochs import EPOCH_MAX, epoch_fault
from authorizerd.metadata.errors import CorruptLogError, LogDirectoryError, MetadataLogError
from authorizerd.metadata.storage import Storage
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.records.batch import ControlType, RecordBatch, control_types
from authorizerd.protocol.records.control import SnapshotHeader, decode_snapshot_header
from authorizerd.protocol.records.voters import Voters, find_voters


class CheckpointReader:
    """Read one checkpoint.

    ``header`` is set after the first batch, if its version is known, ``voters`` after a batch that
    names the voters, and ``footer`` at the end.
    """

    def __init__(self, checkpoint: Checkpoint, storage: Storage) -> None:
        self.checkpoint: Final = checkpoint
        self._storage: Final = storage
        self.header: SnapshotHeader | None = None
        self.voters: Voters | None = None
        self.footer: PlacedBatch | None = None

    def batches(self) -> Iterator[PlacedBatch]:
        """Yield the data batches. A header and a footer must frame them.

        Raises:
            CorruptLogError: the file is incomplete, or its name contradicts its header.
            LogDirectoryError: the file cannot be read.
        """
        checkpoint = self.checkpoint
        expected = 0
        self.footer = None
        with BatchFile(checkpoint.path, 0, self._storage) as file:
            # Never torn: a checkpoint gets its name only once it is complete and durable.
            while (placed := file.read(may_be_torn=False)) is not None:
                batch = placed.batch
                self._check_order(placed, expected)
                if self.footer is not None:
                    raise corrupt(placed, expected, "a batch follows the checkpoint's footer")
                controls = read_control_types(placed)
                if not expected:
                    self._read_header(placed, controls)
                if ControlType.SNAPSHOT_FOOTER in controls:
                    self.footer = placed
                if ControlType.KRAFT_VOTERS in controls:
                    self.voters = find_voters(batch)
                expected = batch.last_offset + 1
                if not batch.is_control:
                    yield placed
        if self.footer is None:
            raise CorruptLogError(
                checkpoint.path, file.position, expected, "the checkpoint has no footer"
            )

    def _check_order(self, placed: PlacedBatch, expected: int) -> None:
        batch, epoch = placed.batch, self.checkpoint.epoch
        if batch.base_offset != expected:
            reason = f"expected base offset {expected}, found {batch.base_offset}"
            raise corrupt(placed, expected, reason)
        if batch.leader_epoch != epoch:
            reason = f"expected epoch {epoch}, as in the name, found {batch.leader_epoch}"
            raise corrupt(placed, expected, reason)
        if epoch >= EPOCH_MAX:
            raise corrupt(placed, expected, f"epoch {epoch} is the last possible epoch")

    def _read_header(self, placed: PlacedBatch, controls: list[int]) -> None:
        if controls[:1] != [ControlType.SNAPSHOT_HEADER]:
            raise corrupt(placed, 0, "the checkpoint has no header")
        try:
            self.header = decode_snapshot_header(placed.batch)
        except DecodeError as error:
            raise corrupt(placed, 0, error.reason, position=error.position) from error
        # Kafka's headers have no end offset, so only the log can confirm their names.
        named = self.checkpoint.end_offset
        if self.header is not None and self.header.end_offset not in (None, named):
            reason = (
                f"it ends at offset {self.header.end_offset} by its header, at {named} by its "
                "name: restore the file's name"
            )
            raise corrupt(placed, 0, reason)


def locate_checkpoint(path: Path, storage: Storage) -> Checkpoint:
    """Return a checkpoint file's end offset in its log: from its name, or else from its header.

    Raises:
        LogDirectoryError: neither states it.
    """
    try:
        return parse_checkpoint_name(path)
    except LogDirectoryError:
        try:
            first, header = _read_first(path, storage)
        except MetadataLogError:
            header = None
        if header is None or header.end_offset is None:
            raise
        return Checkpoint(header.end_offset, first.batch.leader_epoch, path)


def read_checkpoint_time(path: Path, storage: Storage) -> int | None:
    """Return the time of the last record that a checkpoint covers, None if it is not known."""
    try:
        _, header = _read_first(path, storage)
    except MetadataLogError:
        return None
    return None if header is None else header.last_timestamp_ms


def _read_first(path: Path, storage: Storage) -> tuple[PlacedBatch, SnapshotHeader | None]:
    with BatchFile(path, 0, storage) as file:
        first = file.read(may_be_torn=False)
    if first is None or read_control_types(first)[:1] != [ControlType.SNAPSHOT_HEADER]:
        raise CorruptLogError(path, 0, 0, "the checkpoint has no header")
    try:
        return first, decode_snapshot_header(first.batch)
    except DecodeError as error:
        raise corrupt(first, 0, error.reason, position=error.position) from error


def place_fault(
    checkpoint: Checkpoint, header: SnapshotHeader | None, before: RecordBatch | None
) -> str | None:
    """Return why a checkpoint cannot end at the offset in its name, or None if it can.

    Args:
        before: the log's last batch that begins below the checkpoint's end, if any.
    """
    end = checkpoint.end_offset
    if before is None or before.last_offset + 1 != end:
        return (
            f"no batch of the log ends at offset {end}: if the file was renamed, restore its name"
        )
    epoch, log_epoch = checkpoint.epoch, before.leader_epoch
    if log_epoch != epoch:
        return f"its epoch is {epoch}, the log's at offset {end - 1} is {log_epoch}"
    return time_fault(header, before)


def time_fault(header: SnapshotHeader | None, before: RecordBatch) -> str | None:
    """Return why a checkpoint written by Kafka cannot end after ``before``, or None if it can.

    The header's time is that of the last record or later. If it is earlier than the time of
    ``before``, the file was renamed to an offset above its contents.
    """
    if header is None or header.end_offset is not None:
        return None
    if header.last_timestamp_ms >= before.max_timestamp_ms:
        return None
    return (
        f"its last record has the time {header.last_timestamp_ms} ms, the log's at offset "
        f"{before.last_offset} the later one {before.max_timestamp_ms} ms: if the file was "
        "renamed, restore its name"
    )


def read_control_types(placed: PlacedBatch) -> list[int]:
    """Return the types of a batch's control records. A data batch has none.

    Raises:
        CorruptLogError: a control record cannot be read.
    """
    if not placed.batch.is_control:
        return []
    try:
        return list(control_types(placed.batch))
    except DecodeError as error:
        offset = placed.batch.base_offset
        raise corrupt(placed, offset, error.reason, position=error.position) from error


def check_epoch(placed: PlacedBatch, epoch_before: int) -> None:
    """Check that a batch can follow a batch of ``epoch_before``, which is 0 at the log's beginning.

    Raises:
        CorruptLogError: it cannot.
    """
    batch = placed.batch
    begins_epoch = ControlType.LEADER_CHANGE in read_control_types(placed)
    reason = epoch_fault(batch.leader_epoch, epoch_before, begins_epoch=begins_epoch)
    if reason is not None:
        raise corrupt(placed, batch.base_offset, reason)


def corrupt(placed: PlacedBatch, offset: int, reason: str, *, position: int = 0) -> CorruptLogError:
    """Return the error for a batch. ``position`` counts from the start of the batch."""
    return CorruptLogError(placed.path, placed.position + position, offset, reason)
