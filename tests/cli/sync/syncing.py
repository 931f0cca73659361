"""``authorizerd sync`` as a process."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.daemon_process import SECONDS_MAX, ask_at, wait_until
from tests.support.forked_command import StartedCommand, start_command


class Syncing:
    """A running ``authorizerd sync``, which writes its lines to a file."""

    def __init__(self, process: StartedCommand, log: Path) -> None:
        self.process = process
        self._log = log
        self._read = 0
        self.address = self.read_line()["metrics"].split("/")[2]

    def list_lines(self) -> list[dict[str, Any]]:
        lines = [line for line in self._log.read_text().splitlines(keepends=True) if "\n" in line]
        assert all(line[:-1].isprintable() for line in lines)
        return [json.loads(line) for line in lines]

    def read_line(self) -> dict[str, Any]:
        """Return the next line, once there is one."""
        wait_until(lambda: len(self.list_lines()) > self._read, "a line is written")
        self._read += 1
        return self.list_lines()[self._read - 1]

    def scrape(self) -> str:
        return ask_at(self.address, "GET", "/metrics").body.decode()

    def read_metric(self, name: str) -> float:
        text = self.scrape()
        (value,) = (
            line.split()[-1]
            for line in text.splitlines()
            if line.startswith(f"authorizerd_sync_{name} ")
        )
        return float(value)

    def check_health(self) -> tuple[int, str]:
        answer = ask_at(self.address, "GET", "/health")
        return answer.status, answer.body.decode()

    def wait_until_in_step(self, seconds_max: float = SECONDS_MAX) -> None:
        wait_until(lambda: self.check_health()[0] == 200, "the ACLs are as desired", seconds_max)

    def wait_until_blocked(self, reason: str, seconds_max: float = SECONDS_MAX) -> None:
        metric = f'blocked{{reason="{reason}"}}'
        wait_until(lambda: self.read_metric(metric) == 1, reason, seconds_max)


@contextmanager
def syncing(
    folder: Path, words: Sequence[str | Path], *, interval: str = "1s"
) -> Iterator[Syncing]:
    log = folder / f"sync-{time.monotonic_ns()}.log"
    with log.open("w") as out:
        fixed = ["--interval", interval, "--listen", "127.0.0.1:0"]
        process = start_command([*words, *fixed], stdout=out)
    try:
        yield Syncing(process, log)
    finally:
        process.kill()
        process.wait()
