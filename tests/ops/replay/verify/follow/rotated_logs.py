"""A broker's audit log that is rotated, and a follower of logs that may end at any moment."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Final

from authorizerd.acl.known_settings import KnownSettings
from authorizerd.acl.releases import Release
from authorizerd.metadata.storage import DISK, Storage
from authorizerd.replay.local.tallies import Tallies
from authorizerd.replay.plans import LineLayout
from authorizerd.replay.verify.follow.files import FollowedFiles
from authorizerd.replay.verify.follow.history import Contact, HistoryFollower
from authorizerd.replay.verify.follow.shadow import Shadow
from authorizerd.replay.verify.follow.state import State, read_state
from authorizerd.replay.verify.follow.topics import FollowedTopic
from authorizerd.replay.verify.follow.waiting import WAITING_BYTES_MAX
from authorizerd.replay.verify.topic_client import TopicClient
from tests.faults.disk import FaultDisk
from tests.support.recording_storage import PowerFailure

KEPT: Final = 100
CLOSED: Final = KnownSettings(frozenset(), False)


class RotatedLog:
    """``audit.log``, which ``rotate`` renames, or copies and truncates, to ``audit.log.1``."""

    def __init__(self, folder: Path, *, copies: bool) -> None:
        self.path = folder / "audit.log"
        self.copies = copies
        self.lines: list[str] = []
        self._rest = b""

    def write(self, lines: Iterable[str], cut: int = 0) -> None:
        """Append lines, of the last one without its last ``cut`` bytes, until the next call."""
        text = "".join(f"{line}\n" for line in lines).encode()
        self.lines += text.decode().splitlines()
        text = self._rest + text
        with self.path.open("ab") as file:
            file.write(text[: len(text) - cut])
        self._rest = text[len(text) - cut :]

    def rotate(self) -> None:
        """Move all files on by one number."""
        self.write(())
        for number in range(KEPT, 0, -1):
            old = Path(f"{self.path}.{number}")
            if old.exists():
                old.rename(f"{self.path}.{number + 1}")
        if self.path.exists():
            (shutil.copyfile if self.copies else Path.rename)(self.path, Path(f"{self.path}.1"))

    def truncate(self) -> None:
        """End a rotation that copies."""
        if self.copies and self.path.exists():
            self.path.open("w").close()


def new_shadow(
    state: Path,
    log_dir: Path,
    inputs: Sequence[Path | str],
    *,
    storage: Storage = DISK,
    ask: Callable[[], Contact | None] | None = None,
    clients: Sequence[TopicClient] = (),
) -> Shadow:
    """Return a follower that continues at its state, with a window of 5 s."""
    find_time = Tallies.of(LineLayout()).find_time
    found = read_state(state, State(history=str(log_dir), window_ms=5_000), storage)
    topics = [
        FollowedTopic(each, found.partitions, find_time, WAITING_BYTES_MAX) for each in clients
    ]
    return Shadow(
        state,
        found,
        HistoryFollower(log_dir, str(log_dir)),
        CLOSED,
        tuple(Release),
        (FollowedFiles([str(each) for each in inputs], found.files, find_time), *topics),
        LineLayout(),
        ask=ask,
        storage=storage,
    )


class CrashingFollower:
    """A follower whose state is on a disk that loses power, and that then starts again."""

    def __init__(
        self,
        chance: Random,
        log_dir: Path,
        inputs: Sequence[Path | str],
        ask: Callable[[], Contact | None] | None = None,
        clients: Sequence[TopicClient] = (),
    ) -> None:
        self.disk = FaultDisk(chance)
        self.disk.make_directory(Path("/state"))
        self.disk.sync_directory(Path("/"))
        self._log_dir, self._inputs, self._ask, self._clients = log_dir, inputs, ask, clients
        self.shadow = self._start()

    def _start(self) -> Shadow:
        state = Path("/state/verify.json")
        return new_shadow(
            state, self._log_dir, self._inputs, storage=self.disk, ask=self._ask,
            clients=self._clients,
        )  # fmt: skip

    def step(self, crash_in: int | None = None) -> None:
        """Make a step, which ends with a crash at a call of the disk, if it gets so far."""
        before = self.shadow.state.counts
        self.disk.crash_in = crash_in
        try:
            self.shadow.step()
        except PowerFailure:
            self.crash()
        self.disk.calm()
        assert self.shadow.state.counts.lines >= before.lines, "a counter never decreases"

    def crash(self) -> None:
        for source in self.shadow._sources:
            source.close()  # as the kernel does
        self.disk.lose_power()
        self.shadow = self._start()
