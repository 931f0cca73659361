"""Follow the history of the ACLs: a log that its owner continues, compacts or replaces.

**Invariant:** states are those that the log has made visible, in order. If records are missing
between what was read and what the log has now, the history begins again with the oldest state of
the log, and earlier decisions are not judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from authorizerd.acl.host_ranges import find_range
from authorizerd.acl.index.builder import build
from authorizerd.acl.model import Acl, AclAdded, Change
from authorizerd.acl.snapshot import AclSnapshot, apply_changes
from authorizerd.image.errors import ChangeError
from authorizerd.metadata.directory import OFFSET_MAX, LogFiles
from authorizerd.metadata.errors import MetadataLogError, PastRangeError
from authorizerd.metadata.live_files import read_live
from authorizerd.metadata.past.batch_index import BatchIndex
from authorizerd.metadata.past.past_log import PastLog, TimedBatch, read_past
from authorizerd.replay.acl_set import DatedAcl
from authorizerd.replay.acls.log import find_log, read_earliest
from authorizerd.replay.errors import AclSourceError
from authorizerd.replay.verify.history import ALWAYS, History, State
from authorizerd.replay.verify.log_states import apply_visible, read_visible

STATES_MAX: Final = 10_000
"""With more states, the older half is forgotten, as far as no line that waits may need it."""


class KnownHistory(History, frozen=True, dict=True):
    """A history whose snapshots are kept. They share most of their memory."""

    kept: Sequence[AclSnapshot] = ()
    has_ranges: bool = False

    def snapshots(self) -> Iterator[AclSnapshot]:
        """Yield the ACLs of each state."""
        return iter(self.kept)

    @cached_property
    def depends_on_release(self) -> bool:
        return self.has_ranges


class _Reading:
    """The states that were read so far; ``offset`` and ``time_ms`` are the last record's."""

    def __init__(self) -> None:
        self.offset: int | None = None
        self.time_ms: int | None = None
        self.states: list[State] = []
        self.snapshots: list[AclSnapshot] = []
        self.has_ranges = False
        self._live: dict[bytes, DatedAcl] = {}
        self._bindings: set[Acl] = set()

    def add(self, batches: Iterable[TimedBatch], needed_ms: int) -> None:
        """Add what became visible; forget states before ``needed_ms`` if there are many.

        Raises:
            ChangeError: a change contradicts an earlier one.
        """
        for changes, timed in read_visible(batches):
            self.offset, self.time_ms = timed.changes.last_offset, timed.time_ms
            if self.states and self.states[0].time_ms == ALWAYS and self.time_ms is not None:
                self.states[0] = replace(self.states[0], time_ms=self.time_ms)
            if self.states and not changes:
                continue
            self._add_state(tuple(changes))
            if len(self.states) > STATES_MAX:
                self._forget(needed_ms)

    def _add_state(self, changes: tuple[Change, ...]) -> None:
        acls = apply_visible(self._live, self._bindings, changes)
        time_ms = ALWAYS if self.time_ms is None else self.time_ms
        if self.snapshots:
            self.snapshots.append(apply_changes(self.snapshots[-1], changes))
        else:
            self.snapshots.append(build(each for each in changes if isinstance(each, AclAdded)))
        self.has_ranges = self.has_ranges or any(find_range(acl.host) is not None for acl in acls)
        self.states.append(State(changes, acls, time_ms, self.offset))

    def _forget(self, needed_ms: int) -> None:
        """Make the last state before ``needed_ms`` the first one, but keep half of them."""
        first = STATES_MAX // 2
        while first and self.states[first].time_ms > needed_ms:
            first -= 1
        acls = tuple(self.snapshots[first].acls.values())
        self.states[: first + 1] = [replace(self.states[first], changes=(), acls=acls)]
        del self.snapshots[:first]


class HistoryFollower:
    """Reads a log again and again; ``history`` is what is known, and ``time_ms`` until when."""

    def __init__(self, path: Path, source: str) -> None:
        self._path: Final = find_log(path)
        self._source: Final = source
        self._index = BatchIndex()
        self._reading: _Reading | None = None
        self.history: History = KnownHistory(source, ())

    @property
    def offset(self) -> int:
        """The offset of the last record that was read, -1 before the first."""
        offset = None if self._reading is None else self._reading.offset
        return -1 if offset is None else offset

    @property
    def time_ms(self) -> int | None:
        """The time of the last record that was read."""
        return None if self._reading is None else self._reading.time_ms

    def read(self, needed_ms: int) -> None:
        """Read what the log has more. Blocks.

        Args:
            needed_ms: the earliest time of a decision that is not judged.

        Raises:
            AclSourceError: the log cannot be read now. What is known stays.
        """
        try:
            if self._reading is None or not self._continue(self._reading, needed_ms):
                self._reading = self._begin(needed_ms)
        except (MetadataLogError, ChangeError, OSError) as error:
            if isinstance(error, ChangeError):
                self._reading = None  # it may have a part of the changes
            text = str(error).removeprefix(f"{self._path}: ")
            raise AclSourceError(self._source, text) from error
        if len(self._reading.states) != len(self.history.states) or not self._is_current():
            self.history = self._make_history(self._reading)

    def _is_current(self) -> bool:
        assert self._reading is not None, "it was read"
        return [*self.history.states[-1:]] == self._reading.states[-1:]

    def _make_history(self, reading: _Reading) -> History:
        return KnownHistory(
            self._source,
            tuple(reading.states),
            kept=tuple(reading.snapshots),
            has_ranges=reading.has_ranges,
        )

    def _begin(self, needed_ms: int) -> _Reading:
        self._index.clear()

        def read(files: LogFiles) -> _Reading:
            reading = _Reading()
            reading.add(PastLog(files).read(OFFSET_MAX), needed_ms)
            return reading

        return read_live(self._path, partial(read_earliest, read=read, is_whole=True))

    def _continue(self, reading: _Reading, needed_ms: int) -> bool:
        """Add what follows; return False if the log no longer contains what was read."""
        offset = self.offset
        try:
            found = read_past(
                self._path, lambda log: list(log.read_after(offset)), index=self._index
            )
        except PastRangeError:
            return False
        after = [each for each in found if each.changes.last_offset > offset]
        last = [each for each in found if each.changes.last_offset == offset]
        is_same = any(each.is_checkpoint or each.time_ms == reading.time_ms for each in last)
        if is_same:
            reading.add(after, needed_ms)
        # A log that ends earlier is being copied again.
        return is_same or not (last or after)
