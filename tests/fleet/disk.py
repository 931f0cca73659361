"""A small file system that can be filled, for disk-full episodes; only root may mount it."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_BYTES: Final = 32 << 20
_FILES: Final = 2000


@dataclass(frozen=True)
class Disk:
    """A folder, on a small file system if ``is_small``; otherwise it cannot be filled."""

    folder: Path
    is_small: bool

    @contextmanager
    def full(self) -> Iterator[None]:
        """Use all space until the block ends, so that writes fail with ENOSPC."""
        filling = self.folder / "filling"
        try:
            with suppress(OSError), filling.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(4096))
            yield
        finally:
            filling.unlink(missing_ok=True)

    @contextmanager
    def without_names(self) -> Iterator[None]:
        """Leave no room for further files until the block ends. Existing ones may grow."""
        names = [self.folder / f"filling-{number}" for number in range(_FILES)]
        try:
            with suppress(OSError):
                for each in names:
                    each.touch()
            yield
        finally:
            for each in names:
                each.unlink(missing_ok=True)


@contextmanager
def small_disk(folder: Path, *, may_mount: bool = True) -> Iterator[Disk]:
    """Mount a small file system on ``folder`` until the block ends, if this process may."""
    folder.mkdir(exist_ok=True)
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
