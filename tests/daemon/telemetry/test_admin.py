"""The admin port's handler; tests/end_to_end/test_serve.py checks its answers."""

from __future__ import annotations

import trio
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.registry import Collector

from authorizerd.daemon.telemetry.admin import AdminHandler
from authorizerd.daemon.telemetry.readiness import Readiness
from authorizerd.protocol.http.messages import Request


class NotAsked(Readiness):
    def __init__(self) -> None:
        pass


async def test_lists_of_metrics_yield_to_other_tasks() -> None:
    """Each takes a millisecond, and a peer may request hundreds at once."""
    listed = longest = 0

    class Counting(Collector):
        def collect(self) -> list[Metric]:
            nonlocal listed
            listed += 1
            return []

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Counting())
    listed = 0
    handler = AdminHandler(registry, NotAsked())
    request = Request(
        method="GET", path="/metrics", query="", headers={}, body=b"", keep_alive=True
    )
    is_done = False

    async def ask() -> None:
        nonlocal is_done
        for _ in range(20):
            await handler(request)
        is_done = True

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        while not is_done:
            before = listed
            await trio.lowlevel.checkpoint()
            longest = max(longest, listed - before)
    assert listed == 20
    assert longest <= 2  # the loop shuffles its tasks
