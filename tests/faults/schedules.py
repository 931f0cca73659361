"""Random stories of the real log on a failing disk: every acknowledged change is read back.

**Invariant:** after every crash, the ACLs are exactly those acknowledged, plus at most complete
batches of the last append. Data that was read survives the next crash. After an error, nothing more
is written. A start may refuse a log only where ``verdicts`` allows it, never at a durable byte.
"""

from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from immutables import Map

from authorizerd.image.cluster import ClusterImage
from authorizerd.metadata.checkpoint_writer import CheckpointState, retire, write_checkpoint
from authorizerd.metadata.directory import (
    CORRUPT_SUFFIX,
    METADATA_TOPIC_DIRECTORY,
    LogFiles,
    find_files,
)
from authorizerd.metadata.errors import CorruptLogError, LogDirectoryError, LogNotWrittenError
from authorizerd.metadata.log import MetadataLog, Progress
from authorizerd.metadata.meta_properties import (
    MetaProperties,
    check_format_is_finished,
    format_directory,
    read_meta_properties,
)
from authorizerd.metadata.replay import Replay
from authorizerd.metadata.writer import FEATURES_WRITTEN, LogWriter
from tests.faults.damage import damaged, is_out_of_reach
from tests.faults.disk import TIME_MS, UNREAD
from tests.faults.runs import Run, read_state
from tests.faults.stories import STORIES
from tests.faults.verdicts import may_stop, whole_size
from tests.faults.workload import Batch, BrokenInvariantError, State, after
from tests.support.recording_storage import PowerFailure

LOG_DIR: Final = Path("/data/log")
PROPERTIES: Final = MetaProperties("cluster", 1, "directory")
RESTARTS_MAX: Final = 100


class Schedule(Run):
    """A story of the real log."""

    stories = STORIES

    def __init__(self, seed: int, name: str | None = None) -> None:
        super().__init__(seed, name)
        self._settled: State = {}
        self._in_doubt: list[Batch] = []
        self._segment_bytes_max = self._chance.choice(self._story.segment_bytes_max)
        self._has_failed = False
        self._unread = 0
        self._checkpoint_end = 0
        self._damaged: Final[set[Path]] = set()

    def run(self) -> None:
        self._format()
        is_readable = True
        for _ in range(self._chance.randint(2, 6)):
            if is_readable:
                is_readable = self._live()
        if is_readable:
            self.disk.lose_power()
            self._recover(1.0)
        self.events["schedules run to the end"] += is_readable

    # Formatting.

    def _format(self) -> None:
        for _ in range(RESTARTS_MAX):
            self._arm("make_directory", "sync_directory")
            with suppress(PowerFailure, OSError, LogDirectoryError, LogNotWrittenError):
                format_directory(LOG_DIR, PROPERTIES, self.disk, self._begin_log)
                self._end()
                return
            self._end()
            if self._is_formatted():
                return
            self.events["formats repeated"] += 1
        raise BrokenInvariantError("formatting never ends")

    def _begin_log(self) -> None:
        with closing(self._new_writer()) as writer:
            writer.start(Progress(), Replay(), node_id=1)

    def _is_formatted(self) -> bool:
        """Return True if a start would accept the directory; then it must be complete."""
        try:
            check_format_is_finished(LOG_DIR, self.disk)
            find_files(LOG_DIR, self.disk)
        except LogDirectoryError:
            return False
        if read_meta_properties(LOG_DIR, self.disk) != PROPERTIES:
            raise BrokenInvariantError("a directory without its properties counts as formatted")
        return True

    # One process.

    def _live(self) -> bool:
        """Recover, work, and end cleanly or by a fault; return False if no life can follow."""
        self._has_failed = False
        if self._chance.random() < 0.3:  # so that a start may have to create a segment
            self._segment_bytes_max = self._chance.choice(self._story.segment_bytes_max)
        self._damage_checkpoint()
        writer = self._recover(self._chance.random())
        if writer is None:
            return False
        self._arm("remove", "rename")
        try:
            for _ in range(self._chance.randint(1, 10)):
                if self._chance.random() < self._story.checkpoint:
                    self._checkpoint(writer)
                else:
                    self._append(writer)
                if self._has_failed:  # an error ends a daemon
                    break
            if self._chance.random() < self._story.clean:
                writer.close()
                self.events["clean shutdowns"] += 1
                if self._chance.random() < self._story.damage / 4:
                    return self._cut_log()
        except PowerFailure:
            self.events["crashes"] += 1
        except OSError:
            self.events["shutdowns not marked"] += 1
        self._end()
        return self._chance.random() >= self._story.damage / 8 or self._flip_log()

    def _new_writer(self) -> LogWriter:
        return LogWriter(
            LOG_DIR,
            storage=self.disk,
            segment_bytes_max=self._segment_bytes_max,
            now_ms=lambda: TIME_MS + len(self.disk.calls),
        )

    # Recovery.

    def _recover(self, faults: float) -> LogWriter | None:
        """Read the log and start a writer, if need be again; None if the log is rightly refused."""
        for _ in range(RESTARTS_MAX):
            if self._chance.random() < faults:
                self._arm("truncate", "sync_directory")
            self._unread = self.disk.faults[UNREAD]
            try:
                writer = self._start()
            except CorruptLogError as error:
                if self.disk.faults[UNREAD] > self._unread:
                    self.events["stopped: a file could not be read"] += 1
                    self._end()
                elif not self._stops_rightly(error):
                    return None
            except (PowerFailure, OSError, LogDirectoryError, LogNotWrittenError):
                self.events["recoveries repeated"] += 1
                self._end()
            else:
                self.disk.calm()
                self.events["recoveries"] += 1
                return writer
            faults /= 2
        raise BrokenInvariantError("recovery never ends")

    def _start(self) -> LogWriter:
        log, replay = MetadataLog.open(LOG_DIR, self.disk), Replay()
        found = self._read(log, replay)
        self._check_checkpoints(log)
        writer = self._new_writer()
        segments = self._segment_names()
        writer.start(log.progress, replay, node_id=1)
        if not segments <= self._segment_names():
            raise BrokenInvariantError("a start removes a segment")
        self._settled, self._in_doubt = found, []
        self._check_set_aside(log)
        self.events["torn tails cut"] += log.progress.torn_tail is not None
        return writer

    def _segment_names(self) -> set[str]:
        names = self.disk.content_names(LOG_DIR / METADATA_TOPIC_DIRECTORY)
        return {name for name in names if name.endswith(".log")}

    def _read(self, log: MetadataLog, replay: Replay) -> State:
        """Return the ACLs of the log; check that they are the acknowledged ones."""
        found = read_state(log.batches(), replay)
        possible = [dict(self._settled)]
        for batch in self._in_doubt:
            possible.append(after(possible[-1], [batch]))
        if found not in possible:
            raise BrokenInvariantError(
                f"found {len(found)} ACLs, expected {len(self._settled)}, in doubt "
                f"{list(map(len, self._in_doubt))} changes; missing "
                f"{len(self._settled.keys() - found.keys())}, unexpected "
                f"{len(found.keys() - self._settled.keys())}"
            )
        if replay.features != FEATURES_WRITTEN:
            raise BrokenInvariantError(f"the features are {replay.features}")
        return found

    def _check_checkpoints(self, log: MetadataLog) -> None:
        """Check that each written checkpoint exists, and is intact unless it was damaged."""
        names = self.disk.content_names(LOG_DIR / METADATA_TOPIC_DIRECTORY)
        ends = [int(name[:20]) for name in names if ".checkpoint" in name and ".part" not in name]
        if max(ends, default=0) < self._checkpoint_end:
            raise BrokenInvariantError(
                f"the checkpoint at offset {self._checkpoint_end} is missing"
            )
        if self.disk.faults[UNREAD] == self._unread:
            for each in log.progress.damaged_checkpoints:
                if each.checkpoint.path not in self._damaged:
                    raise BrokenInvariantError(f"expected an intact checkpoint: {each.error}")

    def _check_set_aside(self, log: MetadataLog) -> None:
        damaged = log.progress.damaged_checkpoints
        if damaged:
            self.events["fell back to an older checkpoint or the log"] += 1
        for each in damaged:
            path = each.checkpoint.path
            aside = path.with_name(path.name + CORRUPT_SUFFIX)
            if self.disk.is_file(path) or not self.disk.is_file(aside):
                raise BrokenInvariantError(f"{path.name} is not set aside")

    def _stops_rightly(self, error: CorruptLogError) -> bool:
        """Repair a log that may be refused and return True; return False if it is beyond repair."""
        self.disk.end_process()
        content = self.disk.content(error.path)
        if error.path.suffix != ".log" or not may_stop(bytes(content.seen), bytes(content.written)):
            if self._damaged and is_out_of_reach(self.disk, self._files()):
                self.events["stopped: a damaged checkpoint, and the log begins later"] += 1
                return False
            raise BrokenInvariantError(f"recovery refuses the log: {error}")
        whole = whole_size(bytes(content.seen), bytes(content.written))
        if whole < content.synced:
            raise BrokenInvariantError(f"recovery refuses durable bytes: {error}")
        self.events["stopped: a write whose sectors came in another order"] += 1
        content.truncate(whole)  # as an operator's repair does
        return True

    # Work.

    def _append(self, writer: LogWriter) -> None:
        """Append some batches with one sync."""
        batches = self._workload.new_batches(self._settled)
        self._in_doubt = batches
        try:
            writer.append(batches)
        except LogNotWrittenError:
            self.events["appends refused, with nothing written"] += 1
            self._in_doubt = []
            return
        except OSError:
            self.events["appends that failed"] += 1
            self._has_failed = True
            self._check_nothing_more(writer)
            return
        self._settled = after(self._settled, batches)
        self._in_doubt = []
        self.events["appends"] += 1

    def _check_nothing_more(self, writer: LogWriter) -> None:
        writes = self.disk.writes
        with suppress(OSError):
            writer.append([[self._workload.new_acl()]])
            raise BrokenInvariantError("an append succeeds after an error")
        writer.close()
        if self.disk.writes != writes:
            raise BrokenInvariantError("data is written after an error")

    def _checkpoint(self, writer: LogWriter) -> None:
        """Write a checkpoint and retire files, while another thread appends."""
        state = CheckpointState(
            end_offset=writer.last_offset + 1,
            epoch=writer.epoch,
            timestamp_ms=TIME_MS,
            cluster=ClusterImage(features=Map(writer.features)),
            acls=dict(self._settled),
        )
        if self._chance.random() < 0.5:
            self._append_between(writer)
        if self._chance.random() < self._story.failure / 4:  # an unsynced name, then a crash
            self.disk.fail_in, self.disk.fail_at = 0, "sync_directory"
            self.disk.crash_in, self.disk.crash_at = self._chance.randint(8, 30), None
        try:
            write_checkpoint(LOG_DIR, state, self.disk)
            self._checkpoint_end = state.end_offset
            self.events["checkpoints"] += 1
        except OSError:
            self.events["checkpoints that failed"] += 1
        finally:
            self.disk.between = None
        if self._chance.random() < 0.7:
            self._retire()

    def _retire(self) -> None:
        """Retire files, whether the checkpoint before was written or failed."""
        if self._chance.random() < self._story.crash / 3:
            self.disk.crash_in, self.disk.crash_at = self._chance.randint(1, 20), "remove"
        try:
            retired = retire(
                find_files(LOG_DIR, self.disk),
                bytes_max=self._chance.choice((0, 0, 3000, 2**63)),
                oldest_ms=self._chance.choice((0, 2 * TIME_MS)),
                storage=self.disk,
            )
            self.events["files retired"] += len(retired)
        except (OSError, LogDirectoryError):
            self.events["retirements that failed"] += 1

    def _append_between(self, writer: LogWriter) -> None:

        def append() -> None:
            if not self._has_failed and self._chance.random() < 0.2:
                self.disk.between = None
                self._append(writer)
                self.disk.between = append

        self.disk.between = append

    # Damage.

    def _files(self) -> LogFiles:
        return find_files(LOG_DIR, self.disk)

    def _damage_checkpoint(self) -> None:
        if self._chance.random() >= self._story.damage:
            return
        checkpoints = self._files().checkpoints
        for checkpoint in checkpoints[-self._chance.choice((1, 1, 1, 2)) :]:
            content = self.disk.content(checkpoint.path)
            self.disk.calls.append(f"    damaged {checkpoint.path.name}")
            content.replace(damaged(bytes(content.seen), self._chance))
            self._damaged.add(checkpoint.path)
            self.events["checkpoints damaged"] += 1

    def _flip_log(self) -> bool:
        """Flip a durable bit, which must be detected or change no ACL. This ends the schedule."""
        self.disk.end_process()
        content = self.disk.content(self._chance.choice(self._files().segments).path)
        if content.synced:
            position = self._chance.randrange(content.synced)
            data = bytearray(content.seen)
            data[position] ^= 1 << self._chance.randrange(8)
            content.replace(bytes(data))
            try:
                self._read(MetadataLog.open(LOG_DIR, self.disk), Replay())
                self.events["bits of the log flipped without effect"] += 1
            except CorruptLogError:
                self.events["stopped: a bit of the log flipped"] += 1
        return False

    def _cut_log(self) -> bool:
        """Cut the log of a clean shutdown, which must not be read as a torn tail."""
        self.disk.end_process()
        content = self.disk.content(self._files().segments[-1].path)
        content.replace(bytes(content.seen[: -self._chance.randint(1, 20)]))
        try:
            list(MetadataLog.open(LOG_DIR, self.disk).batches())
        except CorruptLogError:
            self.events["stopped: damage after a clean shutdown"] += 1
            return False
        raise BrokenInvariantError("damage after a clean shutdown is read as a torn tail")
