"""The errors of a log directory. Each text names the file and the problem."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from authorizerd.acl.text.printable import escape_unprintable


class MetadataLogError(Exception):
    """Base of the errors of this package."""

    def __str__(self) -> str:
        """Return one line, whatever names and contents damaged files have."""
        return escape_unprintable(super().__str__())


class LogDirectoryError(MetadataLogError):
    """The directory is missing or unreadable, or contains no metadata log."""


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Turn an OSError of the block into a LogDirectoryError that names ``path``."""
    try:
        yield
    except OSError as error:
        raise LogDirectoryError(f"{path}: {error.strerror or error}") from error


class LogLockedError(MetadataLogError):
    """Another process holds the directory's lock."""


class LogNotWrittenError(MetadataLogError, OSError):
    """Nothing of an append was written. The log is unchanged, and a later append may succeed."""


class CopyConflictError(MetadataLogError):
    """The followed cluster contradicts the copy of its log."""


class CorruptLogError(MetadataLogError):
    """Bytes of the log that cannot be trusted. Reading past them could lead to a wrong allow."""

    def __init__(self, path: Path, position: int, offset: int, reason: str) -> None:
        super().__init__(f"{path}: at byte {position}, log offset {offset}: {reason}")
        self.path = path
        self.position = position
        self.offset = offset
        self.reason = reason


class PastRangeError(MetadataLogError):
    """A moment outside the log: too old, or in the future. The text says which part exists."""


class TooManyChangesError(PastRangeError):
    """More ACLs have changed since a moment than the limit for restoring its state allows."""


class PastNotReadError(MetadataLogError):
    """The past could not be read now. A later attempt may succeed."""


class PastDamagedError(MetadataLogError):
    """A part of the past is damaged. The text names the file, and the part that can be read.

    ``readable_from`` is the oldest readable offset, None if there is none.
    """

    def __init__(self, text: str, readable_from: int | None) -> None:
        super().__init__(text)
        self.readable_from = readable_from


class BackupError(MetadataLogError):
    """A backup cannot be made, is damaged, or cannot be restored here. The text says what to do."""
