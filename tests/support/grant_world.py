"""A cluster with grants, by a seeded plan: people, keepers of several kinds, and what goes wrong.

The keepers are the daemon's own code. The world judges each of their changes by what people meant:
each ACL that exists has a lease, the end that people gave it last, or none.
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from typing import Any, Final, TypeVar

import trio
from msgspec.structs import replace

from authorizerd.acl.filters import accepts
from authorizerd.acl.grants.clocks import AGREE_MS, STEADY_SECONDS
from authorizerd.acl.grants.model import Grant, make_grant_note, read_grant_note
from authorizerd.acl.model import Acl, AclFilter
from authorizerd.acl.notes import is_note
from authorizerd.acl.steps import finish
from authorizerd.kafka_client.connection import Call
from authorizerd.kafka_client.errors import ConnectionFailedError, RequestFailedError
from authorizerd.protocol.kafka.acls import (
    CreateAclsAnswer,
    DeleteAclsAnswer,
    DescribeAclsAnswer,
    FilterResult,
    MatchingAcl,
)
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from authorizerd.protocol.kafka.fetch import METADATA_TOPIC
from authorizerd.protocol.kafka.messages import decode_request, encode_response
from authorizerd.protocol.kafka.quorum_messages import (
    DescribeQuorumAnswer,
    QuorumPartition,
    QuorumTopic,
    Replica,
)
from tests.support.acls import acl

T = TypeVar("T")

EPOCH_MS: Final = 1_800_000_000_000
PLAN_SECONDS: Final = 60.0
"""How long people act and things go wrong."""
LAG_SECONDS_MAX: Final = 1.0
"""How far a broker's listing, or a follower, is behind."""
DELAY_SECONDS_MAX: Final = 0.3
"""How long a request or its answer travels."""
RACE_SECONDS: Final = 2.0 + LAG_SECONDS_MAX + 2 * DELAY_SECONDS_MAX
"""How old the state may be that a request rests on, once it is applied."""
READ_SECONDS: Final = 15.0
"""How long after the reading of a clock a request may be applied."""
BOUND_SECONDS: Final = 80.0
"""A grant ends this much later than its end, or than the last thing that went wrong."""
POOL: Final = [acl("User:a", topic=f"t{number}") for number in range(3)]
VERSIONS: Final = {ApiKey.DESCRIBE_QUORUM: 2}


@dataclass
class Lease:
    """What people mean for one ACL, since when, and by which act.

    ``had_open_note``: as the ACL was created, a note that names no uuid was left of an earlier one.
    """

    end_ms: int | None
    since: float
    act: str
    had_open_note: bool


@dataclass
class Finding:
    """A change by a keeper that nobody wanted."""

    what: str
    text: str


class World:
    """The cluster. ``races`` counts what is permitted, because no guard can prevent it.

    Args:
        race_seconds: how old a request's state may be.
    """

    def __init__(self, seed: int, race_seconds: float = RACE_SECONDS) -> None:
        self.random = random.Random(seed)
        self.race_seconds = race_seconds
        self.acls: dict[Acl, bytes] = {}
        self.leases: dict[bytes, Lease] = {}
        self.changed = trio.Event()
        self.changes: list[tuple[float, dict[Acl, bytes]]] = [(-100.0, {})]
        self.leader: int | None = 0
        self.offsets_ms = [0, 0, 0]
        self.led: list[tuple[float, int]] = []
        self.bad_at = 0.0
        self.plan_seconds = PLAN_SECONDS
        self.is_quiet = False
        self.races: Counter[str] = Counter()
        self.ended: list[float] = []
        self.begun: dict[str, float] = {}
        self.findings: list[Finding] = []
        self.note_trouble()
        self._ids = count(1)
        self._grant_ids = count(1)

    @property
    def now_ms(self) -> int:
        return EPOCH_MS + int(trio.current_time() * 1000)

    @property
    def controller_ms(self) -> int:
        assert self.leader is not None
        return self.now_ms + self.offsets_ms[self.leader]

    @property
    def has_grants(self) -> bool:
        """True while an ACL exists that should end."""
        return any(lease.end_ms is not None for lease in self.leases.values())

    @property
    def last_end_s(self) -> float:
        """The time at which all grants that there are should have ended."""
        ends = [read_note(each) for each in self.acls if is_note(each)]
        return max(((each.end_ms - EPOCH_MS) / 1000 for each in ends if each), default=0.0)

    def view(self, lag: float) -> dict[Acl, bytes]:
        """Return the ACLs as they were some time ago."""
        at = trio.current_time() - lag
        return next(state for time, state in reversed(self.changes) if time <= at)

    def note_trouble(self) -> None:
        self.bad_at = trio.current_time()
        if self.leader is not None:
            self.led.append((trio.current_time(), self.offsets_ms[self.leader]))

    def change(
        self, create: Sequence[Acl] = (), delete: Sequence[Acl] = (), keeper: "Keeper | None" = None
    ) -> None:
        """Apply one request, at once; judge it if a keeper sent it."""
        deleted = [each for each in delete if each in self.acls]
        created = [each for each in create if each not in self.acls]
        assert len({*create}) == len(create), "each ACL is created once"
        if keeper is not None:
            for each in deleted:
                self._judge_removal(each, keeper)
            for each in created:
                self._judge_creation(each, create)
        for each in deleted:
            self.leases.pop(self.acls.pop(each), None)
        for each in created:
            self.acls[each] = next(self._ids).to_bytes(16, "big")
            if not is_note(each):
                self.leases[self.acls[each]] = self._lease_of(each, create)
        if deleted or created:
            self.changes.append((trio.current_time(), dict(self.acls)))
            self.changed.set()
            self.changed = trio.Event()

    def _lease_of(self, each: Acl, create: Sequence[Acl]) -> Lease:
        ends = [grant.end_ms for grant in list_grants(dict.fromkeys(create, b""), each)]
        act = "granted" if ends else "created"
        is_open = any(grant.acl_id is None for grant in self.list_grants(each) if not ends)
        return Lease(max(ends, default=None), trio.current_time(), act, is_open)

    def _judge_removal(self, removed: Acl, keeper: "Keeper") -> None:
        if is_note(removed):
            return
        lease, now = self.leases[self.acls[removed]], trio.current_time()
        age, where = now - lease.since, f"{now:.3f} {keeper.name} {removed.resource_name}"
        if lease.end_ms is None:
            if age < self.race_seconds:
                self.races[f"{lease.act} meanwhile"] += 1
            elif lease.act == "created" and not keeper.knows_ids:
                self.races["created, and no id is known"] += 1
            elif lease.act == "created" and lease.had_open_note:
                self.races["created before the id was noted"] += 1
            else:
                self.findings.append(Finding("foreign", f"{where}: {lease.act} {age:.1f} s ago"))
        elif fault := self._find_haste(lease.end_ms, keeper):
            if age < self.race_seconds:
                self.races[f"{lease.act} meanwhile"] += 1
            else:
                self.findings.append(Finding("early", f"{where}: {fault}"))
        else:
            due = (lease.end_ms - EPOCH_MS) / 1000
            self.ended.append(now - max(due, self.bad_at, lease.since))

    def _offsets_since(self, time: float) -> list[int]:
        later = [offset for at, offset in self.led if at > time]
        return [*[offset for at, offset in self.led if at <= time][-1:], *later]

    def _has_passed(self, end_ms: int) -> bool:
        """Return True if the active controller's clock has lately shown this time."""
        return self.now_ms + max(self._offsets_since(trio.current_time() - READ_SECONDS)) >= end_ms

    def _find_haste(self, end_ms: int, keeper: "Keeper") -> str:
        """Return why a time must not be believed yet, or an empty text."""
        if not self._has_passed(end_ms):
            return "no controller's clock shows it"
        if self.now_ms + 3 * AGREE_MS >= end_ms:
            return ""
        if keeper.own_was_wrong_at > trio.current_time() - READ_SECONDS:
            self.races["two wrong clocks"] += 1
            return ""
        offsets = self._offsets_since(trio.current_time() - STEADY_SECONDS + 1)
        is_steady = max(offsets) - min(offsets) <= 2 * AGREE_MS
        return "" if is_steady else "a clock was wrong for a short time"

    def _judge_creation(self, created: Acl, create: Sequence[Acl]) -> None:
        if is_note(created):
            return
        now = trio.current_time()
        recent = [state for at, state in self.changes if at >= now - self.race_seconds]
        waiting = {
            grant.id
            for state in (self.view(self.race_seconds), *recent)
            for grant in list_grants(state, created)
            if grant.is_waiting
        }
        for grant in list_grants(dict.fromkeys(create, b""), created):
            begun_at = self.begun.setdefault(grant.id, now)
            where = f"{now:.3f} {created.resource_name} {grant.id}"
            if grant.id not in waiting or now - begun_at >= self.race_seconds:
                self.findings.append(Finding("begun", where))
            elif begun_at != now:
                self.races["begun twice"] += 1
            if not self._has_passed(grant.begin_ms):
                self.findings.append(Finding("begun", f"{where}: before its begin"))

    def list_grants(self, about: Acl) -> list[Grant]:
        return list_grants(self.acls, about)

    def new_grant(self, about: Acl, begin_ms: int, end_ms: int, *, is_waiting: bool) -> Grant:
        return Grant(
            id=str(next(self._grant_ids)), acl=about, begin_ms=begin_ms, end_ms=end_ms,
            author="User:ops", reason="why", is_waiting=is_waiting,
        )  # fmt: skip


read_note = lru_cache(read_grant_note)


def list_grants(state: dict[Acl, bytes], about: Acl) -> list[Grant]:
    read = [read_note(note) for note in state if is_note(note)]
    return [grant for grant in read if grant is not None and grant.acl == about]


@dataclass
class Keeper:
    """One process that keeps grants. ``scope`` ends it as a crash does."""

    name: str
    world: World
    knows_ids: bool
    own_offset_ms: int = 0
    own_was_wrong_at: float = -1000.0
    fault_rate: float = 0.05
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)

    def own_ms(self) -> int:
        if abs(self.own_offset_ms) > AGREE_MS:
            self.own_was_wrong_at = trio.current_time()
        return self.world.now_ms + self.own_offset_ms

    def may_fail(self) -> bool:
        """Return True if the request fails here. Sometimes, the process ends here."""
        world = self.world
        if world.is_quiet or world.random.random() >= self.fault_rate:
            return False
        world.note_trouble()
        if world.random.random() < 0.5:
            self.scope.cancel()
        return True


class Node:
    """A connection of a keeper, to a broker that lags by a constant time."""

    renewal_time = float("inf")
    is_silent = True

    def __init__(self, keeper: Keeper, address: object, lag: float) -> None:
        self.address = address
        self._keeper = keeper
        self._lag = lag

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()

    async def request(self, call: Call[T], timeout_ms: int) -> T:
        """Answer as a broker does: by its own listing, and for the rest by the controller."""
        keeper, world = self._keeper, self._keeper.world
        key = ApiKey(call.api_key)
        version = VERSIONS.get(key, 3)
        try:
            body = call.encode(version)
        except ValueError as error:
            raise RequestFailedError(ApiError(ErrorCode.INVALID_REQUEST, str(error))) from None
        for phase in ("sent", "answered"):
            await trio.sleep(world.random.uniform(0, DELAY_SECONDS_MAX))
            is_lost = world.leader is None and key is not ApiKey.DESCRIBE_ACLS
            if keeper.may_fail() or (is_lost and phase == "sent"):
                await trio.lowlevel.checkpoint()
                raise ConnectionFailedError("the connection broke")
            if phase == "sent":
                asked = finish(decode_request(key, version, body))
                answer = finish(encode_response(key, version, self._answer(key, asked)))
        return call.decode(version, b"".join(map(bytes, answer)))

    def _answer(self, key: ApiKey, asked: Any) -> object:  # noqa: ANN401 - of its API
        world = self._keeper.world
        match key:
            case ApiKey.DESCRIBE_ACLS:
                found = [each for each in world.view(self._lag) if accepts(asked.filter, each)]
                return DescribeAclsAnswer(acls=found)
            case ApiKey.CREATE_ACLS:
                world.change(create=asked.creations, keeper=self._keeper)
                return CreateAclsAnswer(results=[None] * len(asked.creations))
            case ApiKey.DELETE_ACLS:
                matches = [self._match(each) for each in asked.filters]
                world.change(
                    delete=[each for some in matches for each in some], keeper=self._keeper
                )
                return DeleteAclsAnswer(
                    results=[
                        FilterResult(matches=[MatchingAcl(acl=each) for each in some])
                        for some in matches
                    ]
                )
        assert key is ApiKey.DESCRIBE_QUORUM
        now = world.controller_ms
        leader = Replica(
            replica_id=world.leader or 0, log_end_offset=1, last_fetch_timestamp=now,
            last_caught_up_timestamp=now,
        )  # fmt: skip
        partition = QuorumPartition(
            partition_index=0, leader_id=world.leader or 0, current_voters=(leader,)
        )
        return DescribeQuorumAnswer(topics=(QuorumTopic(METADATA_TOPIC, (partition,)),))

    def _match(self, filter: AclFilter) -> list[Acl]:
        return [each for each in self._keeper.world.acls if accepts(filter, each)]


class People:
    """Those who make, extend and delete grants and ACLs. Their requests take no time."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = world.random

    async def act(self) -> None:
        world, chance = self._world, self._random
        about = chance.choice(POOL)
        acts = {
            True: [
                self._extend,
                self._extend,
                *[self._remove] * 6,
                self._make_permanent,
                self._delete,
            ],
            False: [self._grant, self._grant, self._grant, self._create],
        }[about in world.acls]
        await chance.choice(acts)(about)

    async def _grant(self, about: Acl) -> None:
        world, chance = self._world, self._random
        is_waiting = chance.random() < 0.4
        begin = world.now_ms + (chance.randint(1_000, 15_000) if is_waiting else 0)
        end = begin + chance.randint(2_000, 25_000)
        grant = world.new_grant(about, begin, end, is_waiting=is_waiting)
        note = make_grant_note(grant)
        old = [each for each in world.list_grants(about) if not each.is_waiting]
        if not is_waiting:  # an ACL of an earlier grant was deleted, and its note was left
            world.change(delete=list(map(make_grant_note, old)))
        world.change(create=[note] if is_waiting else [about, note])

    async def _extend(self, about: Acl) -> None:
        world = self._world
        old = [each for each in world.list_grants(about) if not each.is_waiting]
        lease = world.leases[world.acls[about]]
        if not old or lease.end_ms is None:
            return
        new = replace(old[0], end_ms=lease.end_ms + self._random.randint(1_000, 20_000))
        if lease.end_ms <= world.now_ms:
            return
        world.change(create=[make_grant_note(new)])
        lease.end_ms, lease.since, lease.act = new.end_ms, trio.current_time(), "extended"
        if self._random.random() < 0.8:  # otherwise, the command ends in between
            await trio.sleep(self._random.uniform(0, 1))
            world.change(delete=[make_grant_note(each) for each in old])

    async def _make_permanent(self, about: Acl) -> None:
        """Delete all notes, and again those that a keeper has written meanwhile."""
        world, acl_id = self._world, self._world.acls[about]
        lease = world.leases[acl_id]
        lease.end_ms, lease.since, lease.act = None, trio.current_time(), "permanent"
        with trio.CancelScope(shield=True):  # a command that was interrupted must be repeated
            for _ in range(2):
                notes = world.list_grants(about)
                if notes and world.acls.get(about) == acl_id:
                    lease.since = trio.current_time()
                    world.change(delete=list(map(make_grant_note, notes)))
                await trio.sleep(world.race_seconds)

    async def _delete(self, about: Acl) -> None:
        world = self._world
        notes = list(map(make_grant_note, world.list_grants(about)))
        world.change(delete=[about, *(notes if self._random.random() < 0.3 else ())])
        if self._random.random() < 0.5:
            await trio.sleep(self._random.choice([0, 0.1, 3, 12]))
            await self._create(about)

    async def _remove(self, about: Acl) -> None:
        """Make room in the pool again: delete an ACL that no grant ends."""
        if self._world.leases[self._world.acls[about]].end_ms is None:
            self._world.change(delete=[about])

    async def _create(self, about: Acl) -> None:
        if about not in self._world.acls:
            self._world.change(create=[about])
