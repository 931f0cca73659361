"""No stretch of the event loop is long, for any request of a super user, with 20,000 ACLs.

With ``WHOLE=1``, there are 100,000 ACLs of every shape, and every caller sends the requests.
``python -m tests.loop`` measures the same inputs in CPU time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from authorizerd.daemon.console.rendering import load_templates
from authorizerd.daemon.telemetry.build import read_build
from tests.loop.acl_sets import ACL_SETS, ACLS
from tests.loop.followers import FOLLOWED_ACLS, play_followers
from tests.loop.limits import LIMITS, limit_of
from tests.loop.meter import (
    IS_CLIENT,
    ByteMeter,
    CollectionMeter,
    LineMeter,
    Meter,
    SlowCallMeter,
    UncollectedMeter,
)
from tests.loop.players import Played
from tests.loop.running import running, write_folder
from tests.loop.stations import STATIONS, play
from tests.loop.worker import play_feed
from tests.support.sizes import IS_WHOLE, size

METERS: dict[str, Callable[[], list[Meter]]] = {
    "lines": lambda: [
        LineMeter(LIMITS["lines"]),
        CollectionMeter(),
        UncollectedMeter(),
        SlowCallMeter(),
    ],
    "bytes": lambda: [ByteMeter()],
}
COUNTED = {
    "lines": STATIONS
    if IS_WHOLE
    else STATIONS.keys() - {"prefixes", "denied hosts", "one topic", "networks"},
    "bytes": ("Kafka", "HTTP", "stream", "TLS") if IS_WHOLE else ("HTTP", "stream"),
}
"""The stations of each meter. Those without bytes have no larger requests."""


@pytest.mark.parametrize(
    ("counted", "name"),
    [(counted, name) for counted, names in COUNTED.items() for name in STATIONS if name in names],
)
def test_no_stretch_is_long(counted: str, name: str, tmp_path: Path) -> None:
    station, meters = STATIONS[name], METERS[counted]()
    if counted == "bytes" or not IS_WHOLE:  # without a right, answers are small
        station = replace(station, callers=station.callers[:1])
    write_folder(tmp_path, ACL_SETS[station.acls](size(ACLS // 5, ACLS)))

    async def run() -> list[Played]:
        return await play(station, tmp_path, meters, is_whole=False)

    assert too_long(trio.run(run, instruments=meters)) == []


def test_no_stretch_of_a_start_is_long(tmp_path: Path) -> None:
    """What takes longer is loaded before the event loop runs, and kept for the whole process."""
    write_folder(tmp_path, ())
    read_build.cache_clear()
    load_templates.cache_clear()
    meter = LineMeter(LIMITS["lines"])

    async def run() -> None:
        IS_CLIENT.set(True)
        meter.start()
        async with running(tmp_path, {"authorizerd.console": "true"}):
            meter.stop()

    trio.run(run, instruments=[meter])
    assert too_long([Played("start", 0, 0, {meter.unit: meter.longest})]) == []
    # Otherwise, the first scrape or page would load it.
    assert all(each.cache_info().currsize for each in (read_build, load_templates))


@pytest.mark.parametrize("counted", METERS if IS_WHOLE else ("lines",))
def test_no_stretch_of_a_worker_is_long(counted: str) -> None:
    """The worker gets all ACLs, then the changes of the largest requests."""
    meters = METERS[counted]()

    async def run() -> list[Played]:
        return await play_feed(meters)

    assert too_long(trio.run(run, instruments=meters)) == []


def test_no_stretch_of_a_follower_is_long(tmp_path: Path) -> None:
    """It gets batches, snapshots and listings, and compares them with its state.

    Few of the ACLs of ``python -m tests.loop`` are enough: all work is done in steps. The second
    snapshot must be later than the changes before it, so there must be more ACLs than changes.
    """
    meters = METERS["lines"]()

    async def run() -> list[Played]:
        return await play_followers(tmp_path, meters, FOLLOWED_ACLS // size(20, 10))

    assert too_long(trio.run(run, instruments=meters)) == []


def too_long(played: Sequence[Played]) -> list[str]:
    """Return the stretches that exceed their limit, and their places."""
    assert played
    return [
        f"{each.input}: {longest.amount:.0f} {unit} in {longest.task} {longest.where}"
        for each in played
        for unit, longest in each.longest.items()
        if longest.amount > limit_of(each.input, unit)
    ]
