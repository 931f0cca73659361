"""The collector runs only when called, and never scans frozen objects again."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
import trio
import trio.testing

from authorizerd.daemon.gc_control import (
    COLLECT_SECONDS,
    CONTAINERS_MIN,
    Collector,
    automatic_collection_off,
)


@pytest.fixture(autouse=True)
def _thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


def make_cycles() -> None:
    for _ in range(CONTAINERS_MIN):
        cycle: list[object] = []
        cycle.append(cycle)


def is_looked_at(container: object) -> bool:
    return any(each is container for each in gc.get_objects())


def test_the_collector_does_not_run_by_itself() -> None:
    """Automatic collections stay off until the block ends."""
    with automatic_collection_off():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_what_was_settled_is_not_looked_at_again() -> None:
    """The cost of a collection depends on what is new, not on the number of ACLs."""
    collector = Collector()
    loaded: list[object] = []
    assert is_looked_at(loaded)
    collector.collect_garbage()
    assert not is_looked_at(loaded)
    changed: list[object] = []
    collector.collect_garbage()
    assert not is_looked_at(changed)


def test_cycles_are_collected_before_what_is_new_is_frozen() -> None:
    """Garbage that is frozen would never be freed."""
    collector = Collector()
    collector.collect_garbage()
    with automatic_collection_off():
        frozen = gc.get_freeze_count()
        make_cycles()
        collector.collect_garbage()
        assert gc.get_freeze_count() - frozen < CONTAINERS_MIN / 2


async def test_cycles_are_collected_though_nothing_changes(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A collection runs every 50 ms if there is enough to collect."""
    collector = Collector()
    collector.collect_garbage()
    with automatic_collection_off():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(collector.run)
            make_cycles()
            assert gc.get_count()[0] >= CONTAINERS_MIN
            await trio.sleep(2 * COLLECT_SECONDS)
            assert gc.get_count()[0] < CONTAINERS_MIN
            nursery.cancel_scope.cancel()
