"""Servers for tests of ``acls apply``: in memory, one that lets others interfere, real ones."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random

import trio

from authorizerd.acl.listing import derive_id
from authorizerd.acl.model import Acl
from authorizerd.cli.broker_acls import BrokerReader
from authorizerd.cli.change.apply_server import (
    AclServer,
    Answered,
    KafkaAclServer,
    Listed,
    Unanswered,
)
from authorizerd.cli.change.execution import Ending, Execution
from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.client import ClientSettings, KafkaClient
from authorizerd.kafka_client.log_in import Credentials
from authorizerd.management.batches import split_batches
from authorizerd.management.plan import document, state
from authorizerd.management.plan.changes import AclRequest, StepName, make_changes
from authorizerd.management.plan.selector import Selector
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from tests.support.acls import acl

Answer = Answered | Unanswered
MOVED = ApiError(ErrorCode.INVALID_UPDATE_VERSION, "The ACLs have changed")


def new_plan(
    present: Iterable[Acl], desired: Iterable[Acl], *, checks: tuple[document.PlanCheck, ...] = ()
) -> document.Plan:
    """Return the plan that leads from the one to the other, written and read once."""
    before = list(present)
    changes = make_changes(before, desired, Selector(None))
    digest = state.digest_acls(before)
    count = len(before) + len(changes.created) - len(changes.deleted)
    plan = document.Plan(
        made_for=document.PlanSource(
            place="brokers", name="broker:9092", offset=None, acls=len(before), digest=digest
        ),
        leads_to=document.State(count, state.change_digest(digest, changes)),
        settings=document.PlanSettings((), False),
        manages="everything",
        warnings=(),
        checks=checks,
        steps=document.name_steps(changes),
    )
    return document.decode_plan(document.encode_plan(plan))


def some_acls(numbers: Iterable[int]) -> list[Acl]:
    """Return an ACL for each number; every third one is a DENY."""
    return [
        acl(f"User:u{number % 7}", topic=f"t{number}", deny=number % 3 == 0) for number in numbers
    ]


@dataclass
class MemoryServer:
    """A server without a socket.

    Attributes:
        offset: None for a broker, which does not compare.
        faults: what happens to the next requests, each a function of the real answer or None. It
            gets ``apply``, which applies the request and returns its answer.
        lag: how many of the next listings show the state before the last change.
    """

    acls: dict[bytes, Acl]
    offset: int | None = None
    changed_at: int = 0
    faults: list[Callable[[Callable[[], Answer]], Answer]] = field(default_factory=list)
    lag: int = 0
    sent: list[tuple[AclRequest, int | None]] = field(default_factory=list)
    listings: int = 0
    _before: dict[bytes, Acl] = field(default_factory=dict)

    @classmethod
    def of(cls, acls: Iterable[Acl], *, compares: bool) -> MemoryServer:
        server = cls({derive_id(each): each for each in acls})
        if compares:
            server.offset = server.changed_at = 10
        server._before = server.acls
        return server

    @property
    def digest(self) -> str:
        return state.digest_ids(self.acls)

    async def list_acls(self) -> Listed:
        self.listings += 1
        shown = self.acls
        if self.lag:
            self.lag -= 1
            shown = self._before
        return Listed(shown, self.offset, state.digest_ids(shown))

    async def send(self, request: AclRequest, expected_offset: int | None) -> Answer:
        self.sent.append((request, expected_offset))
        if self.faults:
            return self.faults.pop(0)(lambda: self.apply(request, expected_offset))
        return self.apply(request, expected_offset)

    def apply(self, request: AclRequest, expected_offset: int | None) -> Answer:
        if expected_offset is not None and self.offset is None:
            raise AssertionError("a broker is not asked to compare")
        if expected_offset is not None and self.changed_at > expected_offset:
            return Answered((MOVED,) * len(request.acls))
        unmatched = [
            each
            for each in request.acls
            if not request.is_creation and derive_id(each) not in self.acls
        ]
        after = state.apply_request(self.acls, request)
        if after != self.acls:
            self._before, self.acls = self.acls, after
            if self.offset is not None:
                self.offset += len(request.acls)
                self.changed_at = self.offset
        answered = None if expected_offset is None else self.offset
        return Answered((), answered, tuple(unmatched))


@dataclass
class Race:
    """A change by someone else: ``happened`` once it has changed an ACL."""

    request: AclRequest
    moment: int
    happened: bool = False


class RacingServer:
    """A server on which others change ACLs between the requests of a plan.

    Moments are counted: one before each listing, one before and one after each request. Each
    request of the plan that has an effect is compared with the state that it was applied to.

    Attributes:
        blind: the number of requests that were applied to a state that is not the plan's.
    """

    def __init__(self, inner: AclServer, plan: document.Plan, races: Sequence[Race]) -> None:
        self._inner = inner
        self._states = state.make_states(plan.made_for.digest, plan.changes)
        self._races = races
        self._moment = 0
        self._made = 0
        self.blind = 0

    async def _pass_moment(self) -> None:
        for race in self._races:
            if race.moment == self._moment:
                before = await self._inner.list_acls()
                answer = await self._inner.send(race.request, None)
                assert isinstance(answer, Answered)
                assert not answer.errors
                race.happened = state.apply_request(before.acls, race.request) != before.acls
        self._moment += 1

    async def list_acls(self) -> Listed:
        await self._pass_moment()
        return await self._inner.list_acls()

    async def send(self, request: AclRequest, expected_offset: int | None) -> Answer:
        await self._pass_moment()
        before = await self._inner.list_acls()
        answer = await self._inner.send(request, expected_offset)
        if isinstance(answer, Answered) and not answer.errors:
            self.blind += before.digest not in self._states
        await self._pass_moment()
        return answer


def random_race(chance: Random, plan: document.Plan, present: Sequence[Acl], moments: int) -> Race:
    """Return a change at a random moment: of an ACL of the plan, or of another one."""
    moment = chance.randrange(moments)
    kinds: list[Callable[[], tuple[StepName, Acl]]] = [
        lambda: ("create_allow", acl("User:other", topic=f"other{chance.randrange(1000)}")),
        lambda: ("create_deny", acl("User:other", topic="denied", deny=True)),
    ]
    if present:
        kinds.append(lambda: ("delete_allow", chance.choice(present)))
    if plan.changes.created:
        kinds.append(lambda: ("delete_deny", chance.choice(plan.changes.created)))
    if plan.changes.deleted:
        kinds.append(lambda: ("create_allow", chance.choice(plan.changes.deleted)))
    step, changed = chance.choice(kinds)()
    return Race(AclRequest(step, (changed,)), moment)


@asynccontextmanager
async def open_server(
    address: str, credentials: Credentials | None = None
) -> AsyncIterator[KafkaAclServer]:
    host, _, port = address.rpartition(":")
    settings = ClientSettings(
        bootstrap=(Address(host, int(port)),), credentials=credentials, client_id="tests"
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


async def race_often(server: KafkaAclServer, races: int, *, settle_seconds: float) -> Counter[str]:
    """Carry out random plans until there were ``races``, each in one of them at a random moment.

    Return the number of races, of requests that were applied blindly, of those executions that did
    not report it, and of the executions that were stopped or have applied their plan.
    """
    tally = Counter[str]()
    for seed in itertools.count():
        if tally["races"] == races:
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
        tally["races"] += race.happened
        tally["blind"] += racing.blind
        tally["stopped"] += is_stopped
        tally["applied"] += progress.ending is Ending.APPLIED
        tally["unreported"] += bool(racing.blind) and not (is_stopped or progress.notes)
        assert is_stopped or progress.ending in (Ending.APPLIED, Ending.NOTHING_TO_DO), (
            seed,
            progress,
        )
        if not race.happened:
            assert progress.ending is Ending.APPLIED, (seed, progress)
            assert after.digest == plan.leads_to.digest, seed
    return tally
