"""Work in another thread for as long as a block runs."""

from abc import ABC, abstractmethod
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from typing import Self

END_SECONDS = 60.0


class Background(ABC):
    """Run ``_run`` from the beginning of a block to its end, which raises what the work raised."""

    def __init__(self) -> None:
        self._ends = Event()
        self._threads = ThreadPoolExecutor(1)
        self._running: Future[None] | None = None

    def __enter__(self) -> Self:
        self._running = self._threads.submit(self._run)
        return self

    def __exit__(self, *error: object) -> None:
        self._ends.set()
        assert self._running is not None
        try:
            self._running.result(END_SECONDS)
        finally:
            self._threads.shutdown()

    @abstractmethod
    def _run(self) -> None:
        """Work until ``_ends`` is set."""
