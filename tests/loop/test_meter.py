"""Meters count what makes a stretch long, whatever the machine."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest
import trio

from tests.loop.meter import IS_CLIENT, ByteMeter, CollectionMeter, LineMeter, Longest, Meter

COUNT = 10_000


def loop() -> None:
    for _ in range(COUNT):
        pass


def comprehend() -> None:
    assert len([len(str(number)) for number in range(COUNT)]) == COUNT


def join() -> None:
    assert b"".join([b"x" * COUNT] * 3)


def let_go() -> None:
    HELD.clear()


def collect() -> None:
    gc.collect()


HELD: list[bytes] = []


def longest_of(meter: Meter, work: Callable[[], object], *, by_client: bool = False) -> Longest:
    async def run() -> None:
        async def worker() -> None:
            IS_CLIENT.set(by_client)
            await trio.lowlevel.checkpoint()
            work()
            await trio.lowlevel.checkpoint()

        IS_CLIENT.set(True)
        meter.start()
        HELD[:] = [b"%d" % number for number in range(COUNT)]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(worker)
        meter.stop()

    trio.run(run, instruments=[meter])
    return meter.longest


@pytest.mark.parametrize("work", [loop, comprehend])
def test_lines_count_each_time_round(work: Callable[[], None]) -> None:
    longest = longest_of(LineMeter(COUNT // 2), work)
    assert COUNT <= longest.amount < 4 * COUNT
    assert longest.task == "worker"


def test_the_same_work_counts_the_same() -> None:
    assert len({longest_of(LineMeter(COUNT), loop).amount for _ in range(3)}) == 1


@pytest.mark.parametrize("work", [join, let_go])
def test_bytes_count_what_is_made_and_what_is_freed(work: Callable[[], None]) -> None:
    assert longest_of(ByteMeter(), work).amount > 3 * COUNT


def test_containers_count_what_is_collected() -> None:
    def make_and_collect() -> None:
        made: list[list[object]] = [[] for _ in range(COUNT)]
        collect()
        del made

    gc.disable()
    try:
        assert longest_of(CollectionMeter(), make_and_collect).amount >= COUNT
    finally:
        gc.enable()


@pytest.mark.parametrize("meter", [LineMeter(COUNT), ByteMeter(), CollectionMeter()])
def test_what_a_client_does_does_not_count(meter: Meter) -> None:
    def work() -> None:
        loop()
        join()
        collect()

    assert longest_of(meter, work, by_client=True).amount < COUNT / 2
