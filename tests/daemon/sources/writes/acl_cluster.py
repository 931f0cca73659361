"""A cluster in memory that changes ACLs, and a daemon that follows it.

The connections, the requests and the answers are real: only the sockets and the source are not.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import trio

from authorizerd.acl.errors import AclError, NotReadyError
from authorizerd.acl.model import Acl, AclFilter, Change
from authorizerd.acl.snapshot import EMPTY_SNAPSHOT, AclSnapshot, apply_changes, at_offset
from authorizerd.acl.steps import finish
from authorizerd.acl.updates import AclTail, Deleted, plan_creations, plan_deletions
from authorizerd.actors.acl_journal import AclJournal
from authorizerd.actors.authorizer import Authentication, RequestContext
from authorizerd.actors.completion import Completion
from authorizerd.actors.published import Published
from authorizerd.config.follow.settings import FollowSettings, LogIn, Server, SourceKind, Writes
from authorizerd.daemon.sources.writes.forwarded import ForwardedUpdates, new_updates
from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.connection import Node
from authorizerd.kafka_client.log_in import open_node
from authorizerd.protocol.kafka.acls import FilterResult, MatchingAcl
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.chunked_output import Chunk
from authorizerd.protocol.kafka.envelope import Forwarded, encode_envelope_response, open_envelope
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from authorizerd.protocol.kafka.server_connection import KafkaRequest, frame_response
from tests.daemon.kafka_cluster import HANG_UP, SERVED, KafkaCluster, KafkaNode
from tests.support.acl_messages import (
    decode_create_acls,
    decode_delete_acls,
    encode_create_acls,
    encode_delete_acls,
    encode_envelope_error,
)
from tests.support.acls import acl

ALICE: Final = "User:alice"
HOST: Final = "10.0.0.9"
FIRST: Final = Address("first", 9093)
SECOND: Final = Address("second", 9093)
TIMEOUT_MS: Final = 10_000

CALLER: Final = RequestContext(
    principal=ALICE,
    host=HOST,
    request_name="CreateAcls",
    client_id="tool",
    authentication=Authentication.SCRAM,
)

Answer = Callable[[KafkaRequest], object]
"""The answer of a node to a request: it returns a frame, or one of the prepared answers."""


class AclCluster:
    """The committed ACLs of a cluster. Its nodes answer as the test prepares.

    ``forwarded`` are the Envelopes that were opened; ``asked_of`` has each request's node.
    """

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._network = KafkaCluster(nursery)
        self._ids = itertools.count(1)
        self.snapshot = at_offset(EMPTY_SNAPSHOT, 0)
        self.journal = AclJournal(1 << 20)
        self.journal.begin(0, "")
        self.forwarded: list[Forwarded] = []

    @property
    def acls(self) -> set[Acl]:
        return set(self.snapshot.acls.values())

    async def open_node(self, host: str, port: int) -> Node:
        return await open_node(Address(host, port), None, "authorizerd", self._network.connect)

    def add(self, address: Address, *answers: object) -> KafkaNode:
        """Add a node with these answers; then it makes every change."""
        served = {**SERVED, ApiKey.ENVELOPE: (0, 0)}
        node = self._network.add(address, *answers, served=served)
        node.answers = Endless(node.answers, self.apply)
        return node

    async def follow(self, *leaders: Address | None, **settings: Any) -> Follower:  # noqa: ANN401
        """Return a daemon that follows; a cluster without nodes gets ``FIRST``."""
        if not self._network.nodes:
            self.add(FIRST)
        follower = Follower(self, *leaders, **settings)
        await self._nursery.start(follower.updates.run)
        return follower

    def stop(self, address: Address) -> None:
        """Refuse new connections to a node."""
        del self._network.nodes[address]

    # Changes, as the active controller makes them.

    def commit(self, changes: Sequence[Change]) -> None:
        finish(self.journal.collect(self.snapshot, changes))
        changed = apply_changes(self.snapshot, changes)
        self.snapshot = at_offset(changed, self.snapshot.offset + len(changes))
        self.journal.commit(self.snapshot.offset)

    def create(self, acls: Sequence[Acl]) -> list[AclError | None]:
        plan = finish(
            plan_creations(AclTail(self.snapshot), acls, lambda: next(self._ids).to_bytes(16))
        )
        self.commit(plan.changes)
        return list(plan.result)

    def delete(self, filters: Sequence[AclFilter]) -> Sequence[Deleted]:
        plan = finish(plan_deletions(AclTail(self.snapshot), filters))
        self.commit(plan.changes)
        return plan.result

    # Answers.

    def apply(self, request: KafkaRequest) -> bytes:
        """Make the change, and answer."""
        return framed(request, self._answer(request, self._apply_inner))

    def apply_and_hang_up(self, request: KafkaRequest) -> object:
        """Make the change, and close the connection."""
        self.apply(request)
        return HANG_UP

    def apply_and_resign(self, request: KafkaRequest) -> bytes:
        """Make the change, and answer as a controller that has lost its role meanwhile."""
        self.apply(request)
        return self.fail(ErrorCode.NOT_CONTROLLER)(request)

    def apply_lose_and_resign(self, request: KafkaRequest) -> bytes:
        """Do the same, but another client deletes all ACLs before the answer."""
        self.apply(request)
        self.delete([AclFilter()])
        return self.fail(ErrorCode.NOT_CONTROLLER)(request)

    def fail(self, code: ErrorCode, text: str | None = None) -> Callable[[KafkaRequest], bytes]:
        """Return an answer that fails every item, or the Envelope if it can express the error."""
        error = ApiError(code, text)

        def answer(request: KafkaRequest) -> bytes:
            if request.api_key is ApiKey.ENVELOPE and text is None:
                return framed(request, [encode_envelope_error(code)])
            return framed(request, self._answer(request, partial(fail_items, error)))

        return answer

    def _answer(
        self, request: KafkaRequest, answer: Callable[[KafkaRequest], list[Chunk]]
    ) -> list[Chunk]:
        if request.api_key is not ApiKey.ENVELOPE:
            return answer(request)
        forwarded = finish(open_envelope(bytearray(request.body)))
        self.forwarded.append(forwarded)
        return encode_envelope_response(forwarded.request, answer(forwarded.request))

    def _apply_inner(self, request: KafkaRequest) -> list[Chunk]:
        version = request.api_version
        if request.api_key is ApiKey.CREATE_ACLS:
            errors = self.create(finish(decode_create_acls(version, request.body))[0])
            return finish(encode_create_acls(version, [to_api_error(each) for each in errors]))
        results = self.delete(finish(decode_delete_acls(version, request.body))[0])
        return finish(encode_delete_acls(version, [to_result(each) for each in results]))


class Endless(list[object]):
    """Prepared answers, followed by the same one for ever."""

    def __init__(self, answers: Sequence[object], last: Answer) -> None:
        super().__init__(answers)
        self._last = last

    def pop(self, index: Any = 0) -> object:  # noqa: ANN401
        return super().pop(index) if self else self._last


def framed(request: KafkaRequest, body: list[Chunk]) -> bytes:
    return b"".join(frame_response(request, body))


def fail_items(error: ApiError, request: KafkaRequest) -> list[Chunk]:
    version = request.api_version
    if request.api_key is ApiKey.CREATE_ACLS:
        count = len(finish(decode_create_acls(version, request.body))[0])
        return finish(encode_create_acls(version, [error] * count))
    count = len(finish(decode_delete_acls(version, request.body))[0])
    return finish(encode_delete_acls(version, [FilterResult(error=error)] * count))


def to_api_error(error: Exception | None) -> ApiError | None:
    return None if error is None else ApiError(ErrorCode.INVALID_REQUEST, str(error))


def to_result(deleted: Deleted) -> FilterResult:
    return FilterResult(
        matches=[MatchingAcl(acl=each) for each in deleted.acls], error=to_api_error(deleted.error)
    )


class Follower:
    """A daemon that follows the cluster. It reads what is committed when it confirms a change.

    ``lost`` are the nodes that were reported; each report makes the next of ``leaders`` the one to
    send to. ``confirmed`` are the arguments of each confirmation.
    """

    def __init__(
        self,
        cluster: AclCluster,
        *leaders: Address | None,
        writes: Writes = Writes.AS_SELF,
        kind: SourceKind = SourceKind.QUORUM,
        timeout_ms: int = TIMEOUT_MS,
        request_timeout_ms: int = 2 * TIMEOUT_MS,
        requests_max: int = 100,
        log_in: LogIn | None = None,
    ) -> None:
        self.cluster = cluster
        self.snapshot = Published[AclSnapshot | None](cluster.snapshot)
        self.leaders = list(leaders or (FIRST,))
        self.lost: list[Address] = []
        self.confirmed: list[tuple[Sequence[Acl], Sequence[AclFilter]]] = []
        self.may_read = trio.Event()
        self.may_read.set()
        self.can_read = True
        self.workers = 0
        self.has_right: bool | None = True
        updates = new_updates(
            FollowSettings(
                kind=kind,
                servers=(Server("first", 9093),),
                writes=writes,
                write_timeout_ms=request_timeout_ms,
                writes_forward_principals=frozenset({ALICE}),
                log_in=log_in,
            ),
            destination=self,
            open_node=cluster.open_node,
            snapshot=self.snapshot,
            journal=cluster.journal,
            is_super_user=lambda principal: principal == "User:root",
            may_alter=self.may_alter,
            requests_max=requests_max,
            timeout_ms=lambda: timeout_ms,
            applied_everywhere=self._applied_everywhere,
        )
        assert isinstance(updates, ForwardedUpdates)
        self.updates = updates

    def may_alter(self, _: RequestContext) -> bool:
        if self.has_right is None:
            raise NotReadyError("stopped")
        return self.has_right

    @property
    def address(self) -> Address | None:
        return self.leaders[0]

    def report_lost(self, address: Address) -> None:
        self.lost.append(address)
        if len(self.leaders) > 1:
            self.leaders.pop(0)

    async def confirm(
        self,
        created: Sequence[Acl],
        deleted: Sequence[AclFilter],
        *,
        acknowledged_by: Address | None = None,
    ) -> bool:
        self.confirmed.append((tuple(created), tuple(deleted)))
        await self.may_read.wait()
        await trio.lowlevel.checkpoint()
        if self.can_read:
            self.snapshot.publish(self.cluster.snapshot)
        return self.can_read

    async def _applied_everywhere(self) -> None:
        assert self.snapshot.newest is self.cluster.snapshot
        self.workers += 1

    @property
    def acls(self) -> set[Acl]:
        newest = self.snapshot.newest
        return set() if newest is None else set(newest.acls.values())

    def begin(self, count: int) -> list[Completion[None]]:
        """Begin creations of one ACL each."""
        return [
            self.updates.create([acl(topic=f"t{number}")], CALLER)[0] for number in range(count)
        ]

    async def create(self, *acls: Acl, caller: RequestContext = CALLER) -> list[object]:
        """Return each item's error or None."""
        return await results(self.updates.create(acls, caller))

    async def delete(self, *filters: AclFilter, caller: RequestContext = CALLER) -> list[Any]:
        """Return each filter's error, or the set of the deleted ACLs."""
        ended = await results(self.updates.delete(filters, caller))
        return [set(each.acls) if isinstance(each, Deleted) else each for each in ended]


async def results(completions: Sequence[Completion[Any]]) -> list[Any]:
    ended = []
    for completion in completions:
        await completion.wait_until_done()
        error = completion.error
        ended.append(completion.result() if error is None else error)
    return ended
