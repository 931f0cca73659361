"""The entry point of the console command ``authorizerd``."""

from __future__ import annotations

import sys
from typing import NoReturn

from authorizerd.cli.program.ending import end_without_words
from authorizerd.daemon.process.early_signals import hold_sighup


def run_and_exit() -> NoReturn:
    """Run the command. If it is ``serve``, block SIGHUP before importing the other modules."""
    end_without_words()
    hold_sighup(sys.argv[1:])
    from authorizerd.cli import main as command_line  # this import takes most of the start-up time

    command_line.run_and_exit()


if __name__ == "__main__":
    run_and_exit()
