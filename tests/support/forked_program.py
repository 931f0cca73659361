"""A program that is like ``authorizerd``, but is a fork of ``command_server``.

It imports little, so it needs a tenth of the time of ``authorizerd``. Run it by ``python -IS``. The
first argument is the server's folder. The command obeys the signals that this program gets, and is
killed if this program is.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise

SOCKET = "socket"
"""Where the server listens, in its folder."""
PASSED_ON = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


def request_fork(
    server: str, arguments: Sequence[str], folder: str, told: int, inherited: Mapping[int, int]
) -> None:
    """Ask for a command with the environment of this process.

    Args:
        server: the server's folder.
        folder: where the command runs.
        told: the pipe for its process id and its exit code.
        inherited: its descriptors. The keys are their numbers there.
    """
    request = {
        "arguments": arguments,
        "environment": dict(os.environ),
        "folder": folder,
        "numbers": [*inherited],
    }
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(f"{server}/{SOCKET}")
        data = json.dumps(request).encode()
        socket.send_fds(connection, [data], [told, *inherited.values()])


def main() -> None:
    server, *arguments = sys.argv[1:]
    told, tell = os.pipe()
    named = [int(value) for flag, value in pairwise(arguments) if flag.endswith("-fd")]
    inherited = {each: each for each in (0, 1, 2, *named)}
    request_fork(server, arguments, os.getcwd(), tell, inherited)
    for each in (tell, *named):
        os.close(each)
    with open(told, "rb", buffering=0) as lines:
        process_id = int(lines.readline())
        for number in PASSED_ON:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, lambda number, frame: os.kill(process_id, number))
        code = int(lines.readline())
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main()
