"""Faults of the disk and of the clock, by a library that is preloaded into the daemon.

The library reads the numbers in a shared file at each call, so faults begin and end while the
processes run.
"""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).with_name("shim.c")
_NUMBERS: Final = ("clock_step_ns", "write_errno", "sync_errno", "read_errno", "delay_us", "failed")
"""In the order of shim.c; ``failed`` counts calls."""
_NUMBER: Final = struct.Struct("=q")


class Shim:
    """The library, and the file that controls it.

    Args:
        folder: for the library and the file.
        directory: only files in ``log`` below it have faults.
    """

    def __init__(self, folder: Path, directory: Path) -> None:
        library = folder / "shim.so"
        control = folder / "shim.control"
        command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"]
        subprocess.run(command, check=True)
        control.write_bytes(bytes(_NUMBER.size * len(_NUMBERS)))
        with control.open("r+b") as file:
            self._numbers = mmap.mmap(file.fileno(), 0)
        self.environment: Mapping[str, str] = {
            "LD_PRELOAD": str(library),
            "CHAOS_CONTROL": str(control),
            "CHAOS_DIRECTORY": str(directory.resolve() / "log"),
        }

    @property
    def failed(self) -> int:
        """How many calls have failed so far."""
        [value] = _NUMBER.unpack_from(self._numbers, _NUMBER.size * _NUMBERS.index("failed"))
        return int(value)

    @contextmanager
    def having(self, name: str, value: int) -> Iterator[None]:
        """Have one fault until the block ends."""
        place = _NUMBER.size * _NUMBERS.index(name)
        _NUMBER.pack_into(self._numbers, place, value)
        try:
            yield
        finally:
            _NUMBER.pack_into(self._numbers, place, 0)


def find_compiler() -> bool:
    """Return whether this machine can build the library."""
    return shutil.which("cc") is not None
