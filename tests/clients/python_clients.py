"""The Python clients behind the same methods, and several daemons for one client."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from shutil import copytree
from typing import Any, Self, TypeVar

import trio
from trio.testing import wait_all_tasks_blocked

from authorizerd.acl.snapshot import AclSnapshot
from authorizerd_client import AclEvent, Decisions, blocking
from authorizerd_client import asyncio as for_asyncio
from authorizerd_client import trio as for_trio
from authorizerd_client.watch import AsyncAclWatch
from tests.clients.remote_clients import RemoteClient
from tests.daemon.decision_place import Place
from tests.daemon.stream_service import new_server, start_on_loopback
from tests.support.acls import acl, snapshot_of
from tests.support.daemon_process import DaemonProcess, running

SECONDS_MAX = 60
T = TypeVar("T")


async def _run_in_thread(call: Callable[[], T]) -> T:
    with trio.fail_after(SECONDS_MAX):
        return await trio.to_thread.run_sync(call, abandon_on_cancel=True)


@cache
def _asyncio_loop() -> asyncio.AbstractEventLoop:
    """Return asyncio's event loop, which runs in a thread until the process ends."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return loop


async def _run_in_asyncio(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in asyncio's loop. If this task is cancelled, so is the coroutine."""
    token, is_done = trio.lowlevel.current_trio_token(), trio.Event()

    def wake(_: object) -> None:
        with suppress(trio.RunFinishedError):
            token.run_sync_soon(is_done.set)

    future = asyncio.run_coroutine_threadsafe(coroutine, _asyncio_loop())
    future.add_done_callback(wake)
    try:
        with trio.fail_after(SECONDS_MAX):
            await is_done.wait()
    finally:
        future.cancel()
    return future.result()


class Elsewhere:
    """A client whose calls run outside of trio."""

    _client: blocking.Client | for_asyncio.Client

    async def _call(self, name: str, *arguments: object, **options: object) -> Any:  # noqa: ANN401 - of any method
        raise NotImplementedError

    @property
    def offset(self) -> int:
        return self._client.offset

    async def connect(self) -> None:
        await self._call("connect")

    async def decide(self, *arguments: object, **options: object) -> bool:
        return bool(await self._call("decide", *arguments, **options))

    async def decide_many(self, *arguments: object, **options: object) -> Decisions:
        decisions = await self._call("decide_many", *arguments, **options)
        assert isinstance(decisions, Decisions)
        return decisions

    async def filter_allowed(self, *arguments: object, **options: object) -> list[str]:
        return list(await self._call("filter_allowed", *arguments, **options))

    async def read_offset(self) -> int:
        return int(await self._call("read_offset"))

    def require_offset(self, offset: int) -> None:
        self._client.require_offset(offset)

    def close(self) -> None:
        self._client.close()


class BlockingInThread(Elsewhere):
    """The blocking client; each call runs in a thread."""

    def __init__(self, address: str | list[str], **options: Any) -> None:  # noqa: ANN401 - the client's options
        self._client = blocking.Client(address, **options)

    async def _call(self, name: str, *arguments: object, **options: object) -> Any:  # noqa: ANN401
        return await _run_in_thread(partial(getattr(self._client, name), *arguments, **options))


class AsyncioInThread(Elsewhere):
    """The client for asyncio; its calls run in asyncio's loop."""

    def __init__(self, address: str | list[str], **options: Any) -> None:  # noqa: ANN401 - the client's options
        self._client = for_asyncio.Client(address, **options)

    async def _call(self, name: str, *arguments: object, **options: object) -> Any:  # noqa: ANN401
        return await _run_in_asyncio(getattr(self._client, name)(*arguments, **options))

    def close(self) -> None:
        _asyncio_loop().call_soon_threadsafe(self._client.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        self.close()


AnyClient = BlockingInThread | AsyncioInThread | for_trio.Client | RemoteClient
NewClient = Callable[..., AnyClient]
NewTaskClient = Callable[..., AsyncioInThread | for_trio.Client]
CLIENTS: dict[str, NewClient] = {
    "blocking": BlockingInThread, "trio": for_trio.Client, "asyncio": AsyncioInThread,
}  # fmt: skip
WATCHES: dict[str, Callable[..., blocking.AclWatch | AsyncAclWatch]] = {
    "blocking": blocking.watch, "trio": for_trio.watch, "asyncio": for_asyncio.watch,
}  # fmt: skip


class Events:
    """A watch of any client."""

    def __init__(self, kind: str, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - of `watch`
        self._watch = WATCHES[kind](*arguments, **options)

    async def next(self) -> AclEvent:
        if isinstance(self._watch, blocking.AclWatch):
            return await _run_in_thread(self._watch.__next__)
        if isinstance(self._watch, for_asyncio.AclWatch):
            return await _run_in_asyncio(self._watch.__anext__())
        with trio.fail_after(SECONDS_MAX):
            return await self._watch.__anext__()

    def close(self) -> None:
        if isinstance(self._watch, for_asyncio.AclWatch):
            _asyncio_loop().call_soon_threadsafe(self._watch.close)
        else:
            self._watch.close()


async def wait_until_quiet() -> None:
    """Wait until the tasks of both event loops have done what they can do now."""
    for _ in range(2):
        await wait_all_tasks_blocked(0.03)
        await _run_in_asyncio(asyncio.sleep(0.03))


@contextmanager
def running_pair(folder: Path, log: Path) -> Iterator[tuple[DaemonProcess, DaemonProcess]]:
    """Start two daemons with the same ACLs."""
    with ExitStack() as stack:
        pair = []
        for name in ("first", "second"):
            (folder / name).mkdir()
            log_dir = Path(copytree(log, folder / name / "log"))
            pair.append(stack.enter_context(running(folder / name, log_dir)))
        yield pair[0], pair[1]


async def start(nursery: trio.Nursery, offset: int | None) -> tuple[str, Place]:
    """Start a daemon's stream in this process, with one ACL at ``offset``; None: not ready."""
    place = Place(None, loaded=False)
    if offset is not None:
        place.snapshot.publish(new_snapshot(offset))
    return await start_on_loopback(nursery, new_server(place)), place


def new_snapshot(offset: int) -> AclSnapshot:
    return snapshot_of(acl("User:alice", "READ", topic="orders"), offset=offset)
