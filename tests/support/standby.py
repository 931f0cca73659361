"""A child process that a forked daemon has from its start, and uses as its first query process.

A query process would otherwise be a program, whose start takes as long as that of the daemon. The
workers, and a query process that replaces another, are programs.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
from collections.abc import Sequence
from contextlib import suppress

import trio

from authorizerd.daemon.workers import spawn

REQUEST_BYTES_MAX = 1 << 16
PASSED_MAX = 8
DESCRIPTORS_MAX = 512
"""Above each descriptor that a daemon passes on."""

start_program = spawn.start_worker


class Standby:
    """The daemon's end, with the interface of trio's processes."""

    def __init__(self, process_id: int, requests: socket.socket) -> None:
        self.pid = process_id
        self._requests = requests
        self._is_used = False
        self._ended = os.pidfd_open(process_id)
        self._code: int | None = None

    async def start(
        self, inherited: Sequence[int], *flags: str
    ) -> tuple[trio.SocketStream, trio.Process | Standby]:
        """Do what ``start_worker`` does, with this process unless it is in use."""
        if self._is_used:
            return await start_program(inherited, *flags)
        self._is_used = True
        ours, theirs = trio.socket.socketpair()
        with theirs:
            words = ["worker", spawn.FEED_FLAG, str(theirs.fileno()), *flags]
            descriptors = [theirs.fileno(), *inherited]
            request = json.dumps([words, descriptors]).encode()
            socket.send_fds(self._requests, [request], descriptors)
        return trio.SocketStream(ours), self

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._ended, signal.SIGKILL)

    async def wait(self) -> int:
        await trio.lowlevel.wait_readable(self._ended)
        if self._code is None:
            self._code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])  # noqa: ASYNC222 - it has ended
        return self._code


def fork_standby(words: list[str]) -> list[str]:
    """Fork the child, which ends with the daemon.

    Returns: the daemon's arguments, and in the child, its own once the daemon uses it.
    """
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if process_id := os.fork():
        far.close()
        spawn.start_worker = Standby(process_id, near).start  # type: ignore[assignment]
        return words
    near.close()
    with far:
        request, passed, _, _ = socket.recv_fds(far, REQUEST_BYTES_MAX, PASSED_MAX)
    if not request:
        os._exit(0)
    words, numbers = json.loads(request)
    # The numbers are free once all descriptors are above them.
    above = [fcntl.fcntl(each, fcntl.F_DUPFD, DESCRIPTORS_MAX) for each in passed]
    for each in passed:
        os.close(each)
    for descriptor, number in zip(above, numbers, strict=True):
        os.dup2(descriptor, number)
        os.close(descriptor)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.setsid()
    return words
