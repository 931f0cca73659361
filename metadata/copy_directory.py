"""The directory of a copy: read and write its mark, set its files aside, and remove them.

**Invariant:** ``copy.properties`` is durable before any other file of the copy, and is removed
last. So no start mistakes a copy, or part of one, for the daemon's own log. The log of a copy
disappears with one rename, so a crash leaves all of it or nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from authorizerd.metadata import meta_properties
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY, sort_files
from authorizerd.metadata.errors import LogDirectoryError
from authorizerd.metadata.meta_properties import make_directories, write_whole
from authorizerd.metadata.replay import KEPT_RECORDS
from authorizerd.metadata.storage import DISK, Storage, read_small
from authorizerd.protocol.json_faults import quote

MARK_NAME: Final = "copy.properties"
SET_ASIDE_NAME: Final = "copy-set-aside"
"""The log of a copy that could not be trusted. Only the last one is kept."""

VERSION: Final = "1"


@dataclass(frozen=True, slots=True)
class CopyMark:
    """The contents of ``copy.properties``.

    ``source`` is the value of ``authorizerd.source``. ``kept_records`` are the records in
    checkpoints of the daemon that wrote the mark (``KEPT_RECORDS``). ``secret`` is a random text,
    empty if an older version wrote the mark.
    """

    source: str
    kept_records: str = KEPT_RECORDS
    secret: str = field(default="", repr=False)


def read_mark(log_dir: Path, storage: Storage = DISK) -> CopyMark | None:
    """Return the directory's mark, or None if it contains no copy.

    Raises:
        LogDirectoryError: the file cannot be read, or its contents are invalid.
    """
    path = log_dir / MARK_NAME
    try:
        lines = read_small(storage, path).decode("iso-8859-1").splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise LogDirectoryError(f"{path}: {error.strerror or error}") from error
    values = dict(line.split("=", 1) for line in lines if "=" in line and line[0] != "#")
    if values.get("version") != VERSION or not values.get("source"):
        raise LogDirectoryError(
            f"{path}: expected version={VERSION} and a source, found version="
            f"{quote(values.get('version', ''))} and source={quote(values.get('source', ''))}: if "
            "this directory is a copy of a cluster's metadata, remove it and start again"
        )
    return CopyMark(values["source"], values.get("records", ""), values.get("secret", ""))


def write_mark(log_dir: Path, mark: CopyMark, storage: Storage) -> None:
    """Mark the directory as a copy, durably. Create it if it is missing.

    Raises:
        OSError: the mark could not be written.
    """
    make_directories(log_dir, storage)
    text = (
        "# This directory is a copy of a cluster's metadata. The daemon may remove it.\n"
        f"version={VERSION}\nsource={mark.source}\nrecords={mark.kept_records}\n"
    )
    if mark.secret:
        text += f"secret={mark.secret}\n"
    write_whole(log_dir / MARK_NAME, text.encode("iso-8859-1"), storage)


def is_copy_empty(log_dir: Path, storage: Storage = DISK) -> bool:
    """Return True if a marked directory has no log yet.

    Raises:
        LogDirectoryError: it cannot be read.
    """
    log = log_dir / METADATA_TOPIC_DIRECTORY
    try:
        files = sort_files(log / name for name in storage.names(log))
    except FileNotFoundError:
        return True
    except OSError as error:
        raise LogDirectoryError(f"{log}: {error.strerror or error}") from error
    return not (files.segments or files.checkpoints)


def set_aside(log_dir: Path, storage: Storage) -> None:
    """Move the copy's log to ``copy-set-aside``, durably. An earlier one is removed.

    Raises:
        OSError: the files could not be moved.
    """
    log = log_dir / METADATA_TOPIC_DIRECTORY
    if storage.exists(log):
        for _ in remove_tree(log_dir / SET_ASIDE_NAME, storage):
            pass
        storage.rename(log, log_dir / SET_ASIDE_NAME)
        storage.sync_directory(log_dir)


def remove_copy(log_dir: Path, storage: Storage) -> Iterator[Path]:
    """Remove the copy except for its mark, and yield each path once it is removed.

    Files of other kinds stay, and so does the lock.

    Raises:
        OSError: a file could not be removed. The call can be repeated.
    """
    set_aside(log_dir, storage)
    yield from remove_tree(log_dir / SET_ASIDE_NAME, storage)
    path = log_dir / meta_properties.NAME
    with suppress(FileNotFoundError):
        storage.remove(path)
        yield path
    storage.sync_directory(log_dir)


def remove_mark(log_dir: Path, storage: Storage) -> Path:
    """Remove the mark of a copy after its other files. Return its path."""
    path = log_dir / MARK_NAME
    storage.remove(path)
    storage.sync_directory(log_dir)
    return path


def remove_tree(directory: Path, storage: Storage) -> Iterator[Path]:
    """Remove a directory of files, and yield each path once it is removed."""
    if not storage.exists(directory):
        return
    for name in sorted(storage.names(directory)):
        storage.remove(directory / name)
        yield directory / name
    storage.remove_directory(directory)
    storage.sync_directory(directory.parent)
    yield directory
