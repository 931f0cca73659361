"""Read ACLs from a file: a log, or a text of any format that ``acl.formats.catalogue`` lists.

``authorizerd replay`` reads the same formats.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from authorizerd.acl.builder import build
from authorizerd.acl.formats.catalogue import read_acl_text
from authorizerd.acl.formats.model import AclsRead, AclTextError
from authorizerd.acl.formats.unread import decode_text
from authorizerd.acl.listing import derive_id
from authorizerd.acl.model import Acl, AclAdded
from authorizerd.acl.printable import escape_unprintable
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.cli.offline import read_snapshot
from authorizerd.cli.question_words import warn_of
from authorizerd.daemon.errors import StartError
from authorizerd.metadata.bounded_file import read_file

_CHECKPOINT_SUFFIX: Final = ".checkpoint"


def is_log(path: Path) -> bool:
    """Return True if ``path`` is a log directory or a checkpoint."""
    return path.is_dir() or path.name.endswith(_CHECKPOINT_SUFFIX)


def read_acl_file(path: Path) -> list[Acl]:
    """Return the ACLs of a file, without repeats. Blocks.

    Warns of what the file says and ACLs cannot.

    Raises:
        StartError: the file cannot be read, or has another form.
        MetadataLogError: as ``offline.read_snapshot``, for a checkpoint or a log.
    """
    read = read_acls(path)
    warn_of(f"{path}: {loss}" for loss in read.losses)
    return list(read.acls)


def read_acls(path: Path) -> AclsRead:
    """Return the ACLs of a file, what is lost, and what the file manages. Blocks.

    Raises as ``read_acl_file``.
    """
    if is_log(path):
        return AclsRead(tuple(read_snapshot(path).acls.values()))
    return parse_acls(path, read_text(path))


def read_text(path: Path) -> str:
    """Return the text of a file. Blocks.

    Raises:
        StartError: the file cannot be read, or is not UTF-8.
    """
    try:
        return decode_text(read_file(path))
    except OSError as error:
        raise StartError(f"{path}: {error.strerror or error}") from error
    except AclTextError as error:
        raise StartError(f"{path}: {error}") from error


def parse_acls(path: Path, text: str) -> AclsRead:
    """Return the ACLs of the text of a file, as ``read_acls``.

    Raises:
        StartError: the text has another form.
    """
    try:
        return read_acl_text(text, path.suffix)
    except AclTextError as error:
        reason = f"{path}: {error.place}: {error.reason}"
        raise StartError(escape_unprintable(reason)) from error


def build_snapshot(acls: Iterable[Acl]) -> AclSnapshot:
    """Return the snapshot of ACLs that have neither ids nor an offset, each of them once."""
    return build((AclAdded(derive_id(acl), acl) for acl in acls), offset=-1)
