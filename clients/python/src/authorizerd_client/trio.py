"""The client for trio.

async with Client("tcp://127.0.0.1:8183") as client:
    may = await client.decide(Question("User:alice", "10.0.0.7", "READ", "TOPIC", "orders"))

async with watch("http://127.0.0.1:8181", token="ID.SECRET") as events:
    async for event in events:
        ...
"""

from __future__ import annotations

from types import TracebackType
from typing import Final

import trio

from authorizerd_client.client import AsyncClient
from authorizerd_client.protocol import RECEIVE_BYTES
from authorizerd_client.runtime import Expired, TaskRuntime
from authorizerd_client.values import Address
from authorizerd_client.watch import AsyncAclWatch

_BROKEN: Final = (trio.BrokenResourceError, trio.ClosedResourceError)


class _Limit:
    def __init__(self, deadline: float) -> None:
        self._scope = trio.CancelScope(deadline=deadline)

    async def __aenter__(self) -> None:
        self._scope.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._scope.__exit__(kind, error, traceback)
        if self._scope.cancelled_caught:
            raise Expired


class _Stream:
    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream

    async def send_all(self, data: bytes) -> None:
        try:
            await self._stream.send_all(data)
        except _BROKEN as error:
            raise OSError(str(error)) from error

    async def receive(self) -> bytes:
        try:
            return bytes(await self._stream.receive_some(RECEIVE_BYTES))
        except _BROKEN as error:
            raise OSError(str(error)) from error

    def close(self) -> None:
        self._stream.socket.close()  # `aclose` must be awaited


class _Runtime(TaskRuntime):
    limit = _Limit
    new_event = trio.Event
    new_lock = trio.Lock

    def now(self) -> float:
        return trio.current_time()

    async def sleep_until(self, moment: float) -> None:
        await trio.sleep_until(max(moment, trio.current_time()))

    async def connect(self, address: Address) -> _Stream:
        if address.path is None:
            return _Stream(await trio.open_tcp_stream(address.host, address.port))
        return _Stream(await trio.open_unix_socket(address.path))


class Client(AsyncClient):
    """A client with one connection at a time, for any number of tasks of one trio program."""

    _new_runtime = _Runtime


class AclWatch(AsyncAclWatch):
    """The ACLs of a daemon and all their changes, for one task of a trio program."""

    _new_runtime = _Runtime


watch = AclWatch
