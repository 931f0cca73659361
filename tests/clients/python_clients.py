"""Both Python clients behind the same methods, and several daemons for one client."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from shutil import copytree
from typing import Any, TypeVar

import trio

from authorizerd.acl.snapshot import AclSnapshot
from authorizerd_client import Decisions, blocking
from authorizerd_client import trio as for_trio
from tests.daemon.decision_place import Place
from tests.daemon.stream_service import new_server, start_on_loopback
from tests.support.acls import acl, snapshot_of
from tests.support.daemon_process import DaemonProcess, running

SECONDS_MAX = 60
T = TypeVar("T")


class BlockingInThread:
    """The blocking client; each call runs in a thread."""

    def __init__(self, address: str | list[str], **options: Any) -> None:  # noqa: ANN401 - the client's options
        self._client = blocking.Client(address, **options)

    @property
    def offset(self) -> int:
        return self._client.offset

    async def connect(self) -> None:
        await _run(self._client.connect)

    async def decide(self, *arguments: object, **options: object) -> bool:
        return await _run(self._client.decide, *arguments, **options)

    async def decide_many(self, *arguments: object, **options: object) -> Decisions:
        return await _run(self._client.decide_many, *arguments, **options)

    async def filter_allowed(self, *arguments: object, **options: object) -> list[str]:
        return await _run(self._client.filter_allowed, *arguments, **options)

    async def read_offset(self) -> int:
        return await _run(self._client.read_offset)

    def require_offset(self, offset: int) -> None:
        self._client.require_offset(offset)

    def close(self) -> None:
        self._client.close()


async def _run(call: Callable[..., T], *arguments: object, **options: object) -> T:
    with trio.fail_after(SECONDS_MAX):
        return await trio.to_thread.run_sync(
            partial(call, *arguments, **options), abandon_on_cancel=True
        )


AnyClient = BlockingInThread | for_trio.Client
NewClient = Callable[..., AnyClient]
CLIENTS: dict[str, NewClient] = {"blocking": BlockingInThread, "trio": for_trio.Client}


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
