"""Random stories of the copy of a followed log on a failing disk.

**Invariant:** after every crash, the copy is the cluster's state at some committed offset, with
that offset and epoch. It never mixes two histories, and is never set aside for what a crash or an
error left. What a snapshot or a checkpoint has made durable stays. If only the process ends,
nothing that was written is lost.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final

from authorizerd.acl.model import AclAdded
from authorizerd.config.follow.settings import SourceKind
from authorizerd.daemon.sources.copy_directory import claim_copy_directory, prepare_copy_directory
from authorizerd.image.changes import FeatureLevel
from authorizerd.image.cluster import EMPTY_IMAGE, apply_cluster_changes
from authorizerd.metadata.checkpoint_writer import CheckpointState
from authorizerd.metadata.copy_directory import SET_ASIDE_NAME, remove_tree
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY
from authorizerd.metadata.errors import CorruptLogError, LogDirectoryError
from authorizerd.metadata.inspection.findings import Fault
from authorizerd.metadata.inspection.inspection import Inspection
from authorizerd.metadata.log import LogBatch
from authorizerd.metadata.log_copy import RETRY_SECONDS, LogCopy
from authorizerd.metadata.replay import Replay
from authorizerd.metadata.writer import FEATURES_WRITTEN
from authorizerd.protocol.records.batch import ControlType, RecordBatch, decode_batch
from authorizerd.protocol.records.metadata import MetadataRecord
from tests.faults.damage import damaged
from tests.faults.disk import TIME_MS
from tests.faults.runs import Run, read_state
from tests.faults.stories import COPY_STORIES
from tests.faults.workload import BrokenInvariantError, State, Workload, after
from tests.support.log_files import checkpoint_batches, control_batch, data_batch
from tests.support.recording_storage import PowerFailure

LOG_DIR: Final = Path("/data/copy")
CLUSTER_ID: Final = "followed"
RESTARTS_MAX: Final = 100
FEATURES: Final = [FeatureLevel(*each) for each in FEATURES_WRITTEN.items()]


class History:
    """The log that a cluster has committed: its batches, and the ACLs and epoch after each."""

    def __init__(self, chance: Random, workload: Workload) -> None:
        self._chance = chance
        self._workload = workload
        self._state: State = {}
        self.epoch = 1
        self.end = 0
        self.batches: list[RecordBatch] = []
        self.states: dict[int, tuple[int, State]] = {-1: (0, {})}
        self._commit(control_batch(0, ControlType.LEADER_CHANGE))
        self._commit(data_batch(1, FEATURES))

    def _commit(self, data: bytes) -> None:
        batch = decode_batch(data)
        self.batches.append(batch)
        self.end = batch.last_offset + 1
        self.states[batch.last_offset] = (self.epoch, self._state)

    def grow(self) -> None:
        """Commit some batches, perhaps of a new epoch."""
        if self._chance.random() < 0.2:
            self.epoch += self._chance.choice((1, 1, 3))
            self._commit(control_batch(self.end, ControlType.LEADER_CHANGE, epoch=self.epoch))
        for changes in self._workload.new_batches(self._state):
            self._state = after(self._state, [changes])
            self._commit(data_batch(self.end, changes, epoch=self.epoch))

    def following(self, offset: int, count: int) -> list[RecordBatch]:
        """Return the next batches after ``offset``, at most ``count``."""
        return [each for each in self.batches if each.base_offset > offset][:count]

    def snapshot(self, offset: int) -> tuple[int, bytes]:
        """Return the epoch and bytes of a snapshot that ends after ``offset``."""
        epoch, state = self.states[offset]
        records: list[MetadataRecord] = [*FEATURES, *_added(state)]
        return epoch, b"".join(checkpoint_batches(records, epoch=epoch))


def _added(state: State) -> list[AclAdded]:
    return [AclAdded(acl_id, acl) for acl_id, acl in state.items()]


class CopySchedule(Run):
    """A story of the copy."""

    stories = COPY_STORIES

    def __init__(self, seed: int, name: str | None = None) -> None:
        super().__init__(seed, name)
        self._histories = [self._new_history()]
        self._bytes_max = self._chance.choice((500, 3000, 1 << 30))
        self._now = 0.0
        self._floor = 0
        self._visible_floor = 0
        self._is_damaged = False
        self._may_be_aside = False

    def run(self) -> None:
        for _ in range(self._chance.randint(2, 6)):
            self._live()
        self.disk.lose_power()
        self._visible_floor = 0
        self._open(0.0)
        self.events["schedules run to the end"] += 1

    def _new_history(self) -> History:
        return History(self._chance, self._workload)

    # One process.

    def _live(self) -> None:
        """Open the copy, follow the cluster, and end cleanly or by a fault."""
        self._damage()
        copy = self._open(self._chance.random())
        self._arm("remove", "rename")
        syncs = self.disk.faults["EIO on sync"]
        try:
            for _ in range(self._chance.randint(1, 12)):
                self._step(copy)
            if self._chance.random() < self._story.clean:
                copy.close()
                self.events["clean shutdowns"] += 1
        except PowerFailure:
            self.events["crashes"] += 1
        was_whole = not copy.fault and self.disk.faults["EIO on sync"] == syncs
        self._visible_floor = copy.last_offset + 1 if was_whole else 0
        self._end()

    def _end(self) -> bool:
        is_lost = super()._end()
        if is_lost:
            self._visible_floor = 0
        return is_lost

    def _step(self, copy: LogCopy) -> None:
        self._now += self._chance.choice((1.0, RETRY_SECONDS))
        if self._chance.random() < self._story.failure / 4:
            self.disk.fail_in = self._chance.randint(1, 30)
        self._history.grow()
        draw = self._chance.random()
        if draw < self._story.checkpoint / 2:
            self._fetch_snapshot(copy)
        elif draw < self._story.checkpoint / 2 + 0.04:
            self._clear(copy)
        else:
            copy.append(self._following(copy))
            self.events["appends"] += 1
        if copy.is_checkpoint_due(self._bytes_max):
            self._write_checkpoint(copy)

    def _following(self, copy: LogCopy) -> list[RecordBatch]:
        return self._history.following(copy.last_offset, self._chance.choice((1, 3, 100)))

    # Recovery.

    def _open(self, faults: float) -> LogCopy:
        """Open the copy and check its content; after a crash, try again."""
        for _ in range(RESTARTS_MAX):
            if self._chance.random() < faults:
                self._arm("truncate", "sync_directory", "remove", "make_directory")
            copy = LogCopy(
                LOG_DIR,
                node_id=1,
                storage=self.disk,
                segment_bytes_max=self._chance.choice(self._story.segment_bytes_max),
                clock=lambda: self._now,
            )
            try:
                prepare_copy_directory(LOG_DIR, self.disk)
                claim_copy_directory(LOG_DIR, SourceKind.QUORUM, node_id=1, storage=self.disk)
                copy.open()
                self.disk.calm()
                self._check(copy)
                copy.adopt_cluster(CLUSTER_ID)
            except (PowerFailure, LogDirectoryError):
                self.events["recoveries repeated"] += 1
                self._end()
            else:
                self.events["recoveries"] += 1
                return copy
            faults /= 2
        raise BrokenInvariantError("recovery never ends")

    def _check(self, copy: LogCopy) -> None:
        """Check that the copy is a state of the cluster, and recent enough."""
        if copy.fault:
            self.events["copies that could not be read"] += 1
            self._floor, self._may_be_aside = 0, True
            return
        is_aside = self.disk.exists(LOG_DIR / SET_ASIDE_NAME)
        if is_aside and not self._may_be_aside:
            raise BrokenInvariantError("an undamaged copy is set aside")
        state = self._read(copy)
        self._settle_history(copy, state)
        floor = max(self._floor, self._visible_floor)
        if copy.last_offset + 1 < floor and not self._is_damaged:
            raise BrokenInvariantError(f"durable up to {floor}, found {copy.last_offset + 1}")
        if self._chance.random() < 0.2 and copy.last_offset >= 0:
            self._inspect()
        self._floor = min(self._floor, copy.last_offset + 1)
        self.events["copies set aside"] += self._is_damaged and is_aside
        self.events["copies read back"] += copy.last_offset >= 0
        self._is_damaged = False

    def _read(self, copy: LogCopy) -> State:
        batches = list(copy.batches())
        end = batches[-1].last_offset if batches else -1
        if end != copy.last_offset:
            raise BrokenInvariantError(f"the batches end at {end}, the copy at {copy.last_offset}")
        return read_state(batches, Replay())

    def _settle_history(self, copy: LogCopy, state: State) -> None:
        """Check that the copy is a state of one history, which goes on. The newest is preferred."""
        for history in reversed(self._histories):
            epoch, expected = history.states.get(copy.last_offset, (-1, {}))
            if state == expected and (epoch == copy.end.epochs.last or self._is_damaged):
                self._histories = [history]
                if epoch != copy.end.epochs.last:
                    # No CRC covers an epoch, and only later batches could confirm the last one.
                    # The cluster would refuse this epoch, and the operator would reset the copy.
                    self.events["epochs damaged"] += 1
                    copy.begin_anew(LogDirectoryError("reset"))
                return
        raise BrokenInvariantError(
            f"the cluster had no state of {len(state)} ACLs at offset {copy.last_offset}, epoch "
            f"{copy.end.epochs.last}"
        )

    @property
    def _history(self) -> History:
        return self._histories[-1]

    def _inspect(self) -> None:
        for found in Inspection(LOG_DIR, self.disk).findings():
            if isinstance(found, Fault):
                raise BrokenInvariantError(f"check-log finds a fault: {found}")
        self.events["inspections"] += 1

    # Work.

    def _clear(self, copy: LogCopy) -> None:
        """Reset the copy; the cluster has been restored, and has another history."""
        self._histories.append(self._new_history())
        self._floor = 0
        self._may_be_aside = True
        copy.begin_anew(LogDirectoryError("reset"))
        if copy.fault:
            self.events["resets that failed"] += 1
        else:
            self._histories = [self._history]
            self.events["resets"] += 1
            with suppress(OSError):
                for _ in remove_tree(LOG_DIR / SET_ASIDE_NAME, self.disk):
                    pass
                self._may_be_aside = False
        copy.adopt_cluster(CLUSTER_ID)

    def _fetch_snapshot(self, copy: LogCopy) -> None:
        """Replace the copy by a snapshot; after an error, try once more."""
        later = [offset for offset in self._history.states if offset > copy.last_offset]
        for _ in range(2):
            offset = self._chance.choice(later)
            epoch, data = self._history.snapshot(offset)
            is_damaged = self._chance.random() < 0.2
            try:
                copy.begin_snapshot(offset + 1, epoch)
                for piece in self._cut(damaged(data, self._chance) if is_damaged else data):
                    copy.snapshot.append(piece)
                    if self._chance.random() < 0.05:
                        self.events["snapshots abandoned"] += 1
                        copy.abandon_snapshot()
                        return
                copy.snapshot.verify()
                batches = copy.snapshot.batches()
            except CorruptLogError as error:
                copy.abandon_snapshot(error)
                if not is_damaged:
                    raise
                self.events["snapshots rejected"] += 1
            except (OSError, LogDirectoryError) as error:
                copy.abandon_snapshot(error)
                self.events["snapshots that failed"] += 1
            else:
                self._check_snapshot(copy, offset, batches)
                return

    def _check_snapshot(self, copy: LogCopy, offset: int, batches: Iterator[LogBatch]) -> None:
        was_behind = bool(copy.fault)
        try:
            state = read_state(batches, Replay())
        except LogDirectoryError as error:
            copy.abandon_snapshot(error)
            self.events["snapshots that failed"] += 1
            return
        copy.install_snapshot()
        if not copy.fault:
            self._floor = offset + 1
        in_memory = "snapshots in memory" if was_behind else "snapshots that failed"
        self.events[in_memory if copy.fault else "snapshots"] += 1
        if (copy.end.epochs.last, state) != self._history.states[offset]:
            raise BrokenInvariantError("a damaged snapshot is accepted")

    def _cut(self, data: bytes) -> Iterator[bytes]:
        position = 0
        while position < len(data):
            size = self._chance.choice((1, 100, 1000, 10_000))
            yield data[position : position + size]
            position += size

    def _write_checkpoint(self, copy: LogCopy) -> None:
        """Write a checkpoint of the state so far, while another thread appends."""
        was_behind = bool(copy.fault)
        try:
            begun = copy.begin_checkpoint()
            if self._chance.random() < 0.5:
                copy.append(self._following(copy))
            epoch, state = self._history.states[copy.last_offset]
            if copy.last_offset >= 0 and copy.end.epochs.find(copy.last_offset) != epoch:
                raise BrokenInvariantError(f"the epoch at {copy.last_offset} is {epoch}")
            content = CheckpointState(
                end_offset=max(copy.last_offset + 1, begun),
                epoch=epoch,
                timestamp_ms=TIME_MS,
                cluster=apply_cluster_changes(EMPTY_IMAGE, FEATURES),
                acls=state,
            )
            if self._chance.random() < 0.5:
                self._append_between(copy)
            is_written = copy.write_checkpoint(content)
        except OSError:
            self.events["checkpoints that failed"] += 1
            return
        finally:
            self.disk.between = None
        self.events["checkpoints"] += is_written
        if is_written:
            self._floor = content.end_offset
            self._histories = [self._history]
            self.events["copies completed"] += was_behind
            if copy.fault:
                raise BrokenInvariantError("the copy is not complete after a checkpoint")

    def _append_between(self, copy: LogCopy) -> None:

        def append() -> None:
            # Only while the checkpoint is written, since its other steps wait for appends.
            last = self.disk.calls[-1]
            is_written = last.startswith("append") and last.endswith(".checkpoint.part")
            if is_written and self._chance.random() < 0.5:
                self.disk.between = None
                copy.append(self._following(copy))
                self.events["appends beside a checkpoint"] += 1

        self.disk.between = append

    # Damage.

    def _damage(self) -> None:
        if self._chance.random() >= self._story.damage:
            return
        directory = LOG_DIR / METADATA_TOPIC_DIRECTORY
        if not self.disk.exists(directory):
            return
        names = [each for each in self.disk.content_names(directory) if each[-5:] != ".part"]
        if not names:
            return
        path = directory / self._chance.choice(sorted(names))
        content = self.disk.content(path)
        content.replace(damaged(bytes(content.seen), self._chance))
        self.disk.calls.append(f"    damaged {path.name}")
        self._is_damaged = self._may_be_aside = True
        self.events["files damaged"] += 1
