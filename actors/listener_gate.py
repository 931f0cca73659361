"""The ListenerGate: which endpoints are open.

Invariant: an endpoint that may start early is open from the beginning; every other one opens when
the ACLs are loaded, and none ever closes again while the daemon runs.

Source: KIP-801, "Early Start Listeners"; KIP-504, Authorizer.start.
"""

from __future__ import annotations

from collections.abc import Collection

import trio

from acl.snapshot import AclSnapshot
from actors.published import Published, View


class ListenerGate:
    def __init__(
        self,
        endpoints: Collection[str],
        *,
        early: Collection[str],
        snapshot: View[AclSnapshot | None],
    ) -> None:
        assert set(early) <= set(endpoints), "only what exists can start early"
        self._endpoints = frozenset(endpoints)
        self._snapshot = snapshot
        self._open: Published[frozenset[str]] = Published(frozenset(early))

    @property
    def endpoints(self) -> frozenset[str]:
        return self._endpoints

    def is_open(self, endpoint: str) -> bool:
        return endpoint in self._open.newest

    async def wait_until_open(self, endpoint: str) -> None:
        """Return as soon as ``endpoint`` may be accepted from."""
        assert endpoint in self._endpoints, endpoint
        await self._open.wait_until(lambda open_now: endpoint in open_now)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Open what waits once the snapshot is loaded, then end."""
        task_status.started()
        await self._snapshot.wait_until(lambda snapshot: snapshot is not None)
        self._open.publish(self._endpoints)
