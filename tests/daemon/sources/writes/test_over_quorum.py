"""Changes through a real source over a quorum whose leaders change, die and cut connections.

What is acknowledged is visible at once and never lost. What is refused never happens. No change
happens twice, and none happens that nobody asked for.
"""

from collections import Counter
from pathlib import Path
from random import Random

import pytest
import trio

from authorizerd.acl.model import Acl, AclAdded, AclFilter, AclRemoved
from authorizerd.actors.errors import RejectedUpdateError, UpdateRefusedError
from authorizerd.config.follow.settings import FollowSettings, SourceKind, Writes
from authorizerd.daemon.sources.nodes import NodeOpener
from authorizerd.daemon.sources.writes.forwarded import ForwardedUpdates, new_updates
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.daemon.sources.quorum.following import SECONDS_MAX, Following
from tests.daemon.sources.writes.acl_cluster import ALICE, CALLER, results
from tests.support.acls import acl
from tests.support.scripted_quorum import Fault, ScriptedQuorum

CLIENTS = 5
EVENTS = 14
CHANGES = (ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS, ApiKey.ENVELOPE)


class Daemon:
    """A source and its updates. ``everywhere`` counts the waits for workers."""

    def __init__(self, quorum: ScriptedQuorum, folder: Path, writes: Writes) -> None:
        self.following = Following(quorum, folder)
        settings = FollowSettings(
            kind=SourceKind.QUORUM,
            servers=(),
            writes=writes,
            writes_forward_principals=frozenset({ALICE}),
            write_timeout_ms=500,
        )
        self.everywhere = 0
        updates = new_updates(
            settings,
            destination=self.following.source,
            open_node=NodeOpener(settings, quorum.connect).open,
            snapshot=self.following.applier.snapshot,
            journal=self.following.applier.journal,
            is_super_user=lambda _: False,
            may_alter=lambda _: True,
            requests_max=100,
            timeout_ms=lambda: 3000,
            applied_everywhere=self._applied_everywhere,
        )
        assert isinstance(updates, ForwardedUpdates)
        self.updates = updates

    async def _applied_everywhere(self) -> None:
        self.everywhere += 1

    async def start(self, nursery: trio.Nursery) -> None:
        nursery.start_soon(self.following.run)
        await nursery.start(self.updates.run)

    @property
    def acls(self) -> set[Acl]:
        newest = self.following.applier.snapshot.newest
        return set() if newest is None else set(newest.acls.values())


class Ledger:
    """What clients were told: the outcome of each change, by its ACL."""

    def __init__(self) -> None:
        self.created: set[Acl] = set()
        self.deleted: set[Acl] = set()
        self.undeleted: set[Acl] = set()
        self.refused: set[Acl] = set()
        self.tried_to_delete: set[Acl] = set()
        self.counts: Counter[str] = Counter()

    async def create(self, daemon: Daemon, wanted: Acl) -> None:
        (error,) = await results(daemon.updates.create([wanted], CALLER))
        self._count("create", error)
        if error is None:
            assert wanted in daemon.acls
            self.created.add(wanted)
        elif isinstance(error, UpdateRefusedError):
            self.refused.add(wanted)

    async def delete(self, daemon: Daemon, unwanted: Acl) -> None:
        self.tried_to_delete.add(unwanted)
        exactly = AclFilter(resource_name=unwanted.resource_name)
        (result,) = await results(daemon.updates.delete([exactly], CALLER))
        if isinstance(result, Exception):
            self._count("delete", result)
            if isinstance(result, UpdateRefusedError):
                self.undeleted.add(unwanted)
            return
        self.counts["delete None"] += 1
        assert result.acls == (unwanted,)
        assert unwanted not in daemon.acls
        self.deleted.add(unwanted)

    def _count(self, what: str, error: Exception | None) -> None:
        if isinstance(error, RejectedUpdateError):
            assert error.code == ErrorCode.REQUEST_TIMED_OUT, error
        self.counts[f"{what} {type(error).__name__}"] += 1

    def check(self, quorum: ScriptedQuorum, acls: set[Acl]) -> None:
        """Compare what clients were told with the committed log, and with ``acls``."""
        ids: dict[bytes, Acl] = {}
        removed: list[Acl] = []
        for entry in quorum.leader.log.entries:
            for record in entry.records:
                if isinstance(record, AclAdded):
                    ids[record.id] = record.acl
                elif isinstance(record, AclRemoved):
                    removed.append(ids[record.id])
        added = list(ids.values())
        assert len(added) == len(set(added)), "a creation was made twice"
        assert len(removed) == len(set(removed)), "a deletion was made twice"
        assert set(removed) <= self.tried_to_delete
        assert not self.refused & set(added)
        assert not self.undeleted & set(removed)
        assert self.created <= set(added)
        assert self.deleted <= set(removed)
        assert acls == set(added) - set(removed)
        assert self.created - self.tried_to_delete <= acls


async def disturb(quorum: ScriptedQuorum, random: Random) -> None:
    """Change leaders, kill and isolate them, and spoil their answers. At the end, all is well."""
    for _ in range(EVENTS):
        await trio.sleep(random.uniform(0.005, 0.05))
        leader = quorum.leader
        others = [number for number in quorum.controllers if number != leader.node_id]
        match random.choice(("elect", "kill", "isolate", "spoil", "spoil", "spoil", "stall")):
            case "elect":
                quorum.elect(random.choice(others))
            case "kill":
                quorum.kill(leader.node_id)
                quorum.elect(random.choice(others))
                await trio.sleep(random.uniform(0, 0.02))
                await quorum.start(leader.node_id)
            case "isolate":
                quorum.isolate(leader.node_id)
                await trio.sleep(random.uniform(0, 0.02))
                quorum.elect(random.choice(others))
                await trio.sleep(random.uniform(0, 0.02))
                quorum.rejoin(leader.node_id)
            case "stall":  # changes are written, and lost with the leader
                quorum.commits_changes = False
                await trio.sleep(random.uniform(0, 0.02))
                quorum.elect(random.choice(others))
                quorum.commits_changes = True
            case _:
                faults = (Fault.CUT, Fault.CUT_AFTER, Fault.GARBAGE, Fault.SILENCE)
                leader.spoil(random.choice(CHANGES), random.choice(faults))


async def use(daemon: Daemon, ledger: Ledger, client: int, random: Random) -> None:
    """Create ACLs, and delete some of them, one change after the other."""
    for number in range(12):
        mine = acl(f"User:{client}", topic=f"t-{client}-{number}")
        await ledger.create(daemon, mine)
        if mine in ledger.created and random.random() < 0.5:
            await ledger.delete(daemon, mine)


@pytest.mark.parametrize("writes", [Writes.AS_SELF, Writes.FORWARD])
@pytest.mark.parametrize("seed", range(4))
async def test_changes_survive_what_happens_to_leaders(
    nursery: trio.Nursery, tmp_path: Path, seed: int, writes: Writes
) -> None:
    random = Random(seed)
    quorum = ScriptedQuorum(nursery)
    quorum.elect(1)
    daemon, ledger = Daemon(quorum, tmp_path, writes), Ledger()
    await daemon.start(nursery)
    with trio.fail_after(4 * SECONDS_MAX):
        async with trio.open_nursery() as clients:
            clients.start_soon(disturb, quorum, random)
            for client in range(CLIENTS):
                clients.start_soon(use, daemon, ledger, client, random)
    quorum.elect(2)
    last = acl("User:last", topic="last")
    with trio.fail_after(SECONDS_MAX):
        await ledger.create(daemon, last)
        while last not in ledger.created:
            last = acl("User:last", topic=f"{last.resource_name}+")
            await ledger.create(daemon, last)
    ledger.check(quorum, daemon.acls)
    assert ledger.counts["create NoneType"] > 2 * CLIENTS
    assert daemon.updates.statistics.requests_waiting == 0
    assert daemon.everywhere >= ledger.counts["create NoneType"]
