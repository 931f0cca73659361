"""The exit codes of a job, and the prefixes of the lines that its driver prints.

**Invariant:** Spark merges the two output streams of a Python driver, and adds its own log. Only
these prefixes separate the lines again.
"""

from __future__ import annotations

import sys
from typing import Final

MESSAGE: Final = "authorizerd replay: "  # to the user's standard error
PROGRESS: Final = f"{MESSAGE}running: "  # likewise; a terminal shows only the latest
TRACE: Final = "authorizerd replay trace: "  # to the log file that is kept after a fault

PLAN_FLAG: Final = "--plan"
"""The application's first argument, if a plan file follows."""
STOP_FILE: Final = "AUTHORIZERD_REPLAY_STOP"
"""The environment variable that names a file; a watch ends once the file exists."""

EXIT_DONE: Final = 0
EXIT_FAULT: Final = 1
EXIT_ARGUMENTS: Final = 2  # argparse's own; a test compares docs/command-line.md with this list
EXIT_DENIED: Final = 3
EXIT_NO_EVIDENCE: Final = 5


def say(text: str) -> None:
    """Print a message to the user's standard error."""
    print(f"{MESSAGE}{text}", file=sys.stderr, flush=True)
