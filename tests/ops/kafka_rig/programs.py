"""Scripts where Java and Maven are looked for; nothing else is on the path."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest


class Programs:
    """``calls`` has a line for each call of a program: its name and its arguments."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._directory = directory
        self._calls = directory / "calls"
        for name in ("sh", "cat", "sleep", "touch"):
            found = shutil.which(name)
            assert found is not None
            (directory / name).symlink_to(found)
        monkeypatch.setenv("PATH", str(directory))

    def write(self, name: str, script: str) -> None:
        """Put a program on the path; ``$calls`` is where it may leave traces."""
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
    """Say whether a process still does anything; one that nobody has waited for yet does not."""
    try:
        status = Path(f"/proc/{process_id}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


def has_ended(process_id: int) -> bool:
    """Say whether a process that was killed ends within reasonable time."""
    give_up = time.monotonic() + 10
    while is_running(process_id) and time.monotonic() < give_up:
        time.sleep(0.01)
    return not is_running(process_id)
