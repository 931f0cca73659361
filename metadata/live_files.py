"""Read the files of a log while its owner may write, add and remove some.

**Invariant:** the result comes from files of one moment. If a file was removed before it was read,
reading starts over with the remaining files.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from authorizerd.metadata.directory import LogFiles
from authorizerd.metadata.errors import MetadataLogError, PastNotReadError
from authorizerd.metadata.log import open_files
from authorizerd.metadata.storage import DISK, Storage

T = TypeVar("T")

TRIES_MAX: Final = 3


def read_live(path: Path, read: Callable[[LogFiles], T], storage: Storage = DISK) -> T:
    """Return what ``read`` returns for the log at ``path``: a log directory, or a checkpoint file.

    Raises:
        MetadataLogError: there is no log, or as ``read``.
        PastNotReadError: files are removed again and again.
    """
    for _ in range(TRIES_MAX):
        files = open_files(path, storage)
        try:
            return read(files)
        except MetadataLogError as error:
            if not _has_moved(files, open_files(path, storage)):
                raise
            moved = error
    raise PastNotReadError(
        "files of the log were removed while they were read: try again"
    ) from moved


def _has_moved(files: LogFiles, left: LogFiles) -> bool:
    """Return True if a file is missing, or if the log's owner has started meanwhile.

    After a clean shutdown, the end of the log cannot be torn; once the owner writes again, it can.
    """
    has_started = files.was_shut_down_cleanly and not left.was_shut_down_cleanly
    is_left = {*files.segments, *files.checkpoints} <= {*left.segments, *left.checkpoints}
    return has_started or not is_left
