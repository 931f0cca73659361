"""Limit how long a followed cluster's state may be used for decisions.

**Invariant:** each state has a deadline. Only an answer of the cluster extends it, counted from the
time at which the answer was true. Each reader of the state checks the clock, so no timer needs to
be exact. After a fault, decisions never resume.
"""

from __future__ import annotations

import logging

import trio

from authorizerd.actors.published_state import STOPPED
from authorizerd.actors.record_applier import Message, Renew, Suspend
from authorizerd.daemon.sources.status import SourceStatus

_logger = logging.getLogger(__name__)


class Freshness:
    """Set the deadline of the state.

    Args:
        applier: a separate channel to the applier, on which it may block.
        status: its clock gives all times.
        stale_max_ms: how long decisions continue after the last contact. Before the first contact,
            the time counts from ``begin``.
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
        status.stale_max_s = stale_max_ms / 1000

    async def begin(self, *, decides: bool) -> None:
        """Start counting the time.

        Args:
            decides: True if the state may decide before the first contact.
        """
        deadline = self._status.deadline = self._status.clock() + self._status.stale_max_s
        if decides:
            await self._applier.send(Renew(deadline))

    async def confirm(self, as_of: float) -> bool:
        """Note that everything passed on so far was the cluster's complete state.

        Args:
            as_of: the clock's time when this was true, which may be long ago if the answer was read
                late or the disk was slow.

        Returns: False, without any effect, if that is too long ago for decisions.
        """
        status, deadline = self._status, as_of + self._status.stale_max_s
        if status.clock() >= deadline:
            return False
        status.contact_time, status.deadline = as_of, deadline
        status.last_error = ""
        # The applier handles this after everything that was passed on before.
        await self._applier.send(Renew(deadline))
        return True

    async def stop(self, reason: str, offset: int = -1) -> None:
        """Stop decisions until an operator acts and the daemon is restarted."""
        if not self._status.fault:
            _logger.error("decisions stop: %s", reason)
        self._status.fail(reason, offset)
        await self._applier.send(Suspend(STOPPED))
