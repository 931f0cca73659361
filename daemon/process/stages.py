"""Run services in stages: the stages start in order, and end in reverse order.

**Invariant:** a service outlives every service of a later stage. A fault in any service
cancels all stages, the last one first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import trio

Service = Callable[..., Awaitable[object]]


async def cancel(scope: trio.CancelScope) -> None:
    """End a stage by cancelling its services."""
    scope.cancel()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Services that run side by side.

    Attributes:
        name: what happens while the stage ends, such as "draining connections".
        awaited: services that must report that they have started, one after the other.
        services: services that are started without waiting.
        end: ends the services gracefully, or cancels them through the scope that it is given.
    """

    name: str
    awaited: Sequence[Service] = ()
    services: Sequence[Service] = ()
    end: Callable[[trio.CancelScope], Awaitable[None]] = cancel


async def run_stages(
    stages: Sequence[Stage],
    body: Callable[[], Awaitable[None]],
    on_end: Callable[[str], None] = lambda _: None,
) -> None:
    """Start the stages, run ``body``, then end the stages one after another.

    Args:
        on_end: called with the name of each stage that begins to end.

    Raises (in nested groups):
        The faults of the services and of ``body``.
    """
    if not stages:
        await body()
        return
    stage, *later = stages
    # Nested nurseries, not a single one: a stage must end completely before an earlier one may.
    async with trio.open_nursery() as nursery:
        for service in stage.awaited:
            await nursery.start(service)
        for service in stage.services:
            nursery.start_soon(service)
        await run_stages(later, body, on_end)
        on_end(stage.name)
        await stage.end(nursery.cancel_scope)
