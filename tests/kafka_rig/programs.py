"""Scripts that replace Java and Maven, on a path with only a few shell tools."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest


class Programs:
    """The programs on the path. ``calls`` has a line per call: the name and the arguments."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._directory = directory
        self._path = os.environ["PATH"]
        self._calls = directory / "calls"
        for name in ("sh", "cat", "sleep", "touch"):
            self.link(name)
        monkeypatch.setenv("PATH", str(directory))

    def link(self, name: str) -> None:
        """Put one of the machine's own programs on the path."""
        found = shutil.which(name, path=self._path)
        assert found is not None
        (self._directory / name).symlink_to(found)

    def write(self, name: str, script: str) -> None:
        """Put a program on the path; it may append lines to the file ``$calls``."""
        path = self._directory / name
        path.write_text(
            f'#!{self._directory}/sh\ncalls="{self._calls}"\n'
            f'echo "{name} $*" >> "$calls"\n{script}\n'
        )
        path.chmod(0o755)

    @property
    def calls(self) -> list[str]:
        return self._calls.read_text().splitlines() if self._calls.exists() else []


def is_running(process_id: int) -> bool:
    """Return True if a process runs; a zombie does not."""
    try:
        status = Path(f"/proc/{process_id}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


def has_ended(process_id: int) -> bool:
    """Return True if a process ends within ten seconds."""
    give_up = time.monotonic() + 10
    while is_running(process_id) and time.monotonic() < give_up:
        time.sleep(0.01)
    return not is_running(process_id)
