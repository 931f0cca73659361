"""Handle signals while the daemon runs: SIGHUP reloads its settings, SIGTERM and SIGINT end it."""

from __future__ import annotations

import logging
import signal
from collections.abc import AsyncIterator
from typing import Final

import trio

from authorizerd.daemon.settings import Settings
from authorizerd.daemon.telemetry.systemd import ServiceManager
from authorizerd.daemon.workers.pool import WorkerPool

RELOAD_SECONDS_MAX: Final = 30.0
"""Time limit of a reload: a file may be a pipe without a writer, or on a mount that hangs."""
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

_logger = logging.getLogger("authorizerd")


class SignalHandler:
    """Wait for signals: reload the settings or return, depending on the signal.

    Args:
        workers: None if the daemon makes all decisions itself.
    """

    def __init__(
        self, settings: Settings, service_manager: ServiceManager, workers: WorkerPool | None
    ) -> None:
        self._settings = settings
        self._service_manager = service_manager
        self._workers = workers
        self._reload_asked = trio.Event()

    async def run(self, signals: AsyncIterator[int]) -> None:
        """Reload at SIGHUP; return at SIGTERM or SIGINT, even while a reload hangs."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._reload_when_asked)
            async for number in signals:
                if number != signal.SIGHUP:
                    _logger.info("%s: draining", signal.Signals(number).name)
                    break
                self._reload_asked.set()
            nursery.cancel_scope.cancel()

    async def _reload_when_asked(self) -> None:
        """Reload; signals that arrive during a reload cause one more reload in total."""
        while True:
            await self._reload_asked.wait()
            self._reload_asked = trio.Event()
            _logger.info("SIGHUP: reloading")
            with self._service_manager.reloading():
                await self._reload()

    async def _reload(self) -> None:
        with trio.move_on_after(RELOAD_SECONDS_MAX) as reading:
            await self._settings.reload()
        if reading.cancelled_caught:
            self._settings.refuse_reload(
                f"reading its files took more than {RELOAD_SECONDS_MAX:g} s"
            )
        # A rejected reload has sent nothing to the workers.
        if self._workers is not None and not self._settings.reloads.failing:
            await self._workers.applied_everywhere()
            _logger.info("every worker has the settings in force")
