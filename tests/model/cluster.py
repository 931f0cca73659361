"""A cluster that a story's daemon follows: controllers that are elected, killed and partitioned.

**Invariant:** what is committed once stays committed, so ``states`` only grows.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

import trio

from authorizerd.acl.model import AclAdded, AclRemoved, Operation
from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.errors import Stage, UnservedError
from authorizerd.protocol.kafka.api import ApiKey, QuorumKey
from authorizerd.protocol.kafka.envelope import Forwarded
from tests.model import brokers
from tests.model.brokers import Broker
from tests.model.network import MemoryStream, Network
from tests.model.reference import State, may
from tests.model.story import ROOT, Event, Life
from tests.support.scripted_controller import Controller, Fault
from tests.support.scripted_quorum import ScriptedQuorum

SIZE: Final = 3
LEADS_ALONE_S: Final = (0.5, 1.5, 3.0)
"""How long an isolated leader goes on before it resigns. Kafka's resigns after 3 s."""
_APIS: Final = (
    QuorumKey.FETCH, QuorumKey.FETCH, QuorumKey.FETCH_SNAPSHOT, ApiKey.DESCRIBE_CLUSTER,
    ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS, ApiKey.ENVELOPE, ApiKey.ENVELOPE,
)  # fmt: skip


class Cluster(ScriptedQuorum):
    """The controllers and brokers, on a simulated network.

    Attributes:
        states: the ACLs at the end of each committed batch, by its last offset.
        committed: when each of these offsets was committed, in order.
        listed: the offset of the state in each listing of a broker, in order.
        hides_quorum: True if brokers do not serve DescribeQuorum. Then their listings are never
            late by more than ``FETCH_S`` and ``APPLY_S_MAX``.
        trusts_root: True if ROOT is a super user of the cluster.
    """

    def __init__(self, nursery: trio.Nursery, network: Network, chance: Random) -> None:
        super().__init__(nursery, SIZE)
        self._network = network
        self.chance: Final = chance
        self._is_healed = False
        self.hides_quorum = False
        self.trusts_root = True
        self.listed: Final[list[int]] = []
        self.states: Final[dict[int, State]] = {}
        self.committed: Final[list[tuple[float, int]]] = []
        self.elect(1)
        self.brokers: Final = {number: Broker(self, number) for number in brokers.IDS}

    def begin_life(
        self, nursery: trio.Nursery, network: Network, life: Life, *, has_brokers: bool
    ) -> None:
        """Go on in another event loop, whose clock begins at 0 again."""
        self._nursery, self._network = nursery, network
        self.hides_quorum, self.trusts_root = life.hides_quorum, life.trusts_root
        self.committed[:] = [(0.0, self.end_offset)]
        self._is_healed = False
        self.fetch_bytes_max = self.chance.choice((1, 300, 1 << 20))
        self.snapshot_bytes_max = self.chance.choice((50, 1 << 20))
        for each in self._nodes:
            each.connections.clear()
        for broker in self.brokers.values():
            if self.hides_quorum:
                brokers.heal(broker)
                broker.show_all()
            if has_brokers:
                nursery.start_soon(broker.replicate)

    @property
    def _nodes(self) -> Sequence[Controller]:
        return (*self.controllers.values(), *self.brokers.values())

    def list_observers(self, epoch: int) -> Mapping[int, int]:
        ends = {each.node_id: (each.epoch, each.log_end) for each in self.brokers.values()}
        return {number: end if since == epoch else -1 for number, (since, end) in ends.items()}

    def authorizes(self, forwarded: Forwarded) -> bool:
        acls = self.states[self.end_offset].acls
        return self.is_super_user(forwarded.principal) or may(
            acls, forwarded.principal, Operation.ALTER
        )

    def is_super_user(self, principal: str) -> bool:
        """Return True if the controllers allow this principal everything."""
        return self.trusts_root and principal == ROOT

    @property
    def end_offset(self) -> int:
        """The last committed offset."""
        return max(self.states, default=-1)

    def commit(self) -> None:
        leader = self.leader
        if leader.is_isolated:
            return
        super().commit()
        known = self.end_offset
        for entry in leader.log.entries:
            last_offset = entry.batch.last_offset
            if known < last_offset < leader.high_watermark:
                acls = leader.log.acls(last_offset + 1).values()
                self.states[last_offset] = State(frozenset(acls))
                self.committed.append((trio.current_time(), last_offset))

    def committed_at(self, time_s: float) -> int:
        return max((offset for at, offset in self.committed if at <= time_s), default=-1)

    async def connect(self, address: Address) -> MemoryStream:
        network = self._network
        await network.arrive(self.chance.choice(network.delays_s))
        for each in self._nodes:
            if each.address == address and each.is_alive:
                is_cut = not self._is_healed and self.chance.random() < 0.2
                cut_after = self.chance.randint(1, 3000) if is_cut else None
                ours, theirs = network.new_pair(cut_after)
                network.forget(theirs)  # only the daemon must close its ends
                self._nursery.start_soon(each.serve, theirs)
                return ours
        raise UnservedError(f"{address}: Connection refused", address, Stage.REFUSED)

    async def play(self, events: Sequence[Event]) -> None:
        """Let these events happen, and then end all faults, except that old connections end."""
        for event in events:
            await trio.sleep(event.delay_s)
            await self._happen(event)
        await self.heal()

    async def heal(self) -> None:
        """Start and join all controllers, and elect one of those that have all commits."""
        self._is_healed = True
        self.fetch_bytes_max = self.snapshot_bytes_max = 1 << 20
        for number, each in self.controllers.items():
            each._faults.clear()
            self.drop_connections(number)
            if each.is_isolated:
                self._leave(number)
                self.rejoin(number)
            if not each.is_alive:
                await self.start(number)
        self.elect(self._most_complete())
        for broker in self.brokers.values():
            brokers.heal(broker)

    def _most_complete(self) -> int:
        reachable = [each for each in self._reachable if each.log.end_offset > self.end_offset]
        return max(reachable, key=lambda each: (each.log.last_epoch, each.log.end_offset)).node_id

    def _leave(self, number: int) -> None:
        """Let an isolated controller forget what it led: it steps down before it follows again."""
        self.controllers[number].leader_id = -1

    async def _happen(self, event: Event) -> None:
        self._network.faults[f"cluster: {event.kind}"] += 1
        number = 1 + event.number % SIZE
        controller = self.controllers[number]
        if event.kind in ("append", "overtake", "rejoin", "snapshot"):
            if any(each.leads for each in self._reachable):
                self._happen_by_leader(event, number)
        elif event.kind == "elect":
            if controller in self._reachable and controller.log.end_offset > self.end_offset:
                self.elect(number, commits=event.number % 2 == 0)
        elif event.kind == "start":
            if not controller.is_alive:
                await self.start(number)
        elif event.kind.endswith(" broker"):
            brokers.harm(self.brokers[brokers.IDS[event.number % len(brokers.IDS)]], event)
        else:
            self._fail(event, number)

    def _happen_by_leader(self, event: Event, number: int) -> None:
        match event.kind:
            case "append":
                self._append(event)
            case "overtake":
                # A snapshot replaces the batch before anyone has fetched it.
                self._append(event)
                if self.leader.high_watermark - 1 in self.states:
                    self.take_snapshot()
            case "rejoin" if self.controllers[number].is_isolated:
                self._leave(number)
                self.rejoin(number)
            case "snapshot" if self.leader.high_watermark - 1 in self.states:
                self.take_snapshot(keeps_log=event.number % 2 == 0)

    def _fail(self, event: Event, number: int) -> None:
        controller = self.controllers[number]
        match event.kind:
            case "resign":
                self.resign()
            case "isolate" if len(self._reachable) == SIZE:
                if controller.leads:
                    self._nursery.start_soon(self._lead_alone, controller, event.number)
                self.isolate(number)
            case "kill" if len(self._reachable) == SIZE:
                self.kill(number)
            case "drop":
                self.drop_connections(number)
            case "spoil":
                faults = (Fault.CUT, Fault.CUT_AFTER, Fault.SILENCE, Fault.GARBAGE)
                api_key = _APIS[event.number % len(_APIS)]
                controller.spoil(api_key, faults[event.number % len(faults)])

    async def _lead_alone(self, controller: Controller, number: int) -> None:
        """Let an isolated leader resign after a while, unless it has joined the others again."""
        self._network.faults["cluster: isolated leader"] += 1
        epoch = controller.epoch
        await trio.sleep(LEADS_ALONE_S[number % len(LEADS_ALONE_S)])
        if controller.is_isolated and controller.epoch == epoch:
            self._leave(controller.node_id)
            controller.notice_change()

    def _append(self, event: Event) -> None:
        """Add and remove ACLs as another client of the cluster does."""
        held = self.leader.log.acls()
        records: list[AclAdded | AclRemoved] = []
        for acl in dict.fromkeys(event.acls):
            known = [key for key, each in held.items() if each == acl]
            records += [AclRemoved(key) for key in known] or [AclAdded(self.new_id(), acl)]
        if records:
            self.append(*records, commits=event.number % 4 > 0)
