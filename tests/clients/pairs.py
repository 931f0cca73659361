"""Several daemons for one client."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from shutil import copytree

import trio

from authorizerd.acl.snapshot import AclSnapshot
from tests.daemon.decision_place import Place
from tests.daemon.stream_service import new_server, start_on_loopback
from tests.support.acls import acl, snapshot_of
from tests.support.daemon_process import DaemonProcess, running


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


def closed_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


async def start(nursery: trio.Nursery, offset: int | None) -> tuple[str, Place]:
    """Start a daemon's stream in this process, with one ACL at ``offset``; None: not ready."""
    place = Place(None, loaded=False)
    if offset is not None:
        place.snapshot.publish(new_snapshot(offset))
    return await start_on_loopback(nursery, new_server(place)), place


def new_snapshot(offset: int) -> AclSnapshot:
    return snapshot_of(acl("User:alice", "READ", topic="orders"), offset=offset)
