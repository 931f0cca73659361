"""Start a program that may read everything, but write only below some directories (Landlock).

``python -m tests.support.landlock DIRECTORY… -- PROGRAM ARGUMENT…``. Needs Linux 6.2, but no root.

Source: landlock(7). The C library has no functions for these system calls.
"""

import ctypes
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

TRUNCATE_ABI: Final = 3
"""The first version of the interface that also restricts how files are cut."""

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION: Final = 1
_PATH_BENEATH: Final = 1
_NO_NEW_PRIVS: Final = 38
_READ_RIGHTS: Final = 1 << 0 | 1 << 2 | 1 << 3  # execute, read a file, read a directory
_WRITE_RIGHTS: Final = (1 << 15) - 1 & ~_READ_RIGHTS
_FILE_RIGHTS: Final = 1 << 1 | 1 << 14  # write a file, cut it


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def _call(number: int, *arguments: object) -> int:
    library = ctypes.CDLL(None, use_errno=True)
    result: int = library.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def is_supported() -> bool:
    """Return True if the kernel can restrict every kind of writing."""
    try:
        return _call(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION) >= TRUNCATE_ABI
    except OSError:
        return False


def restrict_writing(writable: Sequence[Path]) -> None:
    """Let this process, and those that it starts, write only below ``writable``, and /dev/null."""
    handled = ctypes.c_uint64(_WRITE_RIGHTS)
    rules = _call(
        _CREATE_RULESET, ctypes.byref(handled), ctypes.c_size_t(ctypes.sizeof(handled)), 0
    )
    for path in (*writable, Path(os.devnull)):
        rights = _WRITE_RIGHTS if path.is_dir() else _FILE_RIGHTS
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rule = _PathBeneath(rights, place)
        _call(_ADD_RULE, rules, _PATH_BENEATH, ctypes.byref(rule), 0)
        os.close(place)
    assert ctypes.CDLL(None, use_errno=True).prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    _call(_RESTRICT_SELF, rules, 0)
    os.close(rules)


def main() -> None:
    """Run the program in the place of this process."""
    end = sys.argv.index("--")
    restrict_writing([Path(each) for each in sys.argv[1:end]])
    os.execv(sys.argv[end + 1], sys.argv[end + 1 :])


if __name__ == "__main__":
    main()
