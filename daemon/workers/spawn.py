"""Worker processes, started: the same program anew, with one end of a feed.

Law: a worker gets its feed, and the sockets that it is to accept from, and nothing else that is
open here: its parent's end of any feed least of all, or it would not see its parent go.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

import trio

FEED_FLAG: Final = "--feed-fd"


async def start_worker(inherited: Sequence[int]) -> tuple[trio.SocketStream, trio.Process]:
    """Start a process; return our end of its feed, and the process.

    Args:
        inherited: file descriptors that it keeps, by the same numbers.

    Raises:
        OSError: there is no room for another process.
    """
    ours, theirs = trio.socket.socketpair()
    command = (sys.executable, "-P", "-m", "authorizerd.cli.main", "worker")
    try:
        with theirs, trio.CancelScope(shield=True):
            process = await trio.lowlevel.open_process(
                [*command, FEED_FLAG, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), *inherited),
                start_new_session=True,  # a terminal's Ctrl-C is the daemon's to hand down
                # It finds its modules where we did, whatever lies in the working directory.
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
    except BaseException:
        ours.close()
        raise
    return trio.SocketStream(ours), process
