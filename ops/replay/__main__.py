"""``python -m ops.replay``, which ``authorizerd replay`` becomes."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from ops.replay.command_line import main
from ops.replay.messages import EXIT_FAULT


def run_and_exit() -> NoReturn:
    """Run, and end quietly if whoever reads has read enough."""
    code = main()
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = EXIT_FAULT
    sys.exit(code)


if __name__ == "__main__":
    run_and_exit()
