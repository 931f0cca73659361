"""Check at the start that a directory may hold the copy of a followed cluster.

**Invariant:** a daemon's own log never becomes a copy, because that would destroy ACLs that only
this log has. A copy never becomes a daemon's own log, because that would fork the cluster's ACLs.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from secrets import token_urlsafe
from typing import Final

from authorizerd.config.follow.settings import SourceKind
from authorizerd.daemon.errors import StartError
from authorizerd.metadata import meta_properties
from authorizerd.metadata.copy_directory import MARK_NAME, CopyMark, read_mark, write_mark
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY
from authorizerd.metadata.errors import LogDirectoryError, naming
from authorizerd.metadata.meta_properties import (
    MetaProperties,
    make_directories,
    read_meta_properties,
)
from authorizerd.metadata.storage import Storage

_FOLLOWING_KEYS: Final = {
    SourceKind.QUORUM: "controller.quorum.bootstrap.servers",
    SourceKind.BROKERS: "authorizerd.source=brokers",
}
_OWN_NAMES: Final = (
    METADATA_TOPIC_DIRECTORY,
    meta_properties.NAME,
    meta_properties.UNFINISHED_NAME,
)


def prepare_copy_directory(log_dir: Path, storage: Storage) -> None:
    """Create the directory if it is missing, so that it can be locked.

    Raises:
        StartError: it holds a daemon's own log.
        LogDirectoryError: it cannot be read or created.
    """
    _read_mark(log_dir, storage)
    with naming(log_dir):
        make_directories(log_dir, storage)


def claim_copy_directory(
    log_dir: Path, kind: SourceKind, *, node_id: int, storage: Storage
) -> MetaProperties:
    """Mark the directory as a copy of this kind, unless it already is one. The caller holds its
    lock.

    Returns: the copy's properties, with its secret. The cluster's id is empty until the cluster has
        been reached.

    Raises:
        StartError: it holds a log of its own, or a copy of another kind or node.
        LogDirectoryError: it cannot be read or written.
    """
    mark = _read_mark(log_dir, storage)
    if mark is not None and mark.source != kind:
        raise StartError(
            f"authorizerd.source: expected {mark.source}, whose copy is in {log_dir}, found {kind}:"
            " correct it, run `authorizerd reset-copy` to start a new copy, or name another "
            "directory in log.dirs (or metadata.log.dir)"
        )
    secret = _claim(log_dir, CopyMark(kind) if mark is None else mark, storage, is_new=mark is None)
    try:
        properties = read_meta_properties(log_dir, storage)
    except LogDirectoryError:
        properties = None  # opening the copy sets the damaged file aside
    if properties is None:
        return MetaProperties("", node_id, "", secret)
    if properties.node_id != node_id:
        raise StartError(
            f"node.id: {node_id}, but {log_dir} is the copy of node {properties.node_id} "
            "(meta.properties): correct node.id, or name the right directory"
        )
    return replace(properties, secret=secret)


def _claim(log_dir: Path, mark: CopyMark, storage: Storage, *, is_new: bool) -> str:
    """Make sure that the directory has a mark with a secret, and return the secret."""
    secret = mark.secret or token_urlsafe()
    with naming(log_dir):
        if is_new:
            write_mark(log_dir, replace(mark, secret=secret), storage)
        else:
            # An earlier start may have ended before the mark was durable.
            storage.sync_directory(log_dir)
    if not is_new and not mark.secret:
        with suppress(OSError):  # a later start tries again
            write_mark(log_dir, replace(mark, secret=secret), storage)
    return secret


def _read_mark(log_dir: Path, storage: Storage) -> CopyMark | None:
    """Return the mark. Raise StartError if the directory holds a log without one."""
    mark = read_mark(log_dir, storage)
    if mark is None:
        with naming(log_dir):
            is_own = any(storage.exists(log_dir / name) for name in _OWN_NAMES)
        if is_own:
            raise StartError(
                f"{log_dir}: expected an empty directory or a copy of the followed cluster, found "
                "a log of its own: name another directory in log.dirs (or metadata.log.dir). To "
                "carry the ACLs over into the cluster, run "
                f"`authorizerd acls import {log_dir} --bootstrap-server HOST:PORT`"
            )
    return mark


def refuse_copy(log_dir: Path, storage: Storage) -> None:
    """Raise an error if the directory is a copy, to which only its source may write.

    Raises:
        StartError: it is one.
        LogDirectoryError: the mark cannot be read.
    """
    mark = read_mark(log_dir, storage)
    if mark is not None:
        keys = {str(kind): key for kind, key in _FOLLOWING_KEYS.items()}
        key = keys.get(mark.source, f"authorizerd.source={mark.source}")
        raise StartError(
            f"{log_dir}: expected a log of its own, found a copy of a followed cluster "
            f"({MARK_NAME}): set {key} to follow the cluster again, or name another directory in "
            "log.dirs (or metadata.log.dir). To carry the ACLs over, run "
            f"`authorizerd acls export --log-dir {log_dir} --to FILE`, and import the file"
        )
