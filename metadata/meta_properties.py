"""``meta.properties``: which cluster and node a log directory belongs to.

Law: a directory that is being formatted has the file under another name, so that a formatting which
was cut off is known as such: it can be begun again, and nothing else takes it for a log.

Source: Kafka 4.3 MetaProperties, MetaPropertiesEnsemble (version 1, KRaft).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Final

from authorizerd.metadata.directory import CLEAN_SHUTDOWN_NAME, METADATA_TOPIC_DIRECTORY
from authorizerd.metadata.errors import LogDirectoryError
from authorizerd.metadata.storage import DISK, Storage, read_small

NAME: Final = "meta.properties"
UNFINISHED_NAME: Final = "meta.properties.format"
"""Stands in the log directory while it is formatted, in the place of ``meta.properties``."""

VERSION: Final = "1"


@dataclass(frozen=True, slots=True)
class MetaProperties:
    cluster_id: str
    node_id: int
    directory_id: str


def read_meta_properties(log_dir: Path, storage: Storage = DISK) -> MetaProperties | None:
    """Return what the directory says of itself, None where it says nothing.

    Raises:
        LogDirectoryError: the file cannot be read, or says something else.
    """
    path = log_dir / NAME
    try:
        lines = read_small(storage, path).decode("iso-8859-1").splitlines()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LogDirectoryError(f"{path}: {error.strerror or error}") from error
    values: dict[str, str] = {}
    for line in lines:
        if line.strip() and not line.startswith("#"):
            key, _, value = line.partition("=")
            values[key.strip()] = value.strip().replace("\\", "")
    if values.get("version") != VERSION:
        raise LogDirectoryError(f"{path}: version is {values.get('version')}, only 1 is known")
    try:
        return MetaProperties(
            values["cluster.id"], int(values["node.id"]), values.get("directory.id", "")
        )
    except KeyError as error:
        raise LogDirectoryError(f"{path}: {error.args[0]} is missing") from None
    except ValueError:
        raise LogDirectoryError(f"{path}: node.id is no number") from None


def format_directory(
    log_dir: Path,
    properties: MetaProperties,
    storage: Storage,
    begin_log: Callable[[], None] = lambda: None,
) -> None:
    """Make a log directory, and its log; what an earlier try left unfinished is begun anew.

    Args:
        begin_log: writes the log's beginning, durably, into the empty directory made for it.

    Raises:
        LogDirectoryError: it is formatted already, holds a log, or cannot be written.
        OSError: ``begin_log`` failed.
    """
    directory = log_dir / METADATA_TOPIC_DIRECTORY
    try:
        is_unfinished = storage.exists(log_dir / UNFINISHED_NAME)
        if storage.exists(log_dir / NAME) or (storage.exists(directory) and not is_unfinished):
            raise LogDirectoryError(f"{log_dir}: already formatted; nothing was changed")
        _make_directories(log_dir, storage)
        if is_unfinished:
            _remove_unfinished(log_dir, storage)
        _write_whole(log_dir / UNFINISHED_NAME, _encoded(properties), storage)
        _make_directories(directory, storage)
    except OSError as error:
        raise LogDirectoryError(f"{log_dir}: {error.strerror or error}") from error
    begin_log()
    try:
        storage.rename(log_dir / UNFINISHED_NAME, log_dir / NAME)
        storage.sync_directory(log_dir)
    except OSError as error:
        raise LogDirectoryError(f"{log_dir / NAME}: {error.strerror or error}") from error


def check_format_is_finished(log_dir: Path, storage: Storage) -> None:
    """Refuse a directory whose formatting was cut off.

    Raises:
        LogDirectoryError: it was, or the directory cannot be looked at.
    """
    try:
        is_unfinished = storage.exists(log_dir / UNFINISHED_NAME)
    except OSError as error:
        raise LogDirectoryError(f"{log_dir}: {error.strerror or error}") from error
    if is_unfinished:
        raise LogDirectoryError(
            f"{log_dir}: its formatting was cut off ({UNFINISHED_NAME} stands in it); "
            "run `authorizerd format` again"
        )


def _make_directories(path: Path, storage: Storage) -> None:
    """Make ``path`` and what it stands in, each durable before anything is put into it."""
    missing = list(takewhile(lambda each: not storage.exists(each), (path, *path.parents)))
    made_before = missing[-1].parent if missing else path
    with suppress(PermissionError):  # it is another's then, not one that a killed try had made
        storage.sync_directory(made_before.parent)
    for each in reversed(missing):
        storage.make_directory(each)
        storage.sync_directory(each.parent)


def _remove_unfinished(log_dir: Path, storage: Storage) -> None:
    """Remove the log that a formatting began: it was never in use, and holds nothing."""
    directory = log_dir / METADATA_TOPIC_DIRECTORY
    if storage.exists(directory):
        for name in storage.names(directory):
            storage.remove(directory / name)
    with suppress(FileNotFoundError):
        storage.remove(log_dir / CLEAN_SHUTDOWN_NAME)


def write_meta_properties(log_dir: Path, properties: MetaProperties, storage: Storage) -> None:
    """Write the file, where there is none, whole or not at all.

    Raises:
        LogDirectoryError: it cannot be written.
    """
    path = log_dir / NAME
    try:
        _write_whole(path, _encoded(properties), storage)
    except OSError as error:
        raise LogDirectoryError(f"{path}: {error.strerror or error}") from error


def _write_whole(path: Path, data: bytes, storage: Storage) -> None:
    part = path.with_name(f"{path.name}.part")
    with suppress(FileNotFoundError):
        storage.remove(part)
    with closing(storage.append_to(part)) as file:
        file.append([data])
        file.sync()
    storage.rename(part, path)
    storage.sync_directory(path.parent)


def _encoded(properties: MetaProperties) -> bytes:
    return (
        f"version={VERSION}\n"
        f"cluster.id={properties.cluster_id}\n"
        f"node.id={properties.node_id}\n"
        f"directory.id={properties.directory_id}\n"
    ).encode("iso-8859-1")
