"""The blocking client, for scripts and threads.

    with Client("tcp://127.0.0.1:8183") as client:
        may = client.decide(Question("User:alice", "10.0.0.7", "READ", "TOPIC", "orders"))

    with watch("http://127.0.0.1:8181", token="ID.SECRET") as events:
        for event in events:
            ...

Every method blocks its thread until the answer arrives or the time limit expires. It runs the
coroutine of the same name in ``AsyncClient``. With blocking sockets, it never suspends.
"""

from __future__ import annotations

import math
import ssl
from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, cast

from authorizerd_client.blocking_runtime import BlockingRuntime
from authorizerd_client.client import AsyncClient
from authorizerd_client.daemons import FAILOVER_SECONDS
from authorizerd_client.protocol import FRAME_BYTES_MAX
from authorizerd_client.watch import SILENCE_SECONDS, AsyncAclWatch
from authorizerd_client.watch_values import AclEvent

P = ParamSpec("P")
T = TypeVar("T")


class _Calls(AsyncClient):
    _new_runtime = BlockingRuntime


class _Events(AsyncAclWatch):
    _new_runtime = BlockingRuntime


def _run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return cast(T, end.value)
    raise AssertionError("a blocking call was suspended")


def _blocking(
    method: Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Client, P], T]:
    """Return the method of ``Client`` with the same signature."""

    @wraps(method)
    def call(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return _run(method(self._calls, *args, **kwargs))

    return call


class Client:
    """A client with one connection at a time. Threads may share it; they take turns.

    It has the methods of ``AsyncClient``, behaves as that, and takes the same arguments, but for
    ``frames_in_flight_max``. Looking up a host name may take longer than
    ``connect_timeout_seconds``, since the operating system sets that limit.
    """

    def __init__(
        self,
        address: str | Sequence[str],
        *,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        timeout_seconds: float = 5.0,
        connect_timeout_seconds: float = 5.0,
        failover_timeout_seconds: float = FAILOVER_SECONDS,
        frame_bytes_max: int = FRAME_BYTES_MAX,
    ) -> None:
        self._calls = _Calls(
            address,
            token=token,
            tls=tls,
            timeout_seconds=timeout_seconds,
            connect_timeout_seconds=connect_timeout_seconds,
            failover_timeout_seconds=failover_timeout_seconds,
            frame_bytes_max=frame_bytes_max,
        )

    @property
    def offset(self) -> int:
        """Return the newest log offset that a daemon has named, -1 before the first."""
        return self._calls.offset

    connect = _blocking(AsyncClient.connect)
    decide = _blocking(AsyncClient.decide)
    decide_many = _blocking(AsyncClient.decide_many)
    filter_allowed = _blocking(AsyncClient.filter_allowed)
    read_offset = _blocking(AsyncClient.read_offset)

    def require_offset(self, offset: int) -> None:
        """Do as ``AsyncClient.require_offset``."""
        self._calls.require_offset(offset)

    def close(self) -> None:
        """Close the connection for good. A call in another thread raises ``ClosedError``."""
        self._calls.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class AclWatch:
    """An iterator of events: a ``Listing`` first, then every change.

    It behaves as ``AsyncAclWatch``, and takes the same arguments. ``close`` may be called from
    another thread, and ends the iteration.
    """

    def __init__(
        self,
        address: str | Sequence[str],
        *,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        connect_timeout_seconds: float = 5.0,
        silence_seconds: float = SILENCE_SECONDS,
        retry_seconds: float = math.inf,
    ) -> None:
        self._events = _Events(
            address,
            token=token,
            tls=tls,
            connect_timeout_seconds=connect_timeout_seconds,
            silence_seconds=silence_seconds,
            retry_seconds=retry_seconds,
        )

    def close(self) -> None:
        """End the watch."""
        self._events.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> AclEvent:
        """Wait for the next event; the errors are those of ``AsyncAclWatch``."""
        try:
            return _run(self._events.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None


watch = AclWatch
