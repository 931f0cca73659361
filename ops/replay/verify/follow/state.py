"""The state file: how far each log is counted, and all counts.

**Invariant:** positions and counts are replaced together, durably, so that they never disagree. A
file that is damaged or not ours is an error, never a new beginning.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.metadata.meta_properties import write_whole
from authorizerd.metadata.storage import DISK, Storage
from authorizerd.replay.acls.errors import AclSourceError
from authorizerd.replay.local.errors import TrafficError
from authorizerd.replay.verify.report import Listed

KIND: Final = "authorizerd verify --follow"
VERSION: Final = 1
LATEST_MAX: Final = 50
"""The number of differences that the file keeps."""

_OWN_FILE: Final = 0o640
_REMEDY: Final = (
    "restore the file, or move it away to begin again, which counts the logs from their beginning"
)


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """The place in a log up to which its lines are counted.

    Attributes:
        name: the path at which the log was found first.
        path: the path of the file now; it may be renamed.
        offset: the number of counted bytes, and ``lines`` that of counted lines.
        head: the first bytes of the log, by which its copies are known, and other contents.
        is_finished: the log was renamed and read to its end.
    """

    name: str
    path: str
    device: int
    inode: int
    offset: int = 0
    lines: int = 0
    head: bytes = b""
    is_finished: bool = False


class Disagreement(Listed, frozen=True, kw_only=True):
    """Equal decisions that differ, as ``verify`` lists them, with their cause."""

    cause: str


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """The counts since the beginning. Each line counts in exactly one of them.

    Attributes:
        not_judged: events by reason.
        disagreements: events by cause.
        set_aside: lines without an event by reason.
        lost_files: files that were replaced or removed before they were known to be read.
        judged_ms: the latest time of an event.
    """

    agreed: int = 0
    other_rule: int = 0
    not_judged: Mapping[str, int] = {}
    disagreements: Mapping[str, int] = {}
    set_aside: Mapping[str, int] = {}
    blank: int = 0
    lost_files: int = 0
    judged_ms: int | None = None

    @property
    def lines(self) -> int:
        groups = (self.not_judged, self.disagreements, self.set_aside)
        return self.agreed + self.other_rule + self.blank + sum(sum(g.values()) for g in groups)


class Lag(msgspec.Struct, frozen=True, kw_only=True):
    """The lines that are not counted yet.

    Attributes:
        bytes: of all logs, read or not.
        lines: those that were read and wait for the history.
        oldest_ms: the time of the oldest of these lines.
        history_ms: the time up to which the history is known.
    """

    bytes: int = 0
    lines: int = 0
    oldest_ms: int | None = None
    history_ms: int | None = None


class State(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of the file.

    Attributes:
        read_ms: when the logs were read last.
        latest: the newest differences, the last one first.
    """

    kind: str = KIND
    version: int = VERSION
    history: str
    window_ms: int
    read_ms: int = 0
    counts: Counts = Counts()
    lag: Lag = Lag()
    files: tuple[Position, ...] = ()
    latest: tuple[Disagreement, ...] = ()


def read_state(path: Path, new: State, storage: Storage = DISK) -> State:
    """Return the state in a file, or ``new`` if there is none.

    Raises:
        TrafficError: the file is damaged, of another program or version, or unreadable.
        AclSourceError: it compares with another history.
    """
    try:
        with storage.open(path) as file:
            data = file.read()
    except FileNotFoundError:
        return new
    except OSError as error:
        raise TrafficError(f"--state: {path}: {error.strerror or error}") from error
    try:
        state = msgspec.json.decode(data, type=State)
    except msgspec.MsgspecError as error:
        raise TrafficError(f"--state: {path}: damaged, or no state: {error}: {_REMEDY}") from error
    if (state.kind, state.version) != (KIND, VERSION):
        found = f"{state.kind!r} version {state.version}"
        raise TrafficError(f"--state: {path}: expected {KIND!r} version {VERSION}, found {found}")
    if state.history != new.history:
        raise AclSourceError(
            new.history,
            f"{path} counts the comparison with {state.history}: name another file in --state",
        )
    return msgspec.structs.replace(state, window_ms=new.window_ms)


def write_state(path: Path, state: State, storage: Storage = DISK) -> None:
    """Replace the file. After a crash it has the old state or the new one.

    Raises:
        TrafficError: it cannot be written.
    """
    try:
        write_whole(path, msgspec.json.encode(state) + b"\n", storage)
    except OSError as error:
        raise TrafficError(f"--state: {path}: {error.strerror or error}") from error


@contextmanager
def hold_state(path: Path) -> Iterator[None]:
    """Keep other processes from using the state file until the block ends.

    Raises:
        TrafficError: another process uses it, or the lock cannot be created.
    """
    lock = path.with_name(f"{path.name}.lock")
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _OWN_FILE)
    except OSError as error:
        raise TrafficError(f"--state: {lock}: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise TrafficError(f"--state: {path}: in use by another process: end it first") from error
    finally:
        os.close(descriptor)
