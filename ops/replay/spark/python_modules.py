"""Check the modules of the driver's Python before anything imports them.

**Invariant:** this module imports nothing that may be missing, since it reports missing modules.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Final

DRIVER_MODULES: Final = ("immutables", "msgspec", "pyarrow", "pandas")
"""PySpark needs pandas where ``mapInArrow`` is called, but not where the function runs."""
COMMAND_MODULES: Final = (*DRIVER_MODULES, "crc32c")
"""A driver that reads ACLs also needs the checksum module for metadata logs."""
PYTHON_MIN: Final = (3, 11)


def missing_modules(names: Iterable[str]) -> tuple[str, ...]:
    """Return the ``names`` that this Python cannot import, and the minimum if it is too old."""
    missing = tuple(name for name in names if not _is_importable(name))
    if sys.version_info < PYTHON_MIN:
        return (f"Python {'.'.join(map(str, PYTHON_MIN))}", *missing)
    return missing


def _is_importable(name: str) -> bool:
    try:
        import_module(name)
    except ImportError:  # also raised for a wheel of another platform
        return False
    return True
