"""Read a set of ACLs from any source: a log, a checkpoint, a listing, a document, a live server.

**Invariant:** reading a source returns all of its ACLs, or raises ``AclSourceError``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from authorizerd.acl.as_of import AsOf, parse_as_of
from authorizerd.acl.errors import InvalidAsOfError
from authorizerd.acl.releases import Release
from authorizerd.image.errors import ChangeError
from authorizerd.management.formats.catalogue import read_acl_text
from authorizerd.management.formats.model import AclTextError
from authorizerd.metadata.bounded_file import read_file
from authorizerd.metadata.errors import MetadataLogError, PastRangeError
from authorizerd.replay.acl_set import AclSet, DatedAcl, digest_of
from authorizerd.replay.acls.errors import AclSourceError
from authorizerd.replay.acls.live import PROFILE, SCHEME, list_acls
from authorizerd.replay.acls.log import LogState, find_log, read_log, sort_acls
from authorizerd.replay.text import parse_time

CHECKPOINT_SUFFIX = ".checkpoint"


def read_acl_source(
    source: str,
    *,
    as_of: str | None = None,
    super_users: Iterable[str] | None = None,
    allow_everyone_if_no_acl_found: bool | None = None,
    command_config: Path | None = None,
    releases: tuple[Release, ...] = tuple(Release),
) -> AclSet:
    """Return the ACLs of ``source``, with the given settings; blocks.

    Args:
        source: a log directory (``__cluster_metadata-0`` or its parent), a ``.checkpoint`` file,
            ``kafka://HOST:PORT``, or any other file, whose text must have one of the formats of
            ``management.formats.catalogue``.
        as_of: the moment of a log: an offset, milliseconds since 1970, or an ISO 8601 time; None
            for its end. A time without a zone is in UTC.
        super_users: principals, each ``Type:name``; None if they are unknown.
        allow_everyone_if_no_acl_found: None if it is unknown.
        command_config: a properties file for a ``kafka://`` connection.
        releases: the Kafka releases that may judge.

    Raises:
        AclSourceError: the source does not exist, is damaged, or does not reach ``as_of``.
    """
    state = _read(source, as_of, command_config)
    return AclSet(
        source=f"{source} of the profile {os.environ[PROFILE]}" if source == SCHEME else source,
        acls=state.acls,
        digest=digest_of(dated.acl for dated in state.acls),
        offset=state.offset,
        stamped_ms=state.stamped_ms,
        super_users=None if super_users is None else tuple(sorted(set(super_users))),
        allow_everyone_if_no_acl_found=allow_everyone_if_no_acl_found,
        releases=releases,
    )


def _read(source: str, as_of: str | None, command_config: Path | None) -> LogState:
    path = Path(source).absolute()
    is_live = source.startswith(SCHEME)
    is_log = not is_live and path.is_dir()
    if as_of is not None and not is_log:
        raise AclSourceError(source, "--as-of requires the directory of a metadata log")
    try:
        if is_live:
            return _parse(source, list_acls(source, command_config), "")
        if is_log or path.suffix == CHECKPOINT_SUFFIX:
            return read_log(find_log(path), None if as_of is None else parse_moment(as_of))
        return _parse(source, read_file(path).decode("utf-8-sig"), path.suffix)
    except AclTextError as error:
        raise AclSourceError(source, error.reason, error.place) from error
    except UnicodeDecodeError as error:
        raise AclSourceError(source, "not valid UTF-8", f"byte {error.start}") from error
    except (InvalidAsOfError, PastRangeError) as error:
        raise AclSourceError(source, str(error), "as of") from error
    except (MetadataLogError, ChangeError) as error:
        # AclSourceError names the source, so leave it out of the reason.
        raise AclSourceError(source, str(error).removeprefix(f"{path}: ")) from error
    except OSError as error:
        # In a log, the text of the error names the file.
        raise AclSourceError(
            source, str(error) if is_log else error.strerror or str(error)
        ) from error


def parse_moment(text: str) -> AsOf:
    """Return the offset or the time that ``text`` names.

    Raises:
        InvalidAsOfError: ``text`` is neither.
    """
    try:
        return parse_as_of(text)
    except InvalidAsOfError:
        # Unlike other commands, those of replay accept times as they appear in Kafka's logs.
        with suppress(ValueError, OverflowError):
            return AsOf(time_ms=parse_time(text))
        raise


def _parse(source: str, text: str, suffix: str) -> LogState:
    read = read_acl_text(text, suffix)
    for loss in read.losses:
        # A report cannot show warnings, so it must not be based on only part of the text.
        if loss.acl is None:
            raise AclSourceError(source, f"the file grants what ACLs cannot: {loss}")
    return LogState(sort_acls(map(DatedAcl, read.acls)))
