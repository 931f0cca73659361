"""The ListenerGate: which endpoints are open.

**Invariant:** an endpoint opens once the authorizer has started it. The built-in authorizer starts
it when the ACLs are loaded, or at once for an early start listener. An open endpoint stays open
while the daemon runs.

Source: KIP-504, Authorizer.start; KIP-801, "Early Start Listeners".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import trio

from authorizerd.actors.completion import Completion
from authorizerd.actors.errors import EndpointStartError
from authorizerd.actors.published import Published


class ListenerGate:
    """Open endpoints as the authorizer starts them.

    Args:
        started: for each endpoint, a completion that is done when the authorizer has started it.
        free: endpoints that do not depend on the authorizer.
    """

    def __init__(
        self, started: Mapping[str, Completion[None]], *, free: Collection[str] = ()
    ) -> None:
        self._started = started
        self._endpoints = frozenset((*started, *free))
        self._open: Published[frozenset[str]] = Published(frozenset(free))

    @property
    def endpoints(self) -> frozenset[str]:
        """The names of all endpoints."""
        return self._endpoints

    @property
    def is_all_open(self) -> bool:
        """True if every endpoint is open."""
        return self._open.newest == self._endpoints

    def is_open(self, endpoint: str) -> bool:
        """Return True if ``endpoint`` may accept connections."""
        return endpoint in self._open.newest

    async def wait_until_open(self, endpoint: str) -> None:
        """Return as soon as ``endpoint`` may accept connections."""
        assert endpoint in self._endpoints, endpoint
        await self._open.wait_until(lambda open_now: endpoint in open_now)

    async def wait_until_all_open(self) -> None:
        """Return as soon as every endpoint is open."""
        await self._open.wait_until(lambda open_now: open_now == self._endpoints)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Open each endpoint once the authorizer has started it, then end.

        Raises (in a group):
            EndpointStartError: an endpoint can never open.
        """
        async with trio.open_nursery() as nursery:
            for endpoint, completion in self._started.items():
                nursery.start_soon(self._open_when_started, endpoint, completion)
            task_status.started()

    async def _open_when_started(self, endpoint: str, completion: Completion[None]) -> None:
        try:
            await completion.wait()
        except Exception as error:  # a custom authorizer may choose any error
            raise EndpointStartError(f"{endpoint} cannot be opened: {error}") from error
        # Do not await between reading and publishing, or another task's endpoint could be lost.
        self._open.publish(self._open.newest | {endpoint})
