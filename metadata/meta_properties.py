"""``meta.properties``: the cluster and node that a log directory belongs to.

**Invariant:** while a directory is being formatted, the file has another name. So an interrupted
format is recognized: it can be repeated, and nothing else accepts the directory as a log.

Source: Kafka 4.3 MetaProperties, MetaPropertiesEnsemble (version 1, KRaft).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Final

from authorizerd.metadata.directory import CLEAN_SHUTDOWN_NAME, METADATA_TOPIC_DIRECTORY
from authorizerd.metadata.errors import LogDirectoryError, naming
from authorizerd.metadata.storage import DISK, Storage, read_small
from authorizerd.protocol.json_faults import quote

NAME: Final = "meta.properties"
UNFINISHED_NAME: Final = "meta.properties.format"
"""The name of ``meta.properties`` while the log directory is being formatted."""

VERSION: Final = "1"

CLUSTER_ID_LENGTH_MAX: Final = 255


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The contents of ``meta.properties``.

    A copy has no directory id, but a ``secret``, which is in ``copy.properties`` (``CopyMark``).
    """

    cluster_id: str
    node_id: int
    directory_id: str
    secret: str = field(default="", repr=False)


def is_cluster_id(text: str) -> bool:
    """Return True if ``text`` can be a cluster's id: this file keeps it unchanged, in one line."""
    is_plain = text.isascii() and text.isprintable() and not set(text) & {" ", "\\"}
    return is_plain and 0 < len(text) <= CLUSTER_ID_LENGTH_MAX


def read_meta_properties(log_dir: Path, storage: Storage = DISK) -> MetaProperties | None:
    """Return the directory's properties, or None if it has none.

    Raises:
        LogDirectoryError: the file cannot be read, or its contents are invalid.
    """
    path = log_dir / NAME
    try:
        # java.util.Properties reads and writes this encoding.
        lines = read_small(storage, path).decode("iso-8859-1").splitlines()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LogDirectoryError(f"{path}: {error.strerror or error}") from error
    values: dict[str, str] = {}
    for line in lines:
        if line.strip() and not line.startswith("#"):
            key, _, value = line.partition("=")
            # java.util.Properties escapes `:`, `=`, `#` and `!`; ids contain no backslash.
            values[key.strip()] = value.strip().replace("\\", "")
    found = values.get("version", "")
    if found != VERSION:
        raise LogDirectoryError(f"{path}: expected version={VERSION}, found {quote(found)}")
    try:
        return MetaProperties(
            values["cluster.id"], int(values["node.id"]), values.get("directory.id", "")
        )
    except KeyError as error:
        raise LogDirectoryError(f"{path}: the key {error.args[0]} is missing") from None
    except ValueError:
        raise LogDirectoryError(f"{path}: invalid node.id: expected a number") from None


def format_directory(
    log_dir: Path,
    properties: MetaProperties,
    storage: Storage,
    begin_log: Callable[[], None] = lambda: None,
    *,
    not_done: str = "",
) -> None:
    """Create a log directory and its log. An earlier, unfinished format is started again.

    Args:
        begin_log: writes the log's first records, durably, into its empty directory.
        not_done: added to the error if it is formatted already.

    Raises:
        LogDirectoryError: it is formatted already, contains a log, or cannot be written.
        OSError: ``begin_log`` failed.
    """
    directory = log_dir / METADATA_TOPIC_DIRECTORY
    with naming(log_dir):
        is_unfinished = storage.exists(log_dir / UNFINISHED_NAME)
        if storage.exists(log_dir / NAME) or (storage.exists(directory) and not is_unfinished):
            raise LogDirectoryError(f"{log_dir}: already formatted; nothing was changed{not_done}")
        make_directories(log_dir, storage)
        if is_unfinished:
            _remove_unfinished(log_dir, storage)
        write_whole(log_dir / UNFINISHED_NAME, _encoded(properties), storage)
        make_directories(directory, storage)
    begin_log()
    with naming(log_dir / NAME):
        storage.rename(log_dir / UNFINISHED_NAME, log_dir / NAME)
        storage.sync_directory(log_dir)


def check_format_is_finished(log_dir: Path, storage: Storage) -> None:
    """Reject a directory whose formatting was interrupted.

    Raises:
        LogDirectoryError: it was interrupted, or the directory cannot be read.
    """
    with naming(log_dir):
        is_unfinished = storage.exists(log_dir / UNFINISHED_NAME)
    if is_unfinished:
        raise LogDirectoryError(
            f"{log_dir}: formatting was interrupted ({UNFINISHED_NAME} is still there). "
            "Run `authorizerd format` again"
        )


def make_directories(path: Path, storage: Storage) -> None:
    """Create ``path`` and its parents. Each is durable before anything is put into it."""
    missing = list(takewhile(lambda each: not storage.exists(each), (path, *path.parents)))
    made_before = missing[-1].parent if missing else path
    # An interrupted format may have made this directory and not yet synced its name.
    with suppress(
        PermissionError
    ):  # it belongs to another user, so no interrupted format created it
        storage.sync_directory(made_before.parent)
    for each in reversed(missing):
        storage.make_directory(each)
        storage.sync_directory(each.parent)


def _remove_unfinished(log_dir: Path, storage: Storage) -> None:
    """Remove the log of an unfinished format. It was never used and contains no state."""
    directory = log_dir / METADATA_TOPIC_DIRECTORY
    if storage.exists(directory):
        for name in storage.names(directory):
            storage.remove(directory / name)
    with suppress(FileNotFoundError):
        storage.remove(log_dir / CLEAN_SHUTDOWN_NAME)


def write_meta_properties(log_dir: Path, properties: MetaProperties, storage: Storage) -> None:
    """Write the file atomically, if there is none.

    Raises:
        LogDirectoryError: the file cannot be written.
    """
    path = log_dir / NAME
    with naming(path):
        write_whole(path, _encoded(properties), storage)


def write_whole(path: Path, data: bytes, storage: Storage) -> None:
    """Write a small file atomically and durably: after a crash it has all of ``data`` or none.

    If it replaces a file, it keeps that file's owner, group and permissions.
    """
    part = path.with_name(f"{path.name}.part")
    # Files are opened for appending, so an earlier attempt would stay at the beginning.
    with suppress(FileNotFoundError):
        storage.remove(part)
    with closing(storage.append_to(part, path)) as file:
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
