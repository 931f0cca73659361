"""Read files that users name, which may be a device without an end."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import BinaryIO, Final

FILE_BYTES_MAX: Final = 512 * 1024 * 1024
"""The maximum size: more than a listing of three million ACLs."""
_BYTES_PER_READ: Final = 1024 * 1024


def read_file(path: Path) -> bytes:
    """Return the contents of a file. Blocks.

    Raises:
        OSError: the file cannot be read, or has more than ``FILE_BYTES_MAX`` bytes.
    """
    with path.open("rb") as file:
        return read_stream(file)


def read_stream(file: BinaryIO) -> bytes:
    """Return all bytes of an open file. Blocks. Raises as ``read_file``."""
    data = bytearray()
    # read(FILE_BYTES_MAX + 1) would allocate the memory before the size is known.
    while some := file.read(_BYTES_PER_READ):
        data += some
        if len(data) > FILE_BYTES_MAX:
            raise OSError(errno.EFBIG, f"expected at most {FILE_BYTES_MAX} bytes, found more")
    return bytes(data)
