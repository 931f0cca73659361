"""A process that forks for each command of ``authorizerd``, after it has imported the daemon.

A daemon's imports take longer than most tests. ``forked_command`` starts this program. It and
``forked_program`` send requests. What depends on the start or the end of the interpreter is tested
with programs of their own, for example in ``end_to_end/test_ending`` and ``cli/test_start``.
"""

import atexit
import fcntl
import gc
import json
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from types import FrameType
from typing import NoReturn

REQUEST_BYTES_MAX = 1 << 20
DESCRIPTORS_MAX = 16
DESCRIPTORS_END = 512
"""Above each descriptor that a command inherits."""


def fork_for_each(owner: socket.socket, listener: socket.socket) -> list[str]:
    """Fork for each request until the other end is closed; return in each command's process.

    Args:
        owner: a connection; its end is that of the server.
        listener: what each asker connects to, to send its only request.

    Returns: the command's arguments.

    Raises:
        SystemExit: in the server, once the other end is closed.
    """
    signal.signal(signal.SIGCHLD, _reap)
    # A terminal sends it to all processes. Only the commands obey it, once they have unblocked it.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    while True:
        readable, _, _ = select.select([owner, listener], [], [])
        if owner in readable:
            sys.exit(0)
        with listener.accept()[0] as asker:
            request, passed, _, _ = socket.recv_fds(asker, REQUEST_BYTES_MAX, DESCRIPTORS_MAX)
        if not request:  # the asker was killed
            continue
        told, *inherited = passed
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _fork_and_wait(told, inherited)
            return _become(request, inherited)
        for descriptor in passed:
            os.close(descriptor)


def _reap(number: int, frame: FrameType | None) -> None:
    """Take back the processes that wait for commands."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass


def _fork_and_wait(told: int, inherited: list[int]) -> None:
    """Return in a new process. The calling one reports its end, or kills it with its asker."""
    process_id = os.fork()
    if process_id == 0:
        return
    for descriptor in inherited:
        os.close(descriptor)
    process = os.pidfd_open(process_id)
    ending = select.poll()
    ending.register(process, select.POLLIN)
    ending.register(told, select.POLLERR)  # its other end is closed
    with suppress(BrokenPipeError):
        os.write(told, b"%d\n" % process_id)
        if told not in dict(ending.poll()):
            _, status = os.waitpid(process_id, 0)
            os.write(told, b"%d\n" % os.waitstatus_to_exitcode(status))
            os._exit(0)
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(process, signal.SIGKILL)
    os._exit(0)


def _become(request: bytes, inherited: list[int]) -> list[str]:
    """Take over the descriptors, the environment and the folder, as a new program does."""
    asked = json.loads(request)
    # The numbers are free once all descriptors are above them.
    above = [fcntl.fcntl(each, fcntl.F_DUPFD, DESCRIPTORS_END) for each in inherited]
    os.closerange(3, DESCRIPTORS_END)
    for descriptor, number in zip(above, asked["numbers"], strict=True):
        os.dup2(descriptor, number, inheritable=True)
    os.closerange(DESCRIPTORS_END, os.sysconf("SC_OPEN_MAX"))
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
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
        folder, *numbers = sys.argv[1:]
        owner, listener = (socket.socket(fileno=int(each)) for each in numbers)
        sys.argv[1:] = fork_for_each(owner, listener)
        if sys.argv[1:2] == ["serve"]:
            sys.executable = f"{folder}/python"  # it forks the query process
        for closed in (owner, listener):
            closed.detach()
        run_and_exit()
    except SystemExit as end:
        if isinstance(end.code, int):  # otherwise, Python prints a text
            codes.append(end.code)
        raise


if __name__ == "__main__":
    main()
