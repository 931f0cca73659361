"""Read a set of ACLs from any source: a log, a checkpoint, a listing, a document, a live server.

**Invariant:** reading a source returns all of its ACLs, or raises ``AclSourceError``.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from authorizerd.acl.formats.catalogue import read_acl_text
from authorizerd.acl.formats.model import AclTextError
from authorizerd.acl.model import Acl
from authorizerd.image.errors import ChangeError
from authorizerd.metadata.bounded_file import read_file
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY
from authorizerd.metadata.errors import MetadataLogError
from authorizerd.replay.acl_set import AclSet, DatedAcl, digest_of
from authorizerd.replay.acls.as_of import AsOf, parse_as_of
from authorizerd.replay.acls.errors import AclSourceError
from authorizerd.replay.acls.live import SCHEME, ListingFailedError, list_acls
from authorizerd.replay.acls.log import (
    LogState,
    OutOfReachError,
    read_checkpoint,
    read_log,
    sort_acls,
)

_CHECKPOINT_SUFFIX = ".checkpoint"


def read_acl_source(
    source: str,
    *,
    as_of: str | None = None,
    super_users: Iterable[str] = (),
    allow_everyone_if_no_acl_found: bool = False,
    command_config: Path | None = None,
) -> AclSet:
    """Return the ACLs of ``source``, with the given settings; blocks.

    Args:
        source: a log directory (``__cluster_metadata-0`` or its parent), a ``.checkpoint`` file,
            ``kafka://HOST:PORT``, or any other file, whose text must have one of the formats of
            ``acl.formats.catalogue``.
        as_of: the moment of a log, as ``parse_as_of`` reads it; None for its end.
        super_users: principals, each ``Type:name``.
        command_config: a properties file for a ``kafka://`` connection.

    Raises:
        AclSourceError: the source does not exist, is damaged, or does not cover ``as_of``.
    """
    state = _read(source, _moment(source, as_of), command_config)
    return AclSet(
        source=source,
        acls=state.acls,
        digest=digest_of(dated.acl for dated in state.acls),
        offset=None if state.offset < 0 else state.offset,
        stamped_ms=state.stamped_ms,
        super_users=tuple(sorted(set(super_users))),
        allow_everyone_if_no_acl_found=allow_everyone_if_no_acl_found,
    )


def _moment(source: str, as_of: str | None) -> AsOf | None:
    if as_of is None:
        return None
    try:
        return parse_as_of(as_of)
    except ValueError as error:
        raise AclSourceError(source, str(error), "as of") from error


def _read(source: str, as_of: AsOf | None, command_config: Path | None) -> LogState:
    path = Path(source).absolute()
    if not source.startswith(SCHEME) and path.is_dir():
        return _of_log(source, path, as_of)
    if as_of is not None:
        raise AclSourceError(source, "--as-of requires the directory of a metadata log")
    if source.startswith(SCHEME):
        try:
            listing = list_acls(source, command_config)
        except ListingFailedError as error:
            raise AclSourceError(source, str(error)) from error
        return _of_text(source, listing, "")
    if path.name.endswith(_CHECKPOINT_SUFFIX):
        try:
            return read_checkpoint(path)
        except (MetadataLogError, ChangeError, OSError) as error:
            raise AclSourceError(source, str(error)) from error
    return _of_text(source, _text(source, path), path.suffix)


def _of_log(source: str, path: Path, as_of: AsOf | None) -> LogState:
    log_dir = path
    if not (path / METADATA_TOPIC_DIRECTORY).is_dir() and path.name == METADATA_TOPIC_DIRECTORY:
        log_dir = path.parent
    try:
        return read_log(log_dir, as_of, now_ms=time.time_ns() // 1_000_000)
    except OutOfReachError as error:
        raise AclSourceError(source, str(error), "as of") from error
    except (MetadataLogError, ChangeError, OSError) as error:
        raise AclSourceError(source, str(error)) from error


def _text(source: str, path: Path) -> str:
    try:
        return read_file(path).decode("utf-8-sig")
    except OSError as error:
        raise AclSourceError(source, error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise AclSourceError(source, "not valid UTF-8", f"byte {error.start}") from error


def _of_text(source: str, text: str, suffix: str) -> LogState:
    try:
        read = read_acl_text(text, suffix)
    except AclTextError as error:
        raise AclSourceError(source, error.reason, error.place) from error
    for loss in read.losses:
        # A report has no place for warnings, so it must not rest on a part of what a text says.
        if loss.acl is None:
            raise AclSourceError(source, f"the file grants what ACLs cannot: {loss}")
    return _undated(read.acls)


def _undated(acls: Iterable[Acl]) -> LogState:
    """Return ACLs without dates. The offset is -1, since the source has no offsets."""
    return LogState(sort_acls(DatedAcl(acl) for acl in acls), -1, None)
