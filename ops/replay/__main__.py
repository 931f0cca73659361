"""``python -m authorizerd.replay``, which ``authorizerd replay`` becomes."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from authorizerd.replay.cli import main


def run_and_exit() -> NoReturn:
    """Run; a reader that has read enough changes no exit code."""
    code = main()
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


if __name__ == "__main__":
    run_and_exit()
