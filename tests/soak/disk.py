"""A small file system that can be filled, for disk-full episodes; only root may mount it."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_BYTES: Final = 32 << 20
_FILES: Final = 2000
_PIECE: Final = bytes(1 << 16)


class Disk:
    """A folder, on a small file system if ``is_small``.

    Attributes:
        folder: where others put their files.
        is_small: False if it cannot be filled.
    """

    def __init__(self, folder: Path, *, is_small: bool) -> None:
        self.folder = folder
        self.is_small = is_small
        self._filling = folder / "filling"

    def fill(self) -> None:
        """Use all space, so that writes fail with ENOSPC."""
        with _until_full(), self._filling.open("wb", buffering=0) as file:
            while True:
                if file.write(_PIECE) < len(_PIECE):
                    file.write(b"\0" * 4096)

    def use_up_names(self) -> None:
        """Leave no room for further files; writes to the existing ones go on."""
        with _until_full():
            self._filling.mkdir()
            for number in range(_FILES):
                (self._filling / str(number)).touch()

    def clear(self) -> None:
        """Give back the space and the names."""
        if self._filling.is_dir():
            for each in self._filling.iterdir():
                each.unlink()
            self._filling.rmdir()
        self._filling.unlink(missing_ok=True)


@contextmanager
def _until_full() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise


@contextmanager
def small_disk(folder: Path, *, may_mount: bool = True) -> Iterator[Disk]:
    """Mount a small file system on ``folder`` until the block ends, if this process may."""
    folder.mkdir()
    if not may_mount or os.geteuid() or not _mount(folder):
        yield Disk(folder, is_small=False)
        return
    try:
        yield Disk(folder, is_small=True)
    finally:
        # Lazily, because a process that is ending may still have a file open.
        subprocess.run(["umount", "--lazy", folder], check=True)


def _mount(folder: Path) -> bool:
    options = f"size={_BYTES},nr_inodes={_FILES},mode=0750"
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    return not subprocess.run(command, check=False, capture_output=True).returncode
