"""The state file: how far each log and each partition is counted, and all counts.

**Invariant:** positions and counts are replaced together, durably, so that they never disagree. A
file that is damaged or not ours is an error, never a new beginning.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.metadata.meta_properties import write_whole
from authorizerd.metadata.storage import DISK, Storage
from authorizerd.protocol.verification import Findings, StateError, decode_findings
from authorizerd.replay.errors import AclSourceError, TrafficError

_OWN_FILE: Final = 0o640
_REMEDY: Final = (
    "restore the file, or name another one to begin again, which counts the logs from their "
    "beginning"
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


class PartitionPosition(msgspec.Struct, frozen=True, kw_only=True):
    """The place in a partition up to which its records are counted.

    Attributes:
        topic_id: another one shows that the topic was deleted and created again.
        offset: the next record's.
    """

    cluster_id: str
    topic: str
    topic_id: str
    partition: int
    offset: int


class State(Findings, frozen=True, kw_only=True):
    """The contents of the file."""

    files: tuple[Position, ...] = ()
    partitions: tuple[PartitionPosition, ...] = ()


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
        state = decode_findings(data, State)
    except StateError as error:
        raise TrafficError(f"--state: {path}: {error}: {_REMEDY}") from error
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
