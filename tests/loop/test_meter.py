"""Meters count the work of a stretch, independent of the machine."""

from __future__ import annotations

import gc
import hashlib
import threading
from collections.abc import Callable

import pytest
import trio

from tests.loop.meter import (
    IS_CLIENT,
    ByteMeter,
    CollectionMeter,
    LineMeter,
    Longest,
    Meter,
    SlowCallMeter,
)

COUNT = 10_000


def loop() -> None:
    for _ in range(COUNT):
        pass


def comprehend() -> None:
    assert len([len(str(number)) for number in range(COUNT)]) == COUNT


def join() -> None:
    assert b"".join([b"x" * COUNT] * 3)


def free() -> None:
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
def test_lines_count_each_round(work: Callable[[], None]) -> None:
    longest = longest_of(LineMeter(COUNT // 2), work)
    assert COUNT <= longest.amount < 4 * COUNT
    assert longest.task == "worker"


def test_same_work_has_the_same_count() -> None:
    assert len({longest_of(LineMeter(COUNT), loop).amount for _ in range(3)}) == 1


@pytest.mark.parametrize("work", [join, free])
def test_bytes_count_allocated_and_freed_memory(work: Callable[[], None]) -> None:
    assert longest_of(ByteMeter(), work).amount > 3 * COUNT


def test_containers_count_visited_objects() -> None:
    def make_and_collect() -> None:
        made: list[list[object]] = [[] for _ in range(COUNT)]
        collect()
        del made

    gc.disable()
    try:
        assert longest_of(CollectionMeter(), make_and_collect).amount >= COUNT
    finally:
        gc.enable()


def derive() -> None:
    hashlib.pbkdf2_hmac("sha256", b"password", b"salt", 1)


@pytest.mark.parametrize("calls", [0, 1, 2])
def test_slow_calls_count_on_the_loops_thread(calls: int) -> None:
    def work() -> None:
        thread = threading.Thread(target=derive)
        thread.start()
        thread.join()
        for _ in range(calls):
            derive()

    before = hashlib.pbkdf2_hmac
    assert longest_of(SlowCallMeter(), work).amount == calls
    assert hashlib.pbkdf2_hmac is before


@pytest.mark.parametrize(
    "meter", [LineMeter(COUNT), ByteMeter(), CollectionMeter(), SlowCallMeter()]
)
def test_work_of_a_client_does_not_count(meter: Meter) -> None:
    def work() -> None:
        loop()
        join()
        collect()
        derive()

    assert longest_of(meter, work, by_client=True).amount < COUNT / 2
