"""Read the history of the ACLs from a log directory, or from a checkpoint file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, pairwise
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from authorizerd.acl.model import Acl, AclAdded, Change
from authorizerd.image.errors import ChangeError
from authorizerd.metadata.directory import OFFSET_MAX, LogFiles
from authorizerd.metadata.errors import MetadataLogError
from authorizerd.metadata.live_files import read_live
from authorizerd.metadata.past.past_log import PastLog, TimedBatch
from authorizerd.replay.acl_set import DatedAcl
from authorizerd.replay.acls.log import apply_dated, find_log, read_earliest
from authorizerd.replay.errors import AclSourceError
from authorizerd.replay.verify.history import ALWAYS, AclChange, History, State


class LogStates:
    """The states that were read so far; ``offset`` and ``time_ms`` are the last record's."""

    def __init__(self) -> None:
        self.offset: int | None = None
        self.time_ms: int | None = None
        self.states: list[State] = []
        self._live: dict[bytes, DatedAcl] = {}
        self._bindings: set[Acl] = set()

    def add(self, batches: Iterable[TimedBatch]) -> None:
        """Add what became visible.

        Raises:
            ChangeError: a change contradicts an earlier one.
        """
        for changes, timed in _read_visible(batches):
            self.offset, self.time_ms = timed.changes.last_offset, timed.time_ms
            if self.states and self.states[0].time_ms == ALWAYS and self.time_ms is not None:
                self.states[0] = replace(self.states[0], time_ms=self.time_ms)
            if changes or not self.states:
                time_ms = ALWAYS if self.time_ms is None else self.time_ms
                self.add_state(State(tuple(map(self._apply, changes)), time_ms, self.offset))

    def add_state(self, state: State) -> None:
        """Add the state that follows."""
        self.states.append(state)

    def _apply(self, change: Change) -> AclChange:
        before = self._live.get(change.id)
        apply_dated(self._live, self._bindings, (change,), None)
        if isinstance(change, AclAdded):
            return AclChange(change.id, change.acl)
        assert before is not None, "only an ACL that exists can be removed"
        return AclChange(change.id, before.acl, is_added=False)


R = TypeVar("R", bound=LogStates)


def read_states(path: Path, begin: Callable[[], R]) -> R:
    """Return the states of a whole log, added to those of ``begin``, which has none. Blocks.

    Raises:
        MetadataLogError, ChangeError: there is no log, or it is damaged.
    """

    def read(files: LogFiles) -> R:
        states = begin()
        states.add(PastLog(files).read(OFFSET_MAX))
        return states

    return read_live(path, lambda files: read_earliest(files, read, is_whole=True))


@contextmanager
def naming_log(path: Path, source: str) -> Iterator[None]:
    """Turn an error of reading a log into an AclSourceError with the name of the source."""
    try:
        yield
    except (MetadataLogError, ChangeError, OSError) as error:
        raise AclSourceError(source, str(error).removeprefix(f"{path}: ")) from error


def read_history(path: Path) -> History:
    """Return all states of a log directory, or of a checkpoint file. Blocks.

    Raises:
        AclSourceError: there is no log, or it is damaged.
    """
    with naming_log(path, str(path)):
        read = read_states(find_log(path), LogStates)
        return History(str(path), read.states, read.offset, read.time_ms)


def _read_visible(log: Iterable[TimedBatch]) -> Iterator[tuple[list[Change], TimedBatch]]:
    """Yield the changes of a whole checkpoint, then of each batch, with the last part of each."""
    changes: list[Change] = []
    for timed, following in pairwise(chain(log, (None,))):
        assert timed is not None, "only the last one is"
        changes += timed.changes.changes
        ends_checkpoint = following is None or not following.is_checkpoint
        if ends_checkpoint if timed.is_checkpoint else timed.changes.is_end:
            yield changes, timed
            changes = []
