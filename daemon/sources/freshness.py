"""Stop decisions when the state of a followed cluster is too old, or cannot be trusted.

**Invariant:** once decisions have stopped because contact was lost, they resume only after the
source has confirmed the state, by an answer that is not too old itself. After a fault, they never
resume.
"""

from __future__ import annotations

import logging
from typing import Final

import trio

from authorizerd.actors.record_applier import STOPPED, Message, Resume, Suspend
from authorizerd.daemon.sources.status import SourceStatus

STALE: Final = "the ACLs are stale: contact with the followed cluster is lost"

_logger = logging.getLogger(__name__)


class Freshness:
    """Watch the age of the last contact.

    Args:
        applier: a channel of its own to the applier, in which it may wait.
        stale_max_ms: how long decisions continue after the last contact. Before the first contact,
            the time counts from the start of ``run``.
    """

    def __init__(
        self,
        applier: trio.MemorySendChannel[Message],
        status: SourceStatus,
        *,
        stale_max_ms: int,
    ) -> None:
        self._applier = applier
        self._status = status
        self._stale_max_s = stale_max_ms / 1000
        self._confirmed = trio.Event()
        # A Suspend that still waits for its turn must not be overtaken by the Resume after it.
        self._sending = trio.Lock()

    async def run(self) -> None:
        """Stop decisions whenever the last contact is too old; never return."""
        started = trio.current_time()
        while True:
            contact = self._status.contact_time
            deadline = (started if contact is None else contact) + self._stale_max_s
            if trio.current_time() < deadline:
                await trio.sleep_until(deadline)
                continue
            async with self._sending:
                # It may have been confirmed while this task waited for its turn.
                if contact == self._status.contact_time:
                    self._confirmed = trio.Event()
                    self._status.is_stale = True
                    _logger.error(
                        "no contact with the cluster for %.0f s: decisions stop until it returns",
                        self._stale_max_s,
                    )
                    await self._applier.send(Suspend(STOPPED if self._status.fault else STALE))
            await self._confirmed.wait()

    async def confirm(self, as_of: float) -> bool:
        """Note that everything passed on so far was the cluster's complete state.

        Args:
            as_of: trio's time at which it was. It may be long ago, if the answer was read late or
                the disk was slow.

        Returns: False if that is too long ago to decide by. Nothing has changed then.
        """
        async with self._sending:
            if trio.current_time() >= as_of + self._stale_max_s:
                return False
            self._status.contact_time = as_of
            self._status.last_error = ""
            self._confirmed.set()
            if self._status.is_stale:
                self._status.is_stale = False
                _logger.warning("contact with the cluster is back")
                if not self._status.fault:
                    await self._applier.send(Resume())
        return True

    async def stop(self, reason: str, offset: int = -1) -> None:
        """Stop decisions until an operator acts and the daemon is restarted."""
        async with self._sending:
            if not self._status.fault:
                _logger.error("decisions stop: %s", reason)
            self._status.fail(reason, offset)
            await self._applier.send(Suspend(STOPPED))
