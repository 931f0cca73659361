"""Tell systemd when the daemon is loading, serving, reloading or stopping.

**Invariant:** the daemon never waits for systemd: a message that cannot be sent now is sent later
or dropped. The watchdog fires if the event loop hangs or an actor fails, because its keep-alive
task runs in the loop and is cancelled with the actors. A hanging disk does not trigger it, since
decisions need no disk.

Source: sd_notify(3), sd_watchdog_enabled(3), systemd.service(5).
"""

from __future__ import annotations

import logging
import math
import os
import re
import socket
import time
from collections import deque
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from itertools import count
from typing import Final

import trio

from authorizerd.daemon.telemetry.readiness import Readiness

STATUS_SECONDS: Final = 1.0
EXTENSION_SECONDS: Final = 180
"""While loading, each message extends the start timeout by this time: workers may take two
minutes."""
MESSAGES_MAX: Final = 16
PERIOD_SECONDS_MIN: Final = 0.01

_TIME: Final = re.compile("[1-9][0-9]{0,18}")

_logger = logging.getLogger("authorizerd")


class ServiceManager:
    """Send notifications to systemd, if ``NOTIFY_SOCKET`` is set.

    Args:
        environment: its systemd variables are removed, so that child processes do not inherit them.
    """

    def __init__(self, environment: MutableMapping[str, str]) -> None:
        self._address = _take_address(environment)
        self._socket = None if self._address is None else _open_socket()
        self._watchdog_seconds: Final = _take_watchdog_seconds(environment)
        # Bounded: if systemd never reads, the oldest messages are dropped.
        self._unsent: deque[str] = deque(maxlen=MESSAGES_MAX)
        self._readiness: Readiness | None = None
        self._status = ""
        self._phase = ""
        self._is_failing = False
        self._is_serving = False

    async def run(
        self,
        readiness: Readiness,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Send status changes, extend the start timeout while loading, and feed the watchdog.

        Return at once if ``NOTIFY_SOCKET`` is not set. Cancellation leaves nothing behind.
        """
        self._readiness = readiness
        task_status.started()
        if self._socket is None:
            return
        # Use half the period, as sd_watchdog_enabled(3) recommends.
        between = max(self._watchdog_seconds / 2, PERIOD_SECONDS_MIN)
        beats = 1 if math.isinf(between) else math.ceil(between / STATUS_SECONDS)
        for beat in count():
            self._beat(feeds=beat % beats == 0)
            await trio.sleep(min(STATUS_SECONDS, between / beats))

    def report_ready(self) -> None:
        """Report that the ACLs are loaded and every endpoint listens."""
        self._is_serving = True
        self._notify("READY=1", self._new_status())

    @contextmanager
    def reloading(self) -> Iterator[None]:
        """Report that a reload has begun, and when the block ends, that the reload has ended.

        Send nothing until the daemon is ready: systemd would take the ``READY=1`` at the end of the
        reload for the end of the start.
        """
        if not self._is_serving:
            yield
            return
        now_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._phase = "reloading"
        self._notify("RELOADING=1", f"MONOTONIC_USEC={now_us}", self._new_status())
        yield
        self._phase = ""
        self._notify("READY=1", self._new_status())

    def report_stopping(self) -> None:
        self._phase = "draining"
        self._notify("STOPPING=1", self._new_status())

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _beat(self, *, feeds: bool) -> None:
        if not self._send_unsent():
            return
        lines: list[str] = []
        if feeds and self._watchdog_seconds < math.inf:
            lines.append("WATCHDOG=1")
        if self._text() != self._status:
            lines.append(self._new_status())
        if self._readiness is not None and not self._readiness.is_loaded:
            lines.append(f"EXTEND_TIMEOUT_USEC={EXTENSION_SECONDS * 1_000_000}")
        if lines:
            self._notify(*lines)

    def _text(self) -> str:
        return self._phase or ("" if self._readiness is None else self._readiness.text)

    def _new_status(self) -> str:
        self._status = self._text()
        return f"STATUS={self._status}"

    def _notify(self, *lines: str) -> None:
        self._unsent.append("\n".join(lines))
        self._send_unsent()

    def _send_unsent(self) -> bool:
        """Send the waiting messages in order; return True if all are sent."""
        if self._socket is None or self._address is None:
            self._unsent.clear()
            return False
        while self._unsent:
            try:
                # Connect every time: a restarted systemd has a new socket at this address.
                self._socket.sendto(self._unsent[0].encode(), self._address)
            except OSError as error:
                # Warn once, not for every message until systemd answers.
                if not self._is_failing:
                    self._is_failing = True
                    _logger.warning("the service manager cannot be notified: %s", error)
                return False
            self._is_failing = False
            self._unsent.popleft()
        return True


def _take_address(environment: MutableMapping[str, str]) -> str | None:
    address = environment.pop("NOTIFY_SOCKET", "")
    if address.startswith("@"):
        # For an abstract socket, the kernel expects a leading null byte in the name.
        return "\0" + address[1:]
    if address.startswith("/"):
        return address
    if address:
        _logger.warning(
            "NOTIFY_SOCKET: %r is not a Unix socket; no notifications are sent", address
        )
    return None


def _open_socket() -> socket.socket | None:
    try:
        opened = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    except OSError as error:
        _logger.warning("the service manager cannot be notified: %s", error)
        return None
    opened.setblocking(False)  # systemd may be busy, and decisions must not wait for it
    return opened


def _take_watchdog_seconds(environment: MutableMapping[str, str]) -> float:
    """Return the watchdog's period in seconds, infinite if there is none."""
    microseconds = environment.pop("WATCHDOG_USEC", "")
    pid = environment.pop("WATCHDOG_PID", "")
    # This process must not feed another process's watchdog.
    if not microseconds or (pid and pid != str(os.getpid())):
        return math.inf
    if not _TIME.fullmatch(microseconds):
        _logger.warning("WATCHDOG_USEC: %r is not a time; the watchdog is not used", microseconds)
        return math.inf
    return int(microseconds) / 1_000_000
