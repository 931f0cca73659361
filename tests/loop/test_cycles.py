"""No request leaves a cycle of objects, which the daemon would freeze and never free."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import patch

import pytest
import trio

from authorizerd.daemon import lifespan
from tests.loop.acl_sets import ACL_SETS
from tests.loop.meter import Longest, Meter
from tests.loop.players import Played
from tests.loop.running import write_folder
from tests.loop.stations import STATIONS, play

FEW_ACLS = 2000
ROOMS = ("Kafka", "HTTP", "stream", "console", "before loading")
"""Stations with all kinds of requests; the others differ in their ACLs."""


class CycleMeter(Meter):
    """Count the objects that only a collection frees."""

    unit = "objects in cycles"

    def start(self) -> None:
        super().start()
        gc.collect()
        gc.freeze()
        gc.set_debug(gc.DEBUG_SAVEALL)

    def stop(self) -> None:
        gc.collect()
        gc.set_debug(0)
        kinds = Counter(type(each).__qualname__ for each in gc.garbage)
        self.longest = Longest(len(gc.garbage), where=str(kinds.most_common(5)))
        gc.garbage.clear()


@pytest.fixture(autouse=True, scope="module")
def _thawed() -> Iterator[None]:
    """Collect what the tests have frozen, and freeze the collected tests again."""
    yield
    gc.unfreeze()
    gc.collect()
    gc.freeze()


@pytest.mark.parametrize("name", ROOMS)
def test_no_request_leaves_a_cycle(name: str, tmp_path: Path) -> None:
    """The first of two equal requests may: it fills caches."""
    station = STATIONS[name]
    write_folder(tmp_path, ACL_SETS[station.acls](FEW_ACLS))

    async def run() -> list[Played]:
        return await play(station, tmp_path, [CycleMeter()], is_whole=False, repeats=2)

    with patch.object(lifespan, "automatic_collection_off", nullcontext):
        played = trio.run(run)
    left = {each.input: each.longest[CycleMeter.unit] for each in played}
    assert {name: each.where for name, each in left.items() if each.amount} == {}
