"""Read a log all the time, because the daemon removes its old files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Final, Self

from tests.fleet.log_reader import LogBatch, LogReader

_SECONDS: Final = 0.2


class Tail:
    """All batches that the log in ``folder`` has had, as far as they were not lost again."""

    def __init__(self, folder: Path) -> None:
        self._reader = LogReader(folder)
        self._lost: list[LogBatch] = []
        self._lock = Lock()
        self._ends = Event()
        self._error: Exception | None = None
        self._thread = Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ends.set()
        self._thread.join()

    def read(self) -> tuple[Sequence[LogBatch], Sequence[LogBatch]]:
        """Return all batches that are in the log now, and those that were lost since last time.

        Raises:
            UnreadableLogError: see ``LogReader.read``.
        """
        with self._lock:
            if self._error is not None:
                raise self._error
            self._lost += self._reader.read()
            lost, self._lost = self._lost, []
            return [*self._reader.batches], lost

    def _run(self) -> None:
        while self._error is None and not self._ends.wait(_SECONDS):
            with self._lock:
                try:
                    self._lost += self._reader.read()
                except Exception as error:  # noqa: BLE001 - ``read`` raises it
                    self._error = error
