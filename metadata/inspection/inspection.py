"""Inspect a whole log directory: every segment, every checkpoint, and their consistency.

**Invariant:** the inspection finds everything that a start would reject. It also finds faults that
a start does not check: in older segments and checkpoints, in epochs without a LeaderChange, and in
checkpoints that differ from the log. It neither changes nor locks anything. After a fault in a
segment, it skips the rest of that file, which would only repeat the fault. It continues with the
next segment, and takes the ACLs from the next checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from authorizerd.acl.index.builder import SnapshotBuilder
from authorizerd.acl.snapshot import EMPTY_SNAPSHOT, AclSnapshot, apply_changes
from authorizerd.image.errors import ChangeError
from authorizerd.metadata.batch_file import BatchFile, PlacedBatch
from authorizerd.metadata.checkpoint import CheckpointReader, time_fault
from authorizerd.metadata.directory import (
    OFFSET_MAX,
    Checkpoint,
    Segment,
    find_files,
    inspect_names,
)
from authorizerd.metadata.epochs import epoch_fault
from authorizerd.metadata.errors import CorruptLogError, LogDirectoryError, MetadataLogError
from authorizerd.metadata.inspection.findings import (
    Fault,
    FaultKind,
    Finding,
    Note,
    Summary,
    directory_fault,
    inspect_properties,
)
from authorizerd.metadata.log import LogBatch
from authorizerd.metadata.replay import Replay
from authorizerd.metadata.storage import DISK, Storage
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.records.batch import ControlType, RecordBatch, control_types
from authorizerd.protocol.records.control import SnapshotHeader
from authorizerd.protocol.records.fast_reader import Texts, read_records
from authorizerd.protocol.records.leader_change import decode_leader_change


class Inspection:
    """One inspection of a log directory.

    Iterate ``findings`` once; the attributes are valid then.

    Attributes:
        snapshot: the ACLs at the end of the log, or None if they are not known.
        end_offset: the offset after the last trusted one.
    """

    def __init__(self, log_dir: Path, storage: Storage = DISK) -> None:
        self._log_dir: Final = log_dir
        self._storage: Final = storage
        self.summary: Final = Summary()
        self.sound_checkpoints: Final[list[Checkpoint]] = []
        self._pending: list[Checkpoint] = []
        self._base_offsets: frozenset[int] = frozenset()
        # The last contiguous run of offsets.
        self._start = 0
        self.end_offset = 0
        self.last_epoch: int | None = 0
        self._last: RecordBatch | None = None
        self._has_begun = False
        self._is_interrupted = False
        self.snapshot: AclSnapshot | None = EMPTY_SNAPSHOT
        self._replay = Replay()
        self._texts: Final = Texts()
        self._uncovered: Segment | None = None

    def findings(self) -> Iterator[Finding]:
        """Yield the findings in log order. Blocks on the files.

        Raises:
            LogDirectoryError: there is no log.
        """
        files = find_files(self._log_dir, self._storage)
        self.summary.was_shut_down_cleanly = files.was_shut_down_cleanly
        self.summary.segments = len(files.segments)
        self.summary.checkpoints = len(files.checkpoints)
        if files.segments:
            self.summary.first_offset = files.segments[0].base_offset
        for path, reason, is_fault in inspect_names(self._log_dir, self._storage):
            yield directory_fault(path, reason) if is_fault else Note(path, reason)
        yield from inspect_properties(self._log_dir, self._storage)
        # Impossible offsets are left out: the inspection of names has reported them.
        segments = [each for each in files.segments if each.base_offset <= OFFSET_MAX]
        self._pending = [
            checkpoint for checkpoint in files.checkpoints if checkpoint.end_offset <= OFFSET_MAX
        ]
        self._base_offsets = frozenset(segment.base_offset for segment in segments)
        for segment in segments:
            yield from self._of_checkpoints_to(segment.base_offset)
            yield from self._of_beginning(segment, is_first=segment == segments[0])
            is_last = segment == segments[-1]
            may_be_torn = is_last and not files.was_shut_down_cleanly
            yield from self._of_segment(segment, may_be_torn=may_be_torn)
        yield from self._of_checkpoints_to(None)
        if self._uncovered is not None:
            reason = (
                f"the log begins at offset {self._uncovered.base_offset}, "
                "and no valid checkpoint covers the offsets before it"
            )
            yield Fault(FaultKind.UNCOVERED, self._uncovered.path, 0, 0, reason)
        elif not (self.end_offset or self._is_interrupted or files.checkpoints):
            reason = "the log contains no batch, although every log begins with one"
            yield Fault(FaultKind.UNCOVERED, segments[-1].path, 0, 0, reason)

    def _of_beginning(self, segment: Segment, *, is_first: bool) -> Iterator[Finding]:
        base_offset = segment.base_offset
        if self.end_offset != base_offset:
            if is_first:
                self._uncovered = segment
            elif not self._is_interrupted:
                reason = f"the segment begins at offset {base_offset}"
                yield Fault(FaultKind.GAP, segment.path, 0, self.end_offset, reason)
            self._begin_run(base_offset, epoch=None, snapshot=None)
        self._is_interrupted = False

    def _begin_run(self, offset: int, *, epoch: int | None, snapshot: AclSnapshot | None) -> None:
        self._start = self.end_offset = offset
        self.last_epoch = epoch
        self._last = None
        self.snapshot = snapshot
        self._replay = Replay()

    def _of_segment(self, segment: Segment, *, may_be_torn: bool) -> Iterator[Finding]:
        position = 0
        self._has_begun = True
        try:
            with BatchFile(segment.path, segment.base_offset, self._storage) as file:
                while (placed := file.read(may_be_torn=may_be_torn)) is not None:
                    self._check_order(placed)
                    yield from self._of_batch(placed)
                    yield from self._of_checkpoints_to(self.end_offset)
                    position = file.position
        except MetadataLogError as error:
            self._is_interrupted = True
            self.snapshot = None
            at, reason = position, str(error)
            if isinstance(error, CorruptLogError):
                at, reason = error.position, error.reason
            yield Fault(
                FaultKind.DAMAGE, segment.path, at, self.end_offset, reason, batch_position=position
            )
            return
        if file.torn_tail is not None:
            tail = self.summary.torn_tail = file.torn_tail
            yield Note(
                tail.path,
                f"at byte {tail.position}, log offset {self.end_offset}: unfinished write of "
                f"{tail.size} bytes, will be cut at the next start: {tail.reason}",
            )

    def _check_order(self, placed: PlacedBatch) -> None:
        """Raise CorruptLogError if the batch cannot follow the previous one.

        No CRC covers these fields.
        """
        batch = placed.batch
        reason = None
        if batch.base_offset != self.end_offset:
            reason = f"expected base offset {self.end_offset}, found {batch.base_offset}"
        elif batch.leader_epoch < (self.last_epoch or 0):
            reason = f"epoch {batch.leader_epoch} follows the higher epoch {self.last_epoch or 0}"
        if reason is not None:
            raise CorruptLogError(placed.path, placed.position, self.end_offset, reason)

    def _of_batch(self, placed: PlacedBatch) -> Iterator[Finding]:
        batch = placed.batch
        self.summary.batches += 1
        self.summary.records += batch.count
        try:
            if batch.is_control:
                yield from self._of_control_batch(placed)
            else:
                yield from self._of_epoch(placed, begins_epoch=False)
                self._apply(placed)
        except DecodeError as error:
            yield self._unfit(placed, error.reason, placed.position + error.position)
        except CorruptLogError as error:
            yield self._unfit(placed, error.reason, error.position)
        except ChangeError as error:
            yield self._unfit(placed, str(error), placed.position)
        self.last_epoch = batch.leader_epoch
        # Continue even after a fault, so that one fault does not cause others.
        self._last = batch
        self.end_offset = batch.last_offset + 1

    def _unfit(self, placed: PlacedBatch, reason: str, position: int) -> Fault:
        """Return the fault of a batch with impossible records. After it, the ACLs are not known."""
        self.snapshot = None
        self._replay = Replay()
        return Fault(
            FaultKind.DAMAGE, placed.path, position, self.end_offset, reason,
            batch_position=placed.position,
        )  # fmt: skip

    def _of_control_batch(self, placed: PlacedBatch) -> Iterator[Finding]:
        begins_epoch = ControlType.LEADER_CHANGE in list(control_types(placed.batch))
        yield from self._of_epoch(placed, begins_epoch=begins_epoch)
        change = decode_leader_change(placed.batch)
        if change is not None and change.leader_id not in change.voters:
            reason = f"a LeaderChange to node {change.leader_id}, which is not a voter"
            yield self._unfit(placed, reason, placed.position)

    def _of_epoch(self, placed: PlacedBatch, *, begins_epoch: bool) -> Iterator[Finding]:
        """Yield a fault if the batch's epoch cannot follow the previous epoch."""
        if self.last_epoch is None:
            return
        reason = epoch_fault(placed.batch.leader_epoch, self.last_epoch, begins_epoch=begins_epoch)
        if reason is None:
            return
        # The epoch is at byte 12 of a batch (`EPOCH_AT` of the repair).
        yield Fault(
            FaultKind.EPOCH, placed.path, placed.position + 12, self.end_offset, reason,
            batch_position=placed.position, right_epoch=self.last_epoch + begins_epoch,
        )  # fmt: skip

    def _apply(self, placed: PlacedBatch) -> None:
        """Apply the batch's changes. If the ACLs are not known, only read its records.

        A log may begin within a transaction that a checkpoint covers.
        """
        if self.snapshot is None:
            for _ in read_records(placed.batch, self._texts):
                pass
            return
        log_batch = LogBatch(placed, placed.batch.last_offset, is_checkpoint=False)
        for step in self._replay.steps(log_batch):
            if step is not None:
                self.snapshot = apply_changes(self.snapshot, step.changes)

    def _of_checkpoints_to(self, end: int | None) -> Iterator[Finding]:
        """Inspect the remaining checkpoints that end at or before ``end``; None: all of them."""
        while self._pending and (end is None or self._pending[0].end_offset <= end):
            checkpoint = self._pending.pop(0)
            fault = self._checkpoint_fault(checkpoint)
            if fault is None:
                self.sound_checkpoints.append(checkpoint)
            else:
                yield fault

    def _checkpoint_fault(self, checkpoint: Checkpoint) -> Fault | None:
        """Return the fault of a checkpoint, or None.

        If the checkpoint is valid, the inspection may take the ACLs from it.
        """
        path, position = checkpoint.path, 0
        builder, replay = SnapshotBuilder(), Replay()
        reader = CheckpointReader(checkpoint, self._storage)
        last_offset = checkpoint.end_offset - 1
        try:
            for placed in reader.batches():
                position = placed.position
                for step in replay.steps(LogBatch(placed, last_offset, is_checkpoint=True)):
                    if step is not None:
                        builder.apply_changes(step.changes)
        except CorruptLogError as error:
            reason = error.reason
            return Fault(FaultKind.CHECKPOINT, path, error.position, error.offset, reason)
        except (LogDirectoryError, ChangeError) as error:
            return Fault(FaultKind.CHECKPOINT, path, position, checkpoint.end_offset, str(error))
        snapshot = builder.freeze(last_offset)
        disagreement = self._disagreement(checkpoint, reader.header, snapshot)
        if disagreement is not None:
            return Fault(FaultKind.CHECKPOINT, path, 0, checkpoint.end_offset, disagreement)
        if self._is_ahead(checkpoint):
            end = self.end_offset
            reason = f"the log ends before it, at offset {end}: its name or the log's end is wrong"
            return Fault(FaultKind.AHEAD, path, 0, end, reason)
        self._adopt(checkpoint, snapshot)
        return None

    def _disagreement(
        self, checkpoint: Checkpoint, header: SnapshotHeader | None, snapshot: AclSnapshot
    ) -> str | None:
        """Return how the checkpoint differs from the log, as far as the log still covers it."""
        end = checkpoint.end_offset
        if self._is_interrupted or not self._start <= end <= self.end_offset:
            return None
        if end < self.end_offset:
            return "it does not end where a batch of the log ends"
        if (end > self._start or not end) and checkpoint.epoch != self.last_epoch:
            found = self.last_epoch
            return f"its epoch is {checkpoint.epoch}, the log's at offset {end - 1} is {found}"
        if self._replay.is_transaction_open:
            return "it ends within a transaction"
        reason = None if self._last is None else time_fault(header, self._last)
        if reason is None and self.snapshot is not None:
            reason = _difference(snapshot, self.snapshot)
        return reason

    def _is_ahead(self, checkpoint: Checkpoint) -> bool:
        """Return True if the log ends before the checkpoint does.

        A checkpoint without a log before it is not ahead. Neither is a checkpoint at whose end a
        segment begins: a node that fetches a checkpoint restarts its log there.
        """
        end = checkpoint.end_offset
        is_behind_log = self.end_offset < end and self._has_begun and not self._is_interrupted
        return is_behind_log and end not in self._base_offsets

    def _adopt(self, checkpoint: Checkpoint, snapshot: AclSnapshot) -> None:
        """Continue from a checkpoint if the log itself does not determine the ACLs."""
        end = checkpoint.end_offset
        if end > self.end_offset or self._is_interrupted:
            self._begin_run(end, epoch=checkpoint.epoch, snapshot=snapshot)
        elif end == self.end_offset and self.snapshot is None:
            self.snapshot = snapshot
            self.last_epoch = checkpoint.epoch
            self._replay = Replay()
        if self._uncovered is not None and end >= self._uncovered.base_offset:
            self._uncovered = None


def _difference(checkpoint: AclSnapshot, log: AclSnapshot) -> str | None:
    if checkpoint.acls == log.acls:  # one comparison in C, for the usual case
        return None
    for has, lacks, verb in ((log, checkpoint, "lacks"), (checkpoint, log, "has")):
        for acl_id, acl in has.acls.items():
            if lacks.acls.get(acl_id) != acl:
                return f"its ACLs differ from the log's: it {verb} {acl} with id {acl_id.hex()}"
    return None
