"""Real servers for tests of ``acls apply``: a client for each, and random races."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random

import trio

from authorizerd.acl.model import Acl
from authorizerd.cli.broker_acls import BrokerReader
from authorizerd.cli.change.apply_server import Answered, KafkaAclServer
from authorizerd.cli.change.execution import Ending, Execution
from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.client import ClientSettings, KafkaClient
from authorizerd.kafka_client.log_in import Credentials
from authorizerd.management.batches import split_batches
from authorizerd.management.plan.changes import AclRequest, StepName
from tests.cli.change.acl_servers import RacingServer, new_plan, random_race, some_acls


@asynccontextmanager
async def open_server(
    address: str, credentials: Credentials | None = None
) -> AsyncIterator[KafkaAclServer]:
    host, _, port = address.rpartition(":")
    settings = ClientSettings(
        bootstrap=(Address(host, int(port)),),
        credentials=credentials,
        client_id="tests",
    )
    async with KafkaClient(settings, lambda text: None) as client:
        yield KafkaAclServer(BrokerReader(client, address, None, address))


async def set_acls(server: KafkaAclServer, acls: Iterable[Acl]) -> None:
    """Make exactly these ACLs, and wait until they are listed."""
    wanted = set(acls)
    present = set((await server.list_acls()).acls.values())
    changes: list[tuple[StepName, set[Acl]]] = [
        ("delete_allow", present - wanted),
        ("create_allow", wanted - present),
    ]
    for step, changed in changes:
        for batch in split_batches(changed, lambda each: each):
            answer = await server.send(AclRequest(step, tuple(batch)), None)
            assert isinstance(answer, Answered)
            assert not answer.errors
    with trio.fail_after(30):
        while set((await server.list_acls()).acls.values()) != wanted:  # noqa: ASYNC110 - a broker
            await trio.sleep(0.01)


@dataclass
class Tally:
    """Count the results of many executions with races."""

    races: int = 0
    blind: int = 0
    unreported: int = 0
    stopped: int = 0
    applied: int = 0


async def race_often(server: KafkaAclServer, races: int, *, settle_seconds: float) -> Tally:
    """Carry out random plans until there were ``races``, each in one of them at a random moment."""
    tally = Tally()
    for seed in itertools.count():
        if tally.races == races:
            break
        chance = Random(seed)
        before = some_acls(chance.sample(range(30), 10))
        plan = new_plan(before, some_acls(chance.sample(range(30), 10)))
        await set_acls(server, before)
        # Moments: before the first listing, then before and after each request. On brokers, there
        # are listings in between as well.
        race = random_race(chance, plan, before, 10)
        racing = RacingServer(server, plan, [race])
        execution = Execution(
            plan, racing, report=lambda _: None, settle_seconds=settle_seconds, acls_max=5
        )
        await execution.run()
        progress = execution.progress
        after = await server.list_acls()
        is_stopped = progress.ending in (Ending.MOVED, Ending.RACED)
        tally.races += race.happened
        tally.blind += racing.blind
        tally.stopped += is_stopped
        tally.applied += progress.ending is Ending.APPLIED
        tally.unreported += bool(racing.blind) and not (is_stopped or progress.notes)
        assert progress.ending in (
            Ending.APPLIED,
            Ending.NOTHING_TO_DO,
            Ending.MOVED,
            Ending.RACED,
        ), (seed, progress)
        if not race.happened:
            assert progress.ending is Ending.APPLIED, (seed, progress)
            assert after.digest == plan.leads_to.digest, seed
    return tally
