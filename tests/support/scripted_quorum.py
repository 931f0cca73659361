"""A quorum of controllers in this process whose elections, commits and faults a test scripts.

Connect to it in memory (``connect``, also with a mock clock), or over TCP after ``listen``::

    quorum = ScriptedQuorum(nursery)
    quorum.elect(1)
    quorum.append(added(1), added(2))             # committed
    quorum.append(added(3), commits=False)        # served, but above the high watermark
    quorum.elect(2)                               # truncates it
    quorum.controllers[2].spoil(QuorumKey.FETCH, Fault.GARBAGE)

**Invariant:** the controllers that are alive and not isolated agree on what is committed.
"""

from collections.abc import Mapping

import trio
from trio.testing import memory_stream_pair

from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.errors import Stage, UnservedError
from authorizerd.protocol.kafka.envelope import Forwarded
from authorizerd.protocol.kafka.quorum_messages import SnapshotId
from tests.support.kafka_versions import read_table
from tests.support.log_files import METADATA_VERSION
from tests.support.replica_log import AnyRecord
from tests.support.scripted_controller import NO_WATERMARK, Controller, Fault

__all__ = ["Controller", "Fault", "ScriptedQuorum"]


class ScriptedQuorum:
    """Controllers 1 to ``size``. No one leads before the first ``elect``.

    Attributes:
        versions: what every controller serves: that of the Kafka ``kafka``, ``3.9`` to ``4.3``.
        commits_changes: False to leave changes of clients uncommitted until ``commit``.
        forwarded: the contents of the Envelopes received.
        fetch_bytes_max: maximum size of the records in an answer; a larger batch comes alone.
        snapshot_bytes_max: maximum size of a snapshot's piece.
        hides_snapshot_errors: True to answer every error of FetchSnapshot as Kafka 4.3.1 does: it
            fails to write that error, and reports UNKNOWN_SERVER_ERROR.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        size: int = 3,
        *,
        kafka: str = "4.3",
        cluster_id: str = "scripted-cluster",
    ) -> None:
        self.cluster_id = cluster_id
        self.versions = read_table()[kafka]
        self.commits_changes = True
        self.forwarded: list[Forwarded] = []
        self.hides_snapshot_errors = True
        self.fetch_bytes_max = self.snapshot_bytes_max = 1 << 20
        self.controllers = {
            number: Controller(self, number, Address(f"controller{number}", 9093))
            for number in range(1, size + 1)
        }
        self._nursery = nursery
        self._listening: dict[int, trio.CancelScope] = {}
        self._ids = 1000

    @property
    def addresses(self) -> list[Address]:
        return [each.address for each in self.controllers.values()]

    @property
    def leader(self) -> Controller:
        leaders = [each for each in self.controllers.values() if each.leads]
        return max(leaders, key=lambda each: each.epoch)

    @property
    def _reachable(self) -> list[Controller]:
        return [
            each for each in self.controllers.values() if each.is_alive and not each.is_isolated
        ]

    def list_observers(self, epoch: int) -> Mapping[int, int]:
        """Return the log ends of the observers by id, as the leader of ``epoch`` knows them."""
        return {}

    def authorizes(self, forwarded: Forwarded) -> bool:
        """Return True if the principal of an Envelope may change ACLs."""
        return True

    def new_id(self) -> bytes:
        self._ids += 1
        return self._ids.to_bytes(16, "big")

    def elect(self, node_id: int, *, commits: bool = True) -> None:
        """Let a controller lead the next epoch.

        The first leader also appends ``metadata.version``.

        Args:
            commits: False if it does not know a high watermark yet, because it has committed
                nothing in its epoch.
        """
        leader = self.controllers[node_id]
        epoch = max(each.epoch for each in self._reachable) + 1
        for each in self._reachable:
            each.epoch, each.leader_id, each.high_watermark = epoch, node_id, NO_WATERMARK
        leader.log.begin_epoch(epoch, node_id)
        if leader.log.end_offset == 1:
            leader.log.append(epoch, [METADATA_VERSION])
        self._notify()
        if commits:
            self.commit()

    def append(self, *records: AnyRecord, commits: bool = True) -> int:
        """Append one batch to the leader's log. Return the offset of its last record."""
        leader = self.leader
        last_offset = leader.log.append(leader.epoch, records)
        self._notify()
        if commits:
            self.commit()
        return last_offset

    def commit(self) -> None:
        """Replicate the leader's log, which is committed with that."""
        leader = self.leader
        for each in self._reachable:
            if each is not leader:
                each.log.follow(leader.log)
            each.high_watermark = leader.log.end_offset
        self._notify()

    def take_snapshot(self, *, keeps_log: bool = False) -> SnapshotId:
        """Let every controller make a snapshot at the high watermark; see ``ReplicaLog``."""
        end_offset = self.leader.high_watermark
        for each in self._reachable:
            taken = each.log.take_snapshot(end_offset, keeps_log=keeps_log)
        return taken

    def isolate(self, node_id: int) -> None:
        """Let a controller hear nothing of the others; a leader goes on leading its epoch."""
        self.controllers[node_id].is_isolated = True

    def rejoin(self, node_id: int) -> None:
        """Let an isolated controller follow the leader again."""
        self.controllers[node_id].is_isolated = False
        self._follow(self.controllers[node_id])

    def resign(self) -> None:
        """Let no one lead; the epoch stays."""
        for each in self._reachable:
            each.leader_id = -1
        self._notify()

    def restore(self, end_offset: int, *, epoch: int = 0) -> None:
        """Put controllers back to a backup up to ``end_offset``; no one leads in ``epoch``."""
        for each in self.controllers.values():
            each.log.truncate(end_offset)
            each.epoch = max(each.log.last_epoch, epoch)
            each.leader_id, each.high_watermark = -1, NO_WATERMARK
        self._notify()

    def kill(self, node_id: int) -> None:
        """Close a controller's connections, and refuse new ones. Its log stays."""
        controller = self.controllers[node_id]
        controller.is_alive = False
        controller.leader_id = -1
        if (scope := self._listening.pop(node_id, None)) is not None:
            scope.cancel()
        self.drop_connections(node_id)

    async def start(self, node_id: int) -> None:
        """Start a killed controller again, at the same address, as a follower."""
        controller = self.controllers[node_id]
        controller.is_alive = True
        self._follow(controller)
        if controller.address.host == "127.0.0.1":
            await self._nursery.start(self._listen, controller)

    def drop_connections(self, node_id: int) -> None:
        for scope in self.controllers[node_id].connections:
            scope.cancel()

    def _follow(self, controller: Controller) -> None:
        leaders = [each for each in self._reachable if each.leads and each is not controller]
        if leaders:
            leader = max(leaders, key=lambda each: each.epoch)
            controller.epoch, controller.leader_id = leader.epoch, leader.node_id
            controller.high_watermark = leader.high_watermark
            controller.log.follow(leader.log)
            controller.notice_change()

    def _notify(self) -> None:
        for each in self.controllers.values():
            each.notice_change()

    async def connect(self, address: Address) -> trio.abc.HalfCloseableStream:
        """Connect in memory, or raise UnservedError if no controller alive has this address."""
        await trio.lowlevel.checkpoint()
        for each in self.controllers.values():
            if each.address == address and each.is_alive:
                theirs, ours = memory_stream_pair()
                self._nursery.start_soon(each.serve, theirs)
                return ours
        raise UnservedError(f"{address}: Connection refused", address, Stage.REFUSED)

    async def listen(self) -> None:
        """Listen on a free port of 127.0.0.1 for each controller, which is its address then."""
        for each in self.controllers.values():
            each.address = Address("127.0.0.1", 0)
            await self._nursery.start(self._listen, each)

    async def _listen(
        self, controller: Controller, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        [listener] = await trio.open_tcp_listeners(controller.address.port, host="127.0.0.1")
        controller.address = Address("127.0.0.1", listener.socket.getsockname()[1])
        async with listener:
            with trio.CancelScope() as scope:
                self._listening[controller.node_id] = scope
                task_status.started()
                await trio.serve_listeners(
                    controller.serve, [listener], handler_nursery=self._nursery
                )
