"""Read the small files that hold secrets: the tokens, and the secret for masked names.

**Invariant:** reading never waits for the writer of a pipe, and a file with forbidden permissions
is rejected.
"""

from __future__ import annotations

import os
import stat
from enum import Enum

from authorizerd.daemon.errors import StartError


class Forbidden(Enum):
    """What users other than the file's owner and group must not be allowed to do."""

    WRITING = (stat.S_IWOTH, "it is writable by all users (chmod o-w)")
    ANYTHING = (stat.S_IRWXO, "it is accessible to all users (chmod o-rwx)")


def read_secret_file(path: str, *, key: str, bytes_max: int, forbidden: Forbidden) -> bytes:
    """Return the content of the file that ``key`` names.

    Raises:
        StartError: the file is not a regular one, cannot be read, gives others ``forbidden``
            permissions, or has more than ``bytes_max`` bytes.
    """
    try:
        with open(path, "rb", opener=_open_without_waiting) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise StartError(f"{key}: {path}: not a file")
            mode, reason = forbidden.value
            if status.st_mode & mode:
                raise StartError(f"{key}: {path}: {reason}")
            data = file.read(bytes_max + 1)
    except OSError as error:
        raise StartError(f"{key}: {path}: {error.strerror or error}") from error
    if len(data) > bytes_max:
        raise StartError(f"{key}: {path}: expected at most {bytes_max} bytes")
    return data


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)
