"""A disk in memory that loses power, tears and reorders writes, and fails, according to its seed.

**Invariant:** durable data is separate from data in the kernel's memory. Contents are durable once
the file is synced, names once their directory is. A power failure keeps, loses, cuts or reorders
everything else. A failed sync may drop data: readers still see it, but no later sync writes it.
Every choice comes from one ``random.Random``, and every call is recorded.

Source: the simulated disks of SQLite's crash tests and of FoundationDB; "Can
Applications Recover from fsync Failures?" (Rebello et al., USENIX ATC 2020).
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from io import BytesIO
from itertools import chain
from pathlib import Path
from random import Random
from typing import BinaryIO, Final, NamedTuple

from authorizerd.metadata.storage import Directory, Storage
from tests.faults.contents import Content
from tests.support.recording_storage import PowerFailure

TIME_MS: Final = 1_792_000_000_000
UNREAD: Final = "EIO on reading"


class _Directory:
    """Visible and durable names; ``pending`` has the changes between the two."""

    def __init__(self) -> None:
        self.seen: dict[str, _Node] = {}
        self.durable: dict[str, _Node] = {}
        self.pending: list[tuple[str | None, str | None, _Node]] = []

    def move(self, source: str | None, target: str | None, node: _Node) -> None:
        """Rename ``node`` from ``source`` to ``target``. None stands for no name."""
        _move(self.seen, source, target, node)
        self.pending.append((source, target, node))

    def sync(self) -> None:
        self.durable = dict(self.seen)
        self.pending.clear()

    def lose_power(self, chance: Random) -> str:
        """Keep some changes that were not synced; return what happened, or ""."""
        if not self.pending:
            return ""
        kept = chance.choice((0.0, 1.0, 0.5))
        for change in self.pending:
            if chance.random() < kept:
                _move(self.durable, *change)
        self.seen = dict(self.durable)
        self.pending.clear()
        return {0.0: "names lost", 1.0: "names kept", 0.5: "some names kept"}[kept]


_Node = Content | _Directory


def _move(names: dict[str, _Node], source: str | None, target: str | None, node: _Node) -> None:
    if source is not None:
        names.pop(source, None)
    if target is not None:
        names[target] = node


class _JointMove(NamedTuple):
    """The part of a change in one directory that a file system makes together with other parts."""

    directory: _Directory
    source: str | None
    target: str | None
    node: _Node


class FaultDisk(Storage):
    """A ``Storage`` in memory; ``calls`` has all calls.

    ``crash_in`` and ``fail_in`` count down the calls until a crash or fault; None disables it. At
    zero, the crash or fault waits for the call named by ``crash_at`` or ``fail_at``, if any.
    ``between`` runs before each call and acts as another thread. ``can_exchange`` is False for a
    file system that cannot exchange two names.
    """

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._root = _Directory()
        self._contents: list[Content] = []
        self._joint: list[tuple[_JointMove, ...]] = []
        self._life = 0
        self._is_down = False
        self.can_exchange = True
        self.crash_in: int | None = None
        self.crash_at: str | None = None
        self.fail_in: int | None = None
        self.fail_at: str | None = None
        self.between: Callable[[], None] | None = None
        self.calls: list[str] = []
        self.writes = 0
        self.faults: Counter[str] = Counter()

    # For schedules.

    def lose_power(self) -> None:
        """End the process; keep durable data and a random part of the rest."""
        for content in self._contents:
            self._count(content.lose_power(self._chance))
        self._count(self._lose_joint_moves())
        for directory in _directories(self._root):
            self._count(directory.lose_power(self._chance))
        self.end_process()

    def _lose_joint_moves(self) -> str:
        """Keep some changes of two directories, each whole or not at all; return what happened."""
        kept = 0
        joint, self._joint = self._joint, []
        for moves in joint:
            if self._chance.random() < 0.5:
                kept += 1
                for directory, source, target, node in moves:
                    _move(directory.durable, source, target, node)
        for directory in {id(each.directory): each.directory for each in chain(*joint)}.values():
            if not directory.pending:
                directory.seen = dict(directory.durable)
        return f"{kept} of {len(joint)} joint moves kept" if joint else ""

    def end_process(self) -> None:
        """End the process only: everything that it wrote is still visible."""
        for content in self._contents:
            content.reopen()
        self._life += 1
        self._is_down = False
        self.calm()
        self.between = None
        self.calls.append("--- a new process")

    def calm(self) -> None:
        """Cancel all crashes and faults."""
        self.crash_in = self.crash_at = self.fail_in = self.fail_at = None

    def content(self, path: Path) -> Content:
        """Return a file, to examine or damage it."""
        node = self._find(path)
        assert isinstance(node, Content)
        return node

    def content_names(self, directory: Path) -> list[str]:
        """Return the names in a directory. This is not a call of Storage."""
        return list(self._directory(directory).seen)

    def _count(self, fault: str) -> None:
        if fault:
            self.faults[fault] += 1
            self.calls.append(f"    {fault}")

    # Storage: reads.

    def exists(self, path: Path) -> bool:
        self._call("exists", path)
        return self._look_up(path) is not None

    def is_file(self, path: Path) -> bool:
        return isinstance(self._look_up(path), Content)

    def names(self, directory: Path) -> list[str]:
        self._call("names", directory, can_fail=UNREAD)
        return list(self._directory(directory).seen)

    def size(self, path: Path) -> int:
        self._call("size", path)
        return len(self.content(path).seen)

    def modified_ms(self, path: Path) -> int:
        self._call("modified_ms", path)
        return self.content(path).modified_ms

    def open(self, path: Path) -> BinaryIO:
        self._call("open", path, can_fail=UNREAD)
        return BytesIO(bytes(self.content(path).seen))

    def drop_cache(self, path: Path) -> None:
        self._call("drop_cache", path)
        self.content(path).drop_cache()

    # Storage: writes.

    def make_directory(self, path: Path, like: Path | None = None) -> None:
        self._change("make_directory", path, lambda: self._enter(path, _Directory()))

    def append_to(self, path: Path, like: Path | None = None) -> _FaultFile:
        if self._look_up(path) is None:
            content = Content(TIME_MS + len(self.calls))
            self._contents.append(content)
            numbers = (errno.EIO, errno.EMFILE)
            self._change("create", path, lambda: self._enter(path, content), numbers=numbers)
        else:
            self._call("append_to", path)
        return _FaultFile(self, path, self.content(path))

    def truncate(self, path: Path, size: int) -> None:
        content = self.content(path)
        self._change("truncate", path, lambda: content.truncate(size))

    def rename(self, source: Path, target: Path) -> None:
        node = self._find(source)
        directory, other = self._directory(source.parent), self._directory(target.parent)
        if directory is other:
            change = partial(directory.move, source.name, target.name, node)
        else:
            removal = _JointMove(directory, source.name, None, node)
            change = partial(
                self._move_jointly, removal, _JointMove(other, None, target.name, node)
            )
        self._change("rename", target, change)

    def exchange(self, first: Path, second: Path) -> None:
        if not self.can_exchange:
            raise OSError(errno.EINVAL, "Invalid argument", str(second))
        one = _JointMove(self._directory(first.parent), None, first.name, self._find(second))
        other = _JointMove(self._directory(second.parent), None, second.name, self._find(first))
        self._change("exchange", second, partial(self._move_jointly, one, other))

    def _move_jointly(self, *moves: _JointMove) -> None:
        for directory, source, target, node in moves:
            _move(directory.seen, source, target, node)
        self._joint.append(moves)

    def remove(self, path: Path) -> None:
        node = self._find(path)
        directory = self._directory(path.parent)
        self._change("remove", path, lambda: directory.move(path.name, None, node))

    def remove_directory(self, path: Path) -> None:
        if self._directory(path).seen:
            raise OSError(errno.ENOTEMPTY, "Directory not empty", str(path))
        node = self._find(path)
        directory = self._directory(path.parent)
        self._change("remove_directory", path, lambda: directory.move(path.name, None, node))

    def open_directory(self, directory: Path) -> _OpenDirectory:
        self._call(
            "open_directory", directory, can_fail="EMFILE on open_directory", number=errno.EMFILE
        )
        return _OpenDirectory(self, directory)

    def sync_directory(self, directory: Path) -> None:
        self._change("sync_directory", directory, lambda: self._sync(self._directory(directory)))

    def _sync(self, synced: _Directory) -> None:
        """Make the names in a directory durable, and so the other parts of changes in it."""
        for moves in [each for each in self._joint if synced in [part.directory for part in each]]:
            self._joint.remove(moves)
            for directory, source, target, node in moves:
                if directory is not synced:
                    _move(directory.durable, source, target, node)
        synced.sync()

    # For open files.

    @property
    def life(self) -> int:
        return self._life

    def append(self, path: Path, content: Content, data: bytes) -> None:
        def part() -> None:
            content.append(data[: self._chance.randrange(len(data) + 1)])

        def cut_short() -> None:
            if self._chance.random() < 0.7:  # otherwise nothing was written
                part()

        self._change(
            f"append {len(data)}", path, lambda: content.append(data),
            failing=cut_short, crashing=part, numbers=(errno.ENOSPC, errno.EIO),
        )  # fmt: skip

    def sync(self, path: Path, content: Content) -> None:
        self._change("sync", path, content.sync, failing=lambda: content.fail_to_sync(self._chance))

    def _change(
        self,
        what: str,
        path: Path,
        change: Callable[[], None],
        *,
        failing: Callable[[], None] = lambda: None,
        crashing: Callable[[], None] | None = None,
        numbers: Sequence[int] = (errno.EIO,),
    ) -> None:
        """Make one change. It may fail, and a crash may come before, during or after it."""
        number = self._chance.choice(numbers)
        fault = f"{errno.errorcode[number]} on {what.split()[0]}"
        try:
            self._call(what, path, can_fail=fault, number=number)
        except OSError:
            failing()
            raise
        except PowerFailure:
            if self._chance.random() < 0.5:
                (crashing or change)()
            raise
        self.writes += 1
        change()

    def _call(self, what: str, path: Path, *, can_fail: str = "", number: int = errno.EIO) -> None:
        """Record a call; raise if the disk or the power fails at it."""
        if self._is_down:
            raise PowerFailure
        if self.between is not None:
            self.between()
        self.calls.append(f"{what} {path.name}")
        if self.crash_in is not None:
            self.crash_in -= 1
            matches = self.crash_at in (None, what.split()[0])
            if self.crash_in <= 0 and matches:
                self._is_down = True
                self._count(f"crash in {what.split()[0]}")
                raise PowerFailure
        if self.fail_in is not None:
            self.fail_in -= 1
            matches = self.fail_at in (None, what.split()[0])
            if self.fail_in <= 0 and can_fail and matches:
                self.fail_in = self.fail_at = None
                self._count(can_fail)
                raise OSError(number, "the disk fails", str(path))

    # Paths.

    def _look_up(self, path: Path) -> _Node | None:
        node: _Node = self._root
        for part in path.parts[1:]:
            if not isinstance(node, _Directory):
                raise NotADirectoryError(errno.ENOTDIR, "Not a directory", str(path))
            if part not in node.seen:
                return None
            node = node.seen[part]
        return node

    def _find(self, path: Path) -> _Node:
        node = self._look_up(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
        return node

    def _directory(self, path: Path) -> _Directory:
        node = self._find(path)
        if not isinstance(node, _Directory):
            raise NotADirectoryError(errno.ENOTDIR, "Not a directory", str(path))
        return node

    def _enter(self, path: Path, node: _Node) -> None:
        self._directory(path.parent).move(None, path.name, node)


def _directories(directory: _Directory) -> list[_Directory]:
    """Return ``directory`` and all directories below it, outer ones first."""
    found = [directory]
    for node in (*directory.seen.values(), *directory.durable.values()):
        if isinstance(node, _Directory) and node not in found:
            found += _directories(node)
    return found


class _OpenDirectory(Directory):
    def __init__(self, disk: FaultDisk, path: Path) -> None:
        self._disk = disk
        self._path = path

    def sync(self) -> None:
        self._disk.sync_directory(self._path)

    def close(self) -> None:
        pass


class _FaultFile:
    def __init__(self, disk: FaultDisk, path: Path, content: Content) -> None:
        self._disk = disk
        self._path = path
        self._content = content
        self._life = disk.life

    def append(self, pieces: Sequence[bytes]) -> None:
        self._check_alive()
        self._disk.append(self._path, self._content, b"".join(pieces))

    def sync(self) -> None:
        self._check_alive()
        self._disk.sync(self._path, self._content)

    def close(self) -> None:
        pass

    def _check_alive(self) -> None:
        if self._life != self._disk.life:
            raise PowerFailure  # the process of this file has ended
