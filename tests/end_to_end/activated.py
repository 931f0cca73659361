"""Run a module's command with inherited listening sockets, as systemd does.

python -m tests.end_to_end.activated 17:decision_http,18:PLAINTEXT authorizerd.cli.main serve …
"""

import fcntl
import os
import sys
from typing import Final

FIRST: Final = 3
OUT_OF_THE_WAY: Final = 100


def main() -> None:
    """Move the descriptors to 3, 4, … and replace this process."""
    named, *command = sys.argv[1:]
    descriptors, names = zip(*(each.split(":") for each in named.split(",")), strict=True)
    moved = [fcntl.fcntl(int(each), fcntl.F_DUPFD_CLOEXEC, OUT_OF_THE_WAY) for each in descriptors]
    for number, descriptor in enumerate(moved, FIRST):
        os.dup2(descriptor, number)
    environment = {
        "LISTEN_PID": str(os.getpid()),
        "LISTEN_FDS": str(len(names)),
        "LISTEN_FDNAMES": ":".join(names),
    }
    os.execve(sys.executable, [sys.executable, "-m", *command], {**os.environ, **environment})


if __name__ == "__main__":
    main()
