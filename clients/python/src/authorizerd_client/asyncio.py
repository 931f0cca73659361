"""The client for asyncio.

async with Client("tcp://127.0.0.1:8183") as client:
    may = await client.decide(Question("User:alice", "10.0.0.7", "READ", "TOPIC", "orders"))

async with watch("http://127.0.0.1:8181", token="ID.SECRET") as events:
    async for event in events:
        ...
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from math import inf
from types import TracebackType
from typing import cast

from authorizerd_client.client import AsyncClient
from authorizerd_client.protocol import RECEIVE_BYTES
from authorizerd_client.runtime import Expired, TaskRuntime
from authorizerd_client.values import Address
from authorizerd_client.watch import AsyncAclWatch


class _Limit:
    def __init__(self, deadline: float) -> None:
        self._timeout = asyncio.timeout_at(deadline if deadline < inf else None)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await self._timeout.__aexit__(kind, error, traceback)
        except TimeoutError:
            raise Expired from None


class _Stream(asyncio.Protocol):
    """A connection. Unlike asyncio's streams, it yields all bytes that came before an error."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._error: Exception | None = None
        self._has_ended = False
        self._readable = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        # Pause the writer until everything is sent, so that no buffer grows.
        self._transport.set_write_buffer_limits(0)

    def data_received(self, data: bytes) -> None:
        self._received += data
        self._readable.set()
        if len(self._received) > RECEIVE_BYTES:
            self._transport.pause_reading()

    def eof_received(self) -> None:
        self._has_ended = True
        self._readable.set()

    def connection_lost(self, error: Exception | None) -> None:
        if error is not None:
            # After a write that failed, asyncio reads no more, but the peer's reason may be there.
            with suppress(OSError):
                connected = self._transport.get_extra_info("socket")
                self._received += os.read(connected.fileno(), RECEIVE_BYTES)
        self._error = error
        self._has_ended = True
        self._readable.set()
        self._writable.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    async def send_all(self, data: bytes) -> None:
        self._transport.write(data)
        await self._writable.wait()
        self._check()

    async def receive(self) -> bytes:
        await self._readable.wait()
        if self._received:
            data = bytes(self._received)
            self._received.clear()
            if not self._has_ended:
                self._readable.clear()
                self._transport.resume_reading()
            return data
        self._check()
        return b""

    def _check(self) -> None:
        if self._error is not None:
            raise ConnectionResetError(str(self._error)) from self._error

    def close(self) -> None:
        self._transport.abort()


class _Runtime(TaskRuntime):
    limit = _Limit
    new_event = asyncio.Event
    new_lock = asyncio.Lock

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep_until(self, moment: float) -> None:
        await asyncio.sleep(moment - self.now())

    async def connect(self, address: Address) -> _Stream:
        loop = asyncio.get_running_loop()
        if address.path is None:
            _, stream = await loop.create_connection(_Stream, address.host, address.port)
        else:
            _, stream = await loop.create_unix_connection(_Stream, address.path)
        return stream


class Client(AsyncClient):
    """A client with one connection at a time, for any number of tasks of one event loop."""

    _new_runtime = _Runtime


class AclWatch(AsyncAclWatch):
    """The ACLs of a daemon and all their changes, for one task of an event loop."""

    _new_runtime = _Runtime


watch = AclWatch
