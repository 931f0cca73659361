"""Words that a shell has probably made of an unquoted ``*``.

In a directory with files, a shell replaces ``--topic *`` by ``--topic`` and all names of files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable


def find_expanded(names: Iterable[str]) -> str | None:
    """Return a warning if one of the names is that of the only file here, or None. Blocks.

    If there are several files, the words after the first one are the evidence.
    """
    with os.scandir() as entries:
        visible = (entry.name for entry in entries if not entry.name.startswith("."))
        first, second = next(visible, None), next(visible, None)
    if first is None or second is not None or first not in names:
        return None
    return (
        f"'{first}' is also the only file in this directory: if a shell made this of *, put the *"
        " into quotes"
    )
