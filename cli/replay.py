"""``authorizerd replay``: hands its words on to ``replay``, which stands around the daemon.

**Invariant:** nothing of the pipeline is imported. This process becomes the pipeline's, so its exit
code and the signals sent to it are the pipeline's too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final, NoReturn

from authorizerd.daemon.errors import StartError

# -P: a folder named "authorizerd" in the working directory must not be imported.
COMMAND: Final = ("-P", "-m", "authorizerd.replay")
# Without pyspark there may be a Spark elsewhere, which is for the pipeline to find.
MODULES: Final = ("pyarrow", "yaml")


def become_replay(words: Sequence[str]) -> NoReturn:
    """Run ``replay`` with these words.

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
