"""A process that forks for each command of ``authorizerd``, after it has imported the daemon.

A daemon's imports take longer than most tests. ``forked_command`` starts this program. What depends
on the start or the end of the interpreter is tested with programs of their own, for example in
``end_to_end/test_ending`` and ``cli/test_start``.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import signal
import socket
import sys
from contextlib import suppress
from types import FrameType
from typing import NoReturn

REQUEST_BYTES_MAX = 1 << 20
DESCRIPTORS = 4
"""A command's standard input, output and error, and where its process id and its end are told."""


def fork_for_each(requests: socket.socket) -> list[str]:
    """Fork for each request until the other end is closed; return in each command's process.

    Returns: the command's arguments.

    Raises:
        SystemExit: in the server, once the other end is closed.
    """
    signal.signal(signal.SIGCHLD, _reap)
    # A terminal sends it to all processes. Only the commands obey it, once they have unblocked it.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    while True:
        request, passed, _, _ = socket.recv_fds(requests, REQUEST_BYTES_MAX, DESCRIPTORS)
        if not request:
            sys.exit(0)
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _fork_and_wait(passed)
            return _become(request, passed)
        for descriptor in passed:
            os.close(descriptor)


def _reap(number: int, frame: FrameType | None) -> None:
    """Take back the processes that wait for commands."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass


def _fork_and_wait(passed: list[int]) -> None:
    """Return in a new process. The calling process tells how it ends, and ends too."""
    *standard, told = passed
    process_id = os.fork()
    if process_id == 0:
        return
    for descriptor in standard:
        os.close(descriptor)
    os.write(told, b"%d\n" % process_id)
    _, status = os.waitpid(process_id, 0)
    os.write(told, b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def _become(request: bytes, passed: list[int]) -> list[str]:
    """Take over the standard streams and the environment, as a new program does."""
    for number, descriptor in enumerate(passed[:3]):
        os.dup2(descriptor, number, inheritable=True)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    asked = json.loads(request)
    os.environ.clear()
    os.environ.update(asked["environment"])
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    arguments: list[str] = asked["arguments"]
    return arguments


def skip_unloading(codes: list[int]) -> None:
    """End with the exit code, which is the list's only item; do nothing if it is empty.

    Unloading all modules would take longer than most commands. Raise an error if a stream cannot be
    flushed: Python then ends the process with its own exit code.
    """
    if codes:
        gc.collect()  # unloading would report coroutines that nobody awaited
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(codes[0])


def main() -> NoReturn:
    codes: list[int] = []
    # What is registered first runs last: after all threads have ended and logs are flushed.
    atexit.register(skip_unloading, codes)

    import authorizerd.daemon.lifespan  # what ``serve`` would import
    import authorizerd.daemon.origins.followed_cluster  # noqa: F401
    from authorizerd.cli.main import run_and_exit

    gc.collect()
    gc.freeze()  # processes then neither copy nor search the objects that all of them have
    try:
        with socket.socket(fileno=int(sys.argv[1])) as requests:
            sys.argv[1:] = fork_for_each(requests)
            requests.detach()  # it is closed
        run_and_exit()
    except SystemExit as end:
        if isinstance(end.code, int):  # otherwise, Python prints a text
            codes.append(end.code)
        raise


if __name__ == "__main__":
    main()
