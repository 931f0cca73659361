"""Run ``python -m authorizerd.replay``, which ``authorizerd replay`` executes."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from authorizerd.replay.cli import main


def run_and_exit() -> NoReturn:
    """Run the command and exit with its code, even if a closed pipe makes the last flush fail."""
    code = main()
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


if __name__ == "__main__":
    run_and_exit()
