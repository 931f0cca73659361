"""Run ``python -m authorizerd.replay``, which ``authorizerd replay`` executes."""

from __future__ import annotations

import sys
from typing import NoReturn

from authorizerd.cli.program.ending import end_by_signal, end_without_words, obey_signals
from authorizerd.cli.program.standard_streams import tolerate_lost_readers
from authorizerd.config.errors import OutputError
from authorizerd.replay.messages import EXIT_FAULT, MESSAGE


def run_and_exit() -> NoReturn:
    """Run the command and exit with its code, whatever happens to its standard streams."""
    end_without_words()
    from authorizerd.replay.cli import main  # this import takes most of the start-up time

    tolerate_lost_readers()
    try:
        obey_signals()
        code = main()
        sys.stdout.flush()
        end_without_words()
    except OutputError as error:
        print(f"{MESSAGE}{error}", file=sys.stderr)
        code = EXIT_FAULT
    except KeyboardInterrupt:
        print(f"{MESSAGE}stopped", file=sys.stderr)
        end_by_signal()
    sys.exit(code)


if __name__ == "__main__":
    run_and_exit()
