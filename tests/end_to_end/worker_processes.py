"""The workers of a real daemon as the system sees them, and connections to each one of them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from tests.end_to_end.test_stream import Client
from tests.support.daemon_process import SECONDS_MAX, DaemonProcess

CONNECTIONS_MAX = 200


def children(pid: int) -> set[int]:
    """Return the processes that a process has started, and not waited for yet."""
    return {
        int(child)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text().split()
    }


def wait_until(holds: Callable[[], bool], what: str) -> None:
    give_up = time.monotonic() + SECONDS_MAX
    while not holds():
        assert time.monotonic() < give_up, what
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def server_of(client: Client, candidates: set[int]) -> int:
    """Return the process at the other end of a connection over IPv4 that it has answered on."""
    ends = (client.socket.getpeername()[1], client.socket.getsockname()[1])
    inodes = {
        fields[9]
        for fields in map(str.split, Path("/proc/net/tcp").read_text().splitlines()[1:])
        if tuple(int(fields[end].rpartition(":")[2], 16) for end in (1, 2)) == ends
    }
    for pid in candidates:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            try:
                target = os.readlink(descriptor)
            except FileNotFoundError:
                continue
            if target.removeprefix("socket:[").removesuffix("]") in inodes:
                return pid
    raise AssertionError(f"none of {candidates} serves {ends}")


def client_of_each(daemon: DaemonProcess, token: str | None = None) -> dict[int, Client]:
    """Return a connection to each worker: the kernel chooses, so connect until all are met."""
    workers = children(daemon.process.pid)
    clients: dict[int, Client] = {}
    for _ in range(CONNECTIONS_MAX):
        client = Client(daemon.ready["decision_stream"], token)
        worker = server_of(client, workers)
        if worker in clients:
            client.socket.close()
        clients.setdefault(worker, client)
        if len(clients) == len(workers):
            return clients
    raise AssertionError(f"of {workers} only {set(clients)} are met")
