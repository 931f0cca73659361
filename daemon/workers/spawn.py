"""Start worker processes and the query process, which run the same program at one end of a feed.

**Invariant:** a worker inherits standard output and error, its feed, the sockets that it accepts
from, the audit lock and the workers' lock, and no other descriptor. If it held the parent's end of
a feed, it would not notice when the parent ends.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

import trio

FEED_FLAG: Final = "--feed-fd"
QUESTIONS_FLAG: Final = "--questions-fd"


async def start_query_process(questions: int) -> tuple[trio.SocketStream, trio.Process]:
    """Start the query process, as ``start_worker`` does.

    Args:
        questions: the descriptor of the socket from which it receives questions.
    """
    return await start_worker((questions,), QUESTIONS_FLAG, str(questions))


async def start_worker(
    inherited: Sequence[int], *flags: str
) -> tuple[trio.SocketStream, trio.Process]:
    """Start a process; return the daemon's end of its feed, and the process.

    Args:
        inherited: file descriptors that the process keeps, under the same numbers.
        flags: the command's further arguments.

    Raises:
        OSError: the system cannot start another process.
    """
    ours, theirs = trio.socket.socketpair()
    command = (sys.executable, "-P", "-m", "authorizerd.cli.main", "worker")
    try:
        # Shielded: if the start were cancelled halfway, nothing would kill the process.
        with theirs, trio.CancelScope(shield=True):
            process = await trio.lowlevel.open_process(
                [*command, FEED_FLAG, str(theirs.fileno()), *flags],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), *inherited),
                start_new_session=True,  # so that a terminal's Ctrl-C reaches only the daemon
                # Use this process's module path, never the working directory's modules.
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
    except BaseException:
        ours.close()
        raise
    return trio.SocketStream(ours), process
