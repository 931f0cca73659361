"""``authorizerd replay``: hands its words on to ``ops.replay``, which stands around the daemon.

Law: nothing of ops is imported. This process becomes that one, so that its exit code is that
one's, and so is whatever signal it is sent.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final, NoReturn

from daemon.errors import StartError

# -P: a folder named "ops" where the command is typed is not ours.
COMMAND: Final = ("-P", "-m", "ops.replay")
# Without pyspark there may be a Spark elsewhere, which is for the pipeline to find.
MODULES: Final = ("pyarrow", "yaml")


def become_replay(words: Sequence[str]) -> NoReturn:
    """Run ``ops.replay`` with these words.

    Raises:
        StartError: the daemon was installed without what the pipeline needs.
    """
    missing = [name for name in MODULES if find_spec(name) is None]
    if missing:
        pip = f"{sys.executable} -m pip install 'authorizerd[replay]'"
        raise StartError(f"replay: not installed: {', '.join(missing)}; {pip}")
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *COMMAND, *words])  # noqa: S606 - ourselves
