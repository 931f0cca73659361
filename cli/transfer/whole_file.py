"""Write a file that users name: whole or not at all, and not over another file by accident.

**Invariant:** whatever fails, the file at the path is the earlier one or the new one, complete.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from authorizerd.cli.errors import CommandError
from authorizerd.cli.program.ending import saying
from authorizerd.metadata.checkpoint_writer import PART_SUFFIX, removed_on_error
from authorizerd.metadata.meta_properties import write_whole
from authorizerd.metadata.storage import DiskStorage, Storage

FILE_MODE: Final = 0o664
"""The permissions of new files. The umask can take more away; only owner and group may write."""


def find_writable(path: Path, *, overwrite: bool) -> tuple[Path, int | None]:
    """Return the file that ``path`` means, without links, and the permissions that it has.

    Returns: None as the permissions if there is no such file.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return path, None
    except OSError as error:
        raise new_error(path, error) from error
    if not stat.S_ISREG(mode):
        raise CommandError(f"{path}: expected a file or nothing, found something else")
    if not overwrite:
        raise CommandError(
            f"{path}: the file exists, and was kept: use --overwrite, or another name"
        )
    return path.resolve(), stat.S_IMODE(mode)


def write_text(path: Path, text: str, mode: int | None, storage: Storage | None = None) -> None:
    """Write a file atomically and durably. A failure leaves no partial file.

    Args:
        mode: its permissions; None for those of a new file.
    """
    storage = storage or DiskStorage(file_mode=FILE_MODE if mode is None else mode)
    part = path.with_name(path.name + PART_SUFFIX)
    try:
        with (
            saying(lambda: f"{path}: the file is whole, and either the earlier or the new one"),
            removed_on_error(part, storage),
        ):
            write_whole(path, text.encode(), storage)
    except OSError as error:
        raise new_error(path, error) from error


def new_error(path: Path, error: OSError) -> CommandError:
    """Return the error of a file that cannot be written, or whose place cannot be read."""
    return CommandError(f"{path}: not written: {error.strerror or os.strerror(error.errno or 0)}")
