"""The grants of a Kafka cluster: what is read, and sent, through one of its nodes.

A cluster compares nothing when it deletes an ACL, and a deletion names no uuid. So the notes and
the ACLs are read again right before each request.

**Invariant:** a request that must rest on a confirmed state is written to the connection at most
``FRESH_SECONDS`` after the confirmation began, usually after a few milliseconds.

Source: KIP-140 (CreateAcls, DeleteAcls, DescribeAcls), KIP-595 and KIP-836 (DescribeQuorum).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Final, Protocol, TypeVar

import trio

from authorizerd.acl.errors import StateMovedError
from authorizerd.acl.filters import filter_of
from authorizerd.acl.grants.book import GrantState
from authorizerd.acl.model import Acl, AclFilter, ResourceType
from authorizerd.acl.notes import NOTE_PRINCIPAL, is_note, name_note
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.actors.boot_clock import Clock, boot_time
from authorizerd.actors.grant_keeper import GrantAccessError
from authorizerd.actors.published import View
from authorizerd.daemon.sources.snapshot_grants import SnapshotGrants
from authorizerd.daemon.sources.source import Destination
from authorizerd.daemon.sources.writes.connections import Connections
from authorizerd.kafka_client.connection import Call, Node, OpenNode
from authorizerd.kafka_client.errors import ConnectionFailedError, RequestFailedError
from authorizerd.kafka_client.quorum_calls import describe_acls_call, describe_quorum_call
from authorizerd.protocol.kafka.acl_client import (
    encode_create_acls_request,
    encode_delete_acls_request,
    read_results,
)
from authorizerd.protocol.kafka.acls import FilterResult
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode

T = TypeVar("T")

POLL_SECONDS: Final = 5.0
"""How often notes are listed if no snapshot shows them."""
FRESH_SECONDS: Final = 2.0
REQUEST_MS: Final = 5_000
"""How long a node may take to answer. What it does later is seen at the next look."""

_NOTES: Final = AclFilter(resource_type=ResourceType.DELEGATION_TOKEN, principal=NOTE_PRINCIPAL)
_NO_ALTER: Final = "it needs ALTER on the cluster"


class Request(Protocol):
    """Sends a call to one node, at most once.

    Raises:
        ConnectionFailedError, RequestFailedError: the cluster cannot be asked.
    """

    async def __call__(self, call: Call[T], /) -> T: ...


class ClusterGrants:
    """Keeps the grants of a cluster, of which nothing else is known here.

    Args:
        connection: returns what identifies the connection of the last request.
    """

    def __init__(
        self, request: Request, connection: Callable[[], object], clock: Clock = boot_time
    ) -> None:
        self._request = request
        self._connection = connection
        self._clock = clock
        self._confirmed_at = -math.inf

    async def read_state(self) -> GrantState | None:
        """Return the notes, with all their ACLs as if they existed: ``confirm_state`` asks."""
        names = await self._list_note_names()
        return GrantState(names, lambda acl: not is_note(acl) or acl.resource_name in names)

    async def _list_note_names(self) -> frozenset[str]:
        names = ((acl.resource_name, acl) for acl in await self._describe(_NOTES))
        return frozenset(name for name, acl in names if acl == name_note(name))

    async def _describe(self, filter: AclFilter) -> Collection[Acl]:
        found = await self._ask(describe_acls_call(filter))
        if isinstance(found, ApiError):
            raise GrantAccessError(f"DescribeAcls: {found}")
        return found

    async def learn_ids(self, acls: Collection[Acl]) -> None:
        """Do nothing: a listing has no ids."""

    async def confirm_state(self, acls: Collection[Acl]) -> GrantState:
        self._confirmed_at = self._clock()
        # First the notes: an ACL is created with its note, so a later listing shows it.
        names = await self._list_note_names()
        connection = self._connection()
        present = {acl for acl in acls if await self._describe(filter_of(acl))}
        if self._connection() is not connection:
            # Another broker may lag, and lack the ACL of a note that the first one has shown.
            raise StateMovedError("the listings came from two connections")
        return GrantState(
            names, lambda acl: acl.resource_name in names if is_note(acl) else acl in present
        )

    async def read_clock_ms(self) -> int | None:
        described = await self._ask(describe_quorum_call())
        if isinstance(described, ApiError):
            raise GrantAccessError(f"the controller's clock cannot be read: {described}")
        if described.leader_time_ms is None:
            raise GrantAccessError("the controller's clock cannot be read: it is too old a release")
        return described.leader_time_ms

    async def create(self, acls: Sequence[Acl], state: GrantState) -> Sequence[str]:
        return await self._change(
            ApiKey.CREATE_ACLS,
            lambda version: encode_create_acls_request(version, acls),
            len(acls),
            is_confirmed=True,
        )

    async def delete(self, acls: Sequence[Acl], state: GrantState | None) -> Sequence[str]:
        filters = [filter_of(acl) for acl in acls]
        return await self._change(
            ApiKey.DELETE_ACLS,
            lambda version: encode_delete_acls_request(version, filters),
            len(filters),
            is_confirmed=state is not None,
        )

    async def _change(
        self, key: ApiKey, encode: Callable[[int], bytes], count: int, *, is_confirmed: bool
    ) -> Sequence[str]:
        is_late = False

        def encode_in_time(version: int) -> bytes:
            # Called as the request is written, after a connection was opened if necessary.
            nonlocal is_late
            is_late = is_confirmed and self._clock() > self._confirmed_at + FRESH_SECONDS
            if is_late:
                raise ValueError("the state was confirmed too long ago")
            return encode(version)

        def decode(version: int, body: bytes | bytearray) -> list[str]:
            return [_explain(each) for each in read_results(key, version, body, count)[0]]

        try:
            return await self._ask(Call(api_key=key, encode=encode_in_time, decode=decode))
        except GrantAccessError as error:
            if is_late:
                raise StateMovedError(str(error)) from error
            raise

    async def _ask(self, call: Call[T]) -> T:
        try:
            return await self._request(call)
        except (ConnectionFailedError, RequestFailedError) as error:
            raise GrantAccessError(str(error)) from error

    async def wait(self, seconds: float) -> None:
        await trio.sleep(min(seconds, POLL_SECONDS))


def _explain(result: ApiError | FilterResult | None) -> str:
    """Return the error of an item, or an empty text."""
    error = result.error if isinstance(result, FilterResult) else result
    if isinstance(result, FilterResult) and error is None:
        error = next((each.error for each in result.matches if each.error is not None), None)
    if error is None:
        return ""
    is_forbidden = error.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return f"{error}; {_NO_ALTER}" if is_forbidden else str(error)


class FollowedGrants(ClusterGrants):
    """Keeps the grants of the cluster that this daemon follows.

    Args:
        knows_ids: True if the snapshot has the cluster's uuids, so that a barrier confirms it.
    """

    def __init__(
        self,
        snapshot: View[AclSnapshot | None],
        destination: Destination,
        open_node: OpenNode,
        *,
        knows_ids: bool,
        clock: Clock = boot_time,
    ) -> None:
        super().__init__(self._send, lambda: self._node, clock)
        self._states = SnapshotGrants(snapshot, knows_ids=knows_ids)
        self._destination = destination
        self._knows_ids = knows_ids
        self._node: Node | None = None
        self.connections: Final = Connections(open_node)
        self.read_state = self._states.read_state  # type: ignore[method-assign]
        self.learn_ids = self._states.learn_ids  # type: ignore[method-assign]
        self.wait = self._states.wait  # type: ignore[method-assign]

    async def confirm_state(self, acls: Collection[Acl]) -> GrantState:
        if not self._knows_ids:
            return await super().confirm_state(acls)
        self._confirmed_at = self._clock()
        with trio.move_on_after(FRESH_SECONDS):
            if await self._destination.confirm((), ()):
                state = await self._states.read_state()
                if state is not None:
                    return state
        raise GrantAccessError("no active controller confirms the state")

    async def _send(self, call: Call[T], /) -> T:
        address = self._destination.address
        if address is None:
            raise ConnectionFailedError("no active controller or broker is known")
        connection = await self.connections.take(address)
        self._node = connection.node
        is_answered = False
        try:
            answer = await connection.node.request(call, REQUEST_MS)
            is_answered = True
        except RequestFailedError:
            is_answered = True  # nothing was sent
            raise
        except ConnectionFailedError:
            self._destination.report_lost(address)
            raise
        finally:
            if is_answered:
                await self.connections.give_back(connection)
            else:
                with trio.CancelScope(shield=True):
                    await connection.node.aclose()
        return answer
