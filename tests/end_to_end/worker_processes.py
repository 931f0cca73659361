"""The workers of a real daemon: their processes, and a connection to each."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tests.support.daemon_process import DaemonProcess, ask, running
from tests.support.stream_connection import StreamConnection
from tools.processes import children_of

CONNECTIONS_MAX: Final = 200
SETTINGS: Final = {"super.users": "User:ANONYMOUS", "authorizerd.workers": "2"}


@contextmanager
def two_workers(folder: Path, log_dir: Path, **settings: str) -> Iterator[DaemonProcess]:
    with running(folder, log_dir, SETTINGS, **settings) as daemon:
        assert daemon.metric("authorizerd_workers") == 2
        assert ask(daemon.admin, "GET", "/readyz").status == 200
        yield daemon


def children(pid: int) -> set[int]:
    """Return the child processes of a process, without the query process."""
    return {*children_of(pid)} - {query_process(pid)}


def query_process(pid: int) -> int | None:
    """Return the process id of a daemon's query process, None if there is none."""
    found = (each for each in children_of(pid) if b"--questions-fd" in _command(each))
    return next(found, None)


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def state_of(pid: int) -> str:
    """Return the state letter of a process; Z, the letter of a zombie, if the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "Z"


def is_alive(pid: int) -> bool:
    return state_of(pid) != "Z"


def sockets_of(pid: int) -> set[str]:
    """Return the sockets that a process has open, as ``socket:[<inode>]``."""
    targets: set[str] = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # it has been closed meanwhile
            targets.add(os.readlink(descriptor))
    return {each for each in targets if each.startswith("socket:")}


def server_of(client: StreamConnection, candidates: set[int]) -> int:
    """Return which of ``candidates`` serves this IPv4 connection."""
    ends = (client.socket.getpeername()[1], client.socket.getsockname()[1])
    inodes = {
        f"socket:[{fields[9]}]"
        for fields in map(str.split, Path("/proc/net/tcp").read_text().splitlines()[1:])
        if tuple(int(fields[end].rpartition(":")[2], 16) for end in (1, 2)) == ends
    }
    for pid in candidates:
        if inodes & sockets_of(pid):
            return pid
    raise AssertionError(f"none of {candidates} serves {ends}")


def client_of_each(daemon: DaemonProcess, token: str | None = None) -> dict[int, StreamConnection]:
    """Return a connection to each worker. The kernel chooses one, so connect until all have one."""
    workers = children(daemon.process.pid)
    clients: dict[int, StreamConnection] = {}
    for _ in range(CONNECTIONS_MAX):
        client = StreamConnection(daemon.ready["decision_stream"], token)
        worker = server_of(client, workers)
        if worker in clients:
            client.close()
        clients.setdefault(worker, client)
        if len(clients) == len(workers):
            return clients
    raise AssertionError(f"of {workers}, only {set(clients)} accepted connections")
