"""A Storage that writes real files, records its calls, and fails on demand."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from authorizerd.metadata.storage import AppendFile, Directory, Storage

Call = tuple[str, str]
"""The name of a call, and of its file or directory."""


class PowerFailure(BaseException):
    """The simulated process has ended, so no ``except`` block may write to the disk."""


class RecordingStorage(Storage):
    """Record calls in ``calls``, in order. One call named ``failing`` fails.

    Args:
        failing: ``append``, ``sync``, ``sync_directory``, and so on; None: nothing fails.
        skip: how many calls of that name succeed before one fails.
        number: the error's errno.
        is_crash: True if the process ends at this call: it and all later calls have no effect.
    """

    def __init__(
        self,
        failing: str | None = None,
        *,
        skip: int = 0,
        number: int = errno.EIO,
        is_crash: bool = False,
    ) -> None:
        self.calls: list[Call] = []
        self.failing = failing
        self.skip = skip
        self.number = number
        self._is_crash = is_crash
        self._is_down = False
        super().__init__()
        self._disk = Storage()

    def call(self, what: str, path: Path) -> None:
        """Record a call, or fail it."""
        if self._is_down:
            raise PowerFailure
        if what == self.failing:
            if not self.skip:
                if self._is_crash:
                    self._is_down = True
                    raise PowerFailure
                self.failing = None
                raise OSError(self.number, os.strerror(self.number), str(path))
            self.skip -= 1
        self.calls.append((what, path.name))

    def named(self, *names: str) -> list[Call]:
        return [call for call in self.calls if call[0] in names]

    def exists(self, path: Path) -> bool:
        return self._disk.exists(path)

    def is_file(self, path: Path) -> bool:
        return self._disk.is_file(path)

    def drop_cache(self, path: Path) -> None:
        self.call("drop_cache", path)
        self._disk.drop_cache(path)

    def make_directory(self, path: Path, like: Path | None = None) -> None:
        self.call("make_directory", path)
        self._disk.make_directory(path, like)

    def names(self, directory: Path) -> list[str]:
        return self._disk.names(directory)

    def size(self, path: Path) -> int:
        return self._disk.size(path)

    def modified_ms(self, path: Path) -> int:
        return self._disk.modified_ms(path)

    def open(self, path: Path) -> BinaryIO:
        return self._disk.open(path)

    def append_to(self, path: Path, like: Path | None = None) -> AppendFile:
        self.call("append_to", path)
        return _RecordedFile(self, path, self._disk.append_to(path, like))

    def truncate(self, path: Path, size: int) -> None:
        self.call("truncate", path)
        self._disk.truncate(path, size)

    def rename(self, source: Path, target: Path) -> None:
        self.call("rename", target)
        self._disk.rename(source, target)

    def exchange(self, first: Path, second: Path) -> None:
        self.call("exchange", second)
        self._disk.exchange(first, second)

    def remove(self, path: Path) -> None:
        self.call("remove", path)
        self._disk.remove(path)

    def remove_directory(self, path: Path) -> None:
        self.call("remove_directory", path)
        self._disk.remove_directory(path)

    def open_directory(self, directory: Path) -> Directory:
        self.call("open_directory", directory)
        return _RecordedDirectory(self, directory)

    def sync_directory(self, directory: Path) -> None:
        self.call("sync_directory", directory)


class _RecordedDirectory(Directory):
    def __init__(self, storage: RecordingStorage, path: Path) -> None:
        self._storage = storage
        self._path = path

    def sync(self) -> None:
        self._storage.sync_directory(self._path)

    def close(self) -> None:
        pass


class _RecordedFile:
    def __init__(self, storage: RecordingStorage, path: Path, file: AppendFile) -> None:
        self._storage = storage
        self._path = path
        self._file = file

    def append(self, pieces: Sequence[bytes]) -> None:
        self._storage.call("append", self._path)
        self._file.append(pieces)

    def sync(self) -> None:
        self._storage.call("sync", self._path)

    def close(self) -> None:
        self._file.close()
