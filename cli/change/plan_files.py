"""The files of ``acls plan``: desired ACLs, and the plan that it may replace.

**Invariant:** a file that was not understood is an error, never one without ACLs; and no other file
than an earlier plan is replaced.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.cli.acl_file import is_log, parse_acls, read_acls, read_text
from authorizerd.cli.errors import CommandError
from authorizerd.cli.transfer.text_place import find_writable, new_error
from authorizerd.management.formats.model import AclsRead
from authorizerd.management.formats.unread import find_placeholder
from authorizerd.management.plan import document

_START: Final = re.compile(rf'\s*\{{\s*"format"\s*:\s*"{re.escape(document.FORMAT)}"')
_START_BYTES: Final = 1_024
_FOR_NO_ACLS: Final = "if there should be no ACLs, write 'acls: []' into a .yaml file"
_FOR_OTHERS: Final = "if this kind of file has no ACLs, leave it out, or pass --accept-losses"


def read_desired(path: Path, *, accepts_losses: bool) -> AclsRead:
    """Return the desired ACLs of a file. Blocks.

    An empty file is an error, because a failed listing leaves an empty file. A pipe is read once.

    Args:
        accepts_losses: whether a file, or a document in it, may be entirely unreadable.
    """
    if is_log(path):
        return read_acls(path)
    text = read_text(path)
    if is_plan(text):
        raise CommandError(
            f"{path}: expected desired ACLs, found a plan: apply it with 'authorizerd acls apply'"
        )
    if not text.strip():
        raise CommandError(f"{path}: expected desired ACLs, found an empty file: {_FOR_NO_ACLS}")
    read = parse_acls(path, text, path.suffix)
    if not accepts_losses:
        _check_understood(path, read)
    return read


def _check_understood(path: Path, read: AclsRead) -> None:
    """Raise CommandError if nothing was read of a file or document, or a name is a placeholder."""
    for loss in read.losses:
        if loss.is_document:
            raise CommandError(f"{path}: {loss}: {_FOR_OTHERS}")
    for acl in read.acls:
        for name in (acl.principal, acl.resource_name, acl.host):
            if placeholder := find_placeholder(name):
                raise CommandError(
                    f"{path}: a name has the placeholder {escape_unprintable(placeholder)}: "
                    "replace it first, for example by helm template or envsubst, or pass "
                    "--accept-losses if it is part of the name"
                )
    if read.is_empty and read.losses:
        raise CommandError(
            f"{path}: expected desired ACLs, found none that can be read: {read.losses[0]}"
        )
    if read.is_empty:
        raise CommandError(
            f"{path}: expected desired ACLs, found neither ACLs nor what the file manages: "
            f"{_FOR_NO_ACLS}; {_FOR_OTHERS}"
        )


def find_plan_file(
    out: Path | None, inputs: Iterable[tuple[str, Path]], flag: str = "--out"
) -> tuple[Path, int | None] | None:
    """Return the file of ``flag`` and its permissions, like ``find_writable``; None without it."""
    if out is None:
        return None
    found = find_writable(out, overwrite=True)
    if found[1] is None:
        return found
    for name, path in inputs:
        if path.exists() and path.samefile(out):
            raise CommandError(f"{flag} {out}: the file is also {name}, and was kept: name another")
    try:
        with out.open("rb") as file:
            may_replace = is_plan(file.read(_START_BYTES).decode(errors="replace"))
    except OSError as error:
        raise new_error(out, error) from error
    if not may_replace:
        raise CommandError(
            f"{flag} {out}: the file exists and is not a plan, and was kept: name another"
        )
    return found


def is_plan(text: str) -> bool:
    """Return True if a text begins like a plan written by ``acls plan``."""
    return _START.match(text) is not None
