"""Follow the history of the ACLs: a log that its owner continues, compacts or replaces.

**Invariant:** states are those that the log has made visible, in order. If records are missing
between what was read and what the log has now, the history begins again with the oldest state of
the log, and earlier decisions are not judged. The time until when a daemon's ACLs are known is that
of an answer of the cluster, never later.
"""

from __future__ import annotations

import http.client
import re
import time
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import replace

from authorizerd.acl.host_ranges import find_range
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.config.endpoints import HttpEndpoint
from authorizerd.image.errors import ChangeError
from authorizerd.metadata.errors import PastRangeError
from authorizerd.metadata.past.batch_index import BatchIndex
from authorizerd.metadata.past.past_log import read_past
from authorizerd.replay.acls.log import find_log
from authorizerd.replay.verify.history import AclChange, History, State, apply_state
from authorizerd.replay.verify.log_states import LogStates, naming_log, read_states

STATES_MAX: Final = 10_000
"""With more states, the older half is forgotten, as far as no line that waits may need it."""
TIMEOUT_S: Final = 5.0
_SAMPLE: Final = re.compile(r"^(authorizerd_\w+) (\S+)$", re.MULTILINE)
_AGE: Final = "authorizerd_source_contact_age_seconds"


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


class _KeptStates(LogStates):
    """The states that were read so far, with their snapshots; see ``HistoryFollower.read``."""

    def __init__(self, needed_ms: int) -> None:
        super().__init__()
        self.needed_ms = needed_ms
        self.snapshots: list[AclSnapshot] = []
        self.has_ranges = False

    def add_state(self, state: State) -> None:
        super().add_state(state)
        self.snapshots.append(apply_state(self.snapshots[-1] if self.snapshots else None, state))
        self.has_ranges = self.has_ranges or any(
            find_range(each.acl.host) is not None for each in state.changes
        )
        if len(self.states) > STATES_MAX:
            self._forget()

    def _forget(self) -> None:
        """Make the last state before ``needed_ms`` the first one, but keep half of them."""
        first = STATES_MAX // 2
        while first and self.states[first].time_ms > self.needed_ms:
            first -= 1
        changes = tuple(AclChange(*each) for each in self.snapshots[first].acls.items())
        self.states[: first + 1] = [replace(self.states[first], changes=changes)]
        del self.snapshots[:first]


class HistoryFollower:
    """Reads a log again and again; ``history`` is what is known, and ``time_ms`` until when."""

    def __init__(self, path: Path, source: str) -> None:
        self._path: Final = find_log(path)
        self._source: Final = source
        self._index = BatchIndex()
        self._read = _KeptStates(0)
        self.history: History = KnownHistory(source, ())

    @property
    def offset(self) -> int:
        """The offset of the last record that was read, -1 before the first."""
        return -1 if self._read.offset is None else self._read.offset

    @property
    def time_ms(self) -> int | None:
        """The time of the last record that was read."""
        return self._read.time_ms

    def read(self, needed_ms: int) -> None:
        """Read what the log has more. Blocks.

        Args:
            needed_ms: the earliest time of a decision that is not judged.

        Raises:
            AclSourceError: the log cannot be read now. What is known stays.
        """
        self._read.needed_ms = needed_ms
        with naming_log(self._path, self._source):
            try:
                if self._read.offset is None or not self._continue():
                    self._index.clear()
                    self._read = read_states(self._path, partial(_KeptStates, needed_ms))
            except ChangeError:
                self._read = _KeptStates(needed_ms)  # it may have a part of the changes
                raise
        read, known = self._read, self.history.states
        if len(read.states) != len(known) or read.states[-1:] != [*known[-1:]]:
            self.history = KnownHistory(
                self._source,
                tuple(read.states),
                kept=tuple(read.snapshots),
                has_ranges=read.has_ranges,
            )

    def _continue(self) -> bool:
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
        is_same = any(each.is_checkpoint or each.time_ms == self._read.time_ms for each in last)
        if is_same:
            self._read.add(after)
        # A log that ends earlier is being copied again.
        return is_same or not (last or after)


class Contact(NamedTuple):
    """The state at ``offset`` was the cluster's at ``at_ms``."""

    at_ms: int
    offset: int


def ask_contact(daemon: HttpEndpoint) -> Contact | None:
    """Return what the daemon's metrics say, None if its ACLs are not known to be current. Blocks.

    A daemon with a log of its own is always current.

    Raises:
        OSError: it does not answer.
    """
    now_ms = time.time_ns() // 1_000_000
    connection = http.client.HTTPConnection(daemon.host or "", daemon.port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    except http.client.HTTPException as error:
        place = f"{daemon.host}:{daemon.port}"
        raise OSError(f"{place}: expected a daemon's metrics: {error!r}") from error
    finally:
        connection.close()
    samples = {name: float(value) for name, value in _SAMPLE.findall(text)}
    offset = int(samples.get("authorizerd_snapshot_offset", -1))
    age_s = samples.get(_AGE, 0)
    if offset < 0 or age_s < 0 or samples.get("authorizerd_source_copy_failing"):
        return None
    return Contact(now_ms - round(age_s * 1000), offset)
