"""``authorizerd replay``: hands its words on to ``ops.replay``, which stands around the daemon.

Law: nothing of ops is imported. This process becomes that one, so that its exit code is that
one's, and so is whatever signal it is sent.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

# -P: a folder named "ops" where the command is typed is not ours.
COMMAND: Final = ("-P", "-m", "ops.replay")


def become_replay(words: Sequence[str]) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *COMMAND, *words])  # noqa: S606 - ourselves
