"""Whole files where a table or a report is: read, create, replace, remove.

One layout for all writers: each is a plain file. This module has the files of this machine;
``spark.storage`` has those that only Spark reaches.

**Invariant:** ``create`` is one atomic step: the file appears complete, and of several writers one
succeeds. Where a file system has no such step, ``check_creates`` says so before any work.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
from collections.abc import Iterable
from glob import escape
from pathlib import Path
from typing import Final, Protocol

from authorizerd.replay.text import write_file

TEXT_BYTES_MAX: Final = 256 * 1024 * 1024
FILE_URI: Final = re.compile(r"(?s)file:(?://[^/]*)?(.*)")
"""The path is not encoded: Hadoop does not decode ``%20``, and ``?`` and ``#`` are part of it."""
_ASIDE: Final = re.compile(r"(?s)\.(.+)\.[0-9a-f]{8}")
_NO_SYNC: Final = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
"""Errors of ``fsync`` on file systems that cannot sync a directory."""
_NO_LINKS: Final = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


class HalfWrittenError(FileNotFoundError):
    """A directory in which Spark was stopped while writing a text."""


class Storage(Protocol):
    """The files at URIs. All methods block, and raise OSError with the URI in its text."""

    def names(self, folder: str) -> list[str]:
        """Return the names in a directory; none if it does not exist."""

    def read(self, uri: str) -> bytes:
        """Return a file's content, at most ``TEXT_BYTES_MAX`` bytes.

        Earlier versions wrote a directory with one part file; its content is read as well.

        Raises:
            FileNotFoundError: there is neither a file nor a complete part file.
        """

    def check_creates(self, uri: str) -> None:
        """Raise JobError if ``create`` cannot be one step there."""

    def create(self, uri: str, data: bytes) -> bool:
        """Create a file and its directory. Return False if it exists with other content.

        Equal content is this caller's own: an attempt whose answer was lost is repeated. The files
        of a directory are created in the order of their names.
        """

    def replace(self, uri: str, data: bytes) -> None:
        """Write or replace a file, and create its directory."""

    def remove(self, uri: str) -> None:
        """Remove a file, or a directory with everything in it, if it exists."""

    def is_occupied(self, uri: str) -> bool:
        """Return True if there is a file, or a directory that is not empty."""


class LocalFiles:
    """The files of this machine, by paths or ``file:`` URIs."""

    def names(self, folder: str) -> list[str]:
        try:
            return os.listdir(_path(folder))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def read(self, uri: str) -> bytes:
        path = _path(uri)
        if path.is_dir():
            path /= find_part(uri, os.listdir(path))
        try:
            check_size(uri, path.stat().st_size)
            return path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            raise FileNotFoundError(f"{uri} does not exist") from None

    def check_creates(self, uri: str) -> None:
        """A file of a local disk can be created in one step."""

    def create(self, uri: str, data: bytes) -> bool:
        path = _path(uri)
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(name_aside(path.name))
        try:
            aside.write_bytes(data)
            sync(aside)
            os.link(aside, path)
        except OSError as error:
            if path.exists():  # perhaps another run has also removed ``aside``, see ``find_asides``
                return self.read(uri) == data
            if error.errno not in _NO_LINKS:
                raise
            raise OSError(
                error.errno,
                f"{uri}: a file cannot be created in one step here, because the file system has no "
                f"hard links ({error.strerror}): use another directory",
            ) from error
        finally:
            aside.unlink(missing_ok=True)
        for name in find_asides(os.listdir(path.parent), path.name):
            path.with_name(name).unlink(missing_ok=True)
        sync(path.parent)
        return True

    def replace(self, uri: str, data: bytes) -> None:
        path = _path(uri)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():  # as earlier versions wrote it on Spark
            shutil.rmtree(path)
        try:
            write_file(path, data.decode())
        except FileNotFoundError:
            # Another run has just written the file, and removed what it took for left behind.
            if not path.exists():
                raise
        for left in path.parent.glob(f"_{escape(path.name)}.*.being-written"):
            left.unlink(missing_ok=True)
        # Hadoop's checksum of the earlier content would make its readers fail.
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)

    def remove(self, uri: str) -> None:
        path = _path(uri)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)

    def is_occupied(self, uri: str) -> bool:
        path = _path(uri)
        return path.exists() and (not path.is_dir() or any(path.iterdir()))


def name_aside(name: str) -> str:
    """Return a new name for the content of a file that ``create`` has not created yet."""
    return f".{name}.{secrets.token_hex(4)}"


def find_asides(names: Iterable[str], last: str) -> list[str]:
    """Return what killed runs left: names from ``name_aside`` of ``last`` and of earlier files.

    The file ``last`` exists, so no run can create it or an earlier one any more.
    """
    found = (_ASIDE.fullmatch(name) for name in names)
    return [match[0] for match in found if match and match[1] <= last]


def _path(uri: str) -> Path:
    found = FILE_URI.fullmatch(uri)
    return Path(uri if found is None else found[1])


def sync(path: Path) -> None:
    """Wait until a file, or the names in a directory, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
    finally:
        os.close(descriptor)


def find_part(uri: str, names: list[str]) -> str:
    """Return the name of the part file in a directory in which Spark wrote one text.

    Raises:
        HalfWrittenError: there is none, because Spark was stopped while writing it.
    """
    parts = sorted(name for name in names if name.startswith("part-"))
    if not parts:
        raise HalfWrittenError(f"{uri} has no content: it was stopped while being written")
    if len(parts) > 1:
        raise OSError(f"{uri}: expected one part file, found {len(parts)}: remove the wrong ones")
    return parts[0]


def check_size(uri: str, size: int) -> None:
    if size > TEXT_BYTES_MAX:
        raise OSError(f"{uri}: {size} bytes exceed the limit of {TEXT_BYTES_MAX}")
