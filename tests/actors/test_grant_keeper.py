"""Many keepers of grants in one cluster, by random schedules: crashes, clocks, leaders, people."""

import random
from collections import Counter
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
import trio
from trio._core import _run as scheduler
from trio.testing import MockClock

from authorizerd.acl.listing import derive_id
from authorizerd.acl.model import Acl, AclAdded, AclRemoved
from authorizerd.acl.snapshot import EMPTY_SNAPSHOT, AclSnapshot, apply_changes, at_offset
from authorizerd.actors import steps
from authorizerd.actors.grant_keeper import GrantAccess, GrantKeeper
from authorizerd.actors.published import Published
from authorizerd.daemon.sources.cluster_grants import ClusterGrants, FollowedGrants
from authorizerd.kafka_client.address import Address
from tests.support.grant_world import (
    BOUND_SECONDS,
    DELAY_SECONDS_MAX,
    LAG_SECONDS_MAX,
    RACE_SECONDS,
    Finding,
    Keeper,
    Node,
    People,
    World,
)
from tests.support.sizes import size

SCHEDULES = size(10, 10_000)
POLL_SECONDS = 5.0
HOUR_MS = 3_600_000
OFFSETS_MS = [0, 0, 2_000, -2_000, 30_000, -30_000, HOUR_MS, -HOUR_MS]


class Process(Keeper):
    """A keeper that starts again after each crash."""

    async def run(self) -> None:
        while True:
            with trio.CancelScope() as self.scope:
                async with trio.open_nursery() as nursery:
                    access = self.new_access(nursery)
                    keeper = GrantKeeper(access, self.own_ms, trio.current_time)
                    await keeper.run()
            await trio.sleep(self.world.random.uniform(0, 20))

    def new_access(self, nursery: trio.Nursery) -> GrantAccess:
        raise NotImplementedError


class Sync(Process):
    """Knows nothing but what it lists, through a broker that may change."""

    def new_access(self, nursery: trio.Nursery) -> GrantAccess:
        node = self.new_node()

        async def request(call):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202 - as Request
            nonlocal node
            if self.world.random.random() < 0.1:
                node = self.new_node()
            return await node.request(call, 0)

        return ClusterGrants(request, lambda: node, trio.current_time)

    def new_node(self) -> Node:
        return Node(self, ADDRESS, self.world.random.uniform(0, LAG_SECONDS_MAX))


ADDRESS = Address("controller", 9093)


class Follower(Process):
    """A daemon: its snapshot is late, and it may wait until it has caught up.

    ``knows_ids`` is False if it lists the ACLs of a broker every five seconds.
    """

    def new_access(self, nursery: trio.Nursery) -> GrantAccess:
        self.snapshots: Published[AclSnapshot | None] = Published(None)
        nursery.start_soon(self._follow)
        opened: Any = self._open
        return FollowedGrants(
            self.snapshots, self, opened, knows_ids=self.knows_ids, clock=trio.current_time
        )

    @property
    def address(self) -> Address | None:
        return None if self.knows_ids and self.world.leader is None else ADDRESS

    def report_lost(self, address: Address) -> None:
        pass

    async def confirm(
        self, created: object, deleted: object, *, acknowledged_by: object = None
    ) -> bool:
        while self.world.leader is None:  # noqa: ASYNC110 - an election has no event
            await trio.sleep(0.1)
        await trio.sleep(self.world.random.uniform(0, DELAY_SECONDS_MAX))
        offset = len(self.world.changes)
        await self.snapshots.wait_until(
            lambda newest: newest is not None and newest.offset >= offset
        )
        return True

    async def _open(self, host: str, port: int) -> Node:
        await trio.lowlevel.checkpoint()
        lag = 0.0 if self.knows_ids else self.world.random.uniform(0, LAG_SECONDS_MAX)
        return Node(self, Address(host, port), lag)

    async def _follow(self) -> None:
        snapshot, shown = EMPTY_SNAPSHOT, dict[Acl, bytes]()
        while True:
            changed, offset = self.world.changed, len(self.world.changes)
            state = self.world.changes[-1][1]
            await trio.sleep(self.world.random.uniform(0, LAG_SECONDS_MAX))
            if not self.knows_ids:
                state = {each: derive_id(each) for each in state}
            for each, acl_id in shown.items():
                if state.get(each) != acl_id:
                    snapshot = apply_changes(snapshot, [AclRemoved(acl_id)])
            for each, acl_id in state.items():
                if shown.get(each) != acl_id:
                    snapshot = apply_changes(snapshot, [AclAdded(acl_id, each)])
            shown = state
            snapshot = at_offset(snapshot, offset)
            self.snapshots.publish(snapshot)
            if self.knows_ids:
                await changed.wait()
            else:
                await trio.sleep(POLL_SECONDS)


def new_processes(world: World) -> list[Process]:
    chosen = world.random.choices(["quorum", "brokers", "sync"], k=world.random.randint(1, 4))
    return [
        Sync(f"sync {place}", world, knows_ids=False)
        if kind == "sync"
        else Follower(f"{kind} {place}", world, knows_ids=kind == "quorum")
        for place, kind in enumerate(chosen)
    ]


async def disturb(world: World, processes: list[Process]) -> None:
    """Let one thing go wrong: a crash, another leader, or a clock that is set."""
    chance, process = world.random, world.random.choice(processes)
    offset = chance.choice(OFFSETS_MS)
    match chance.randrange(4):
        case 0:
            process.scope.cancel()
        case 1:
            world.leader = None
            world.note_trouble()
            await trio.sleep(chance.uniform(0, 8))
            world.leader = chance.randrange(3)
        case 2:
            world.offsets_ms[chance.randrange(3)] = offset
        case 3:
            process.own_offset_ms = offset
    world.note_trouble()


async def run_schedule(seed: int) -> World:
    """Run one schedule to its end: after the plan, everything works, and all grants must end."""
    world = World(seed)
    processes = new_processes(world)
    people = People(world)
    if world.random.random() < 0.3:  # long enough to believe a wrong clock
        world.plan_seconds, world.offsets_ms = 120.0, [0, *world.random.choices(OFFSETS_MS, k=2)]
        world.leader = world.random.randrange(3)
        world.note_trouble()
    calm = random.Random(seed).choice([0.0, 0.0, 5.0, 20.0])  # seconds between two troubles
    async with trio.open_nursery() as nursery:
        for process in processes:
            nursery.start_soon(process.run)
        with trio.move_on_after(world.plan_seconds):
            async with trio.open_nursery() as acting:
                acting.start_soon(repeat, people.act, world, 1.5)
                if calm:
                    acting.start_soon(repeat, lambda: disturb(world, processes), world, calm)
                else:
                    world.is_quiet = True
                await trio.sleep_forever()
        world.leader, world.offsets_ms, world.is_quiet = 0, [0, 0, 0], True
        for process in processes:
            process.own_offset_ms = 0
        world.note_trouble()
        await trio.sleep(RACE_SECONDS)  # for commands that are not finished
        with trio.move_on_at(max(world.last_end_s, trio.current_time()) + BOUND_SECONDS):
            while world.has_grants:  # noqa: ASYNC110 - any change may be the last one
                await trio.sleep(1)
        nursery.cancel_scope.cancel()
    if world.has_grants:
        world.findings.append(Finding("never", "a grant has not ended"))
    return world


async def repeat(act, world: World, seconds: float) -> None:  # type: ignore[no-untyped-def] # noqa: ANN001
    while True:
        await trio.sleep(world.random.expovariate(1 / seconds))
        await act()


def run_seed(seed: int) -> World:
    """Run a schedule, always in the same way: trio itself orders tasks at random."""
    with (
        patch.object(scheduler, "_ALLOW_DETERMINISTIC_SCHEDULING", True),
        patch.object(scheduler, "_r", random.Random(seed)),
        patch.object(steps, "time", SimpleNamespace(perf_counter=lambda: 0.0)),
    ):
        return trio.run(run_schedule, seed, clock=MockClock(autojump_threshold=0))


def run_all(seeds: range) -> tuple[Counter[str], list[float], list[str]]:
    """Return the races, how late grants ended, and what was wrong."""
    races: Counter[str] = Counter()
    late: list[float] = []
    wrong: list[str] = []
    for seed in seeds:
        world = run_seed(seed)
        races += world.races
        late += world.ended
        wrong += [f"seed {seed}: {each.what} {each.text}" for each in world.findings]
        wrong += [f"seed {seed}: {each:.1f} s late" for each in world.ended if each > BOUND_SECONDS]
    return races, late, wrong


@pytest.mark.parametrize("first", range(0, SCHEDULES, max(SCHEDULES // 10, 10)))
def test_no_keeper_ends_a_grant_early_or_late_or_an_acl_that_is_not_its_own(first: int) -> None:
    races, late, wrong = run_all(range(first, first + max(SCHEDULES // 10, 10)))
    assert not wrong, (wrong, races)
    assert late
