"""Read ACLs from a file: a log, or a text of a format in ``management.formats.catalogue``.

``authorizerd replay`` reads the same formats.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.cli.errors import CommandError
from authorizerd.cli.question_words import warn_of
from authorizerd.management.formats.catalogue import FORMATS, read_acl_text
from authorizerd.management.formats.model import AclsRead, AclTextError
from authorizerd.management.formats.unread import decode_text
from authorizerd.metadata.bounded_file import read_file, read_stream

STANDARD_INPUT: Final = "standard input"
_CHECKPOINT_SUFFIX: Final = ".checkpoint"


def is_log(path: Path) -> bool:
    """Return True if ``path`` is a log directory or a checkpoint."""
    return path.is_dir() or path.name.endswith(_CHECKPOINT_SUFFIX)


def read_acl_file(path: Path) -> AclsRead:
    """Return the ACLs of a file, without duplicates, like ``read_acls``.

    Warns about parts of the file that ACLs cannot express.
    """
    read = read_acls(path)
    warn_of(f"{path}: {loss}" for loss in read.losses)
    return read


def read_acls(path: Path) -> AclsRead:
    """Return the ACLs of a file, the parts that are lost, and the scope of the file. Blocks."""
    if is_log(path):
        from authorizerd.cli.offline import read_snapshot  # most files are text

        return AclsRead(tuple(read_snapshot(path).acls.values()))
    return parse_acls(path, read_text(path), path.suffix)


def read_text(path: Path | None) -> str:
    name = STANDARD_INPUT if path is None else path
    try:
        return decode_text(read_stream(sys.stdin.buffer) if path is None else read_file(path))
    except OSError as error:
        raise CommandError(f"{name}: {error.strerror or error}") from error
    except AclTextError as error:
        raise CommandError(escape_unprintable(f"{name}: {error}")) from error


def parse_acls(name: object, text: str, suffix: str, format: str | None = None) -> AclsRead:
    """Return the ACLs in the text of a file, like ``read_acls``."""
    try:
        return read_acl_text(text, suffix) if format is None else FORMATS[format].read(text)
    except AclTextError as error:
        reason = f"{name}: {error.place}: {error.reason}"
        raise CommandError(escape_unprintable(reason)) from error
