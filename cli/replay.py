"""``authorizerd replay``: replace this process with ``authorizerd.replay``, a separate program.

**Invariant:** this process imports nothing from that program. Because the program takes over the
process id, it receives the signals and sets the exit code.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final, NoReturn

from authorizerd.cli.errors import CommandError

# -P: a folder named "authorizerd" in the working directory must not be imported.
COMMAND: Final = ("-P", "-m", "authorizerd.replay")
# pyspark is not checked: the pipeline can find a Spark that is installed elsewhere.
MODULES: Final = ("jinja2", "pandas", "pyarrow", "yaml")
# They run without the extra. If `usage` or `whatif` needs Spark, its error names it.
_WITHOUT_EXTRA: Final = frozenset(("package", "report", "usage", "whatif"))
_HELP: Final = frozenset(("-h", "--help"))


def become_replay(words: Sequence[str]) -> NoReturn:
    """Replace this process with ``authorizerd.replay`` and these words."""
    missing = [name for name in MODULES if find_spec(name) is None]
    if (
        missing and _WITHOUT_EXTRA.isdisjoint(words[:1]) and _HELP.isdisjoint(words)
    ):  # help must work before the installation
        pip = f"{sys.executable} -m pip install 'authorizerd[replay]'"
        raise CommandError(f"replay: not installed: {', '.join(missing)}. Run: {pip}")
    # exec discards what Python still buffers.
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *COMMAND, *words])  # noqa: S606 - ourselves
