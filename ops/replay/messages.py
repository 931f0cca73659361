"""How a job's driver speaks to whoever started it: each line says by its beginning whom it is for.

**Invariant:** Spark merges what a Python driver writes to its two streams, and its own log stands
between. These beginnings alone take them apart again.
"""

from __future__ import annotations

from typing import Final

MESSAGE: Final = "authorizerd replay: "  # for the user's standard error
PROGRESS: Final = f"{MESSAGE}running: "  # likewise; on a terminal each replaces the one before
TRACE: Final = "authorizerd replay trace: "  # for the file that is kept of a fault

EXIT_DONE: Final = 0
EXIT_FAULT: Final = 1
EXIT_ARGUMENTS: Final = 2
EXIT_DENIED: Final = 3
