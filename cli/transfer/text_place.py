"""Files of ACLs, and standard input and output, in one of the formats of ``management.formats``.

**Invariant:** a text is written only after it was parsed again: every ACL that it does not
reproduce is a reported loss, and it yields no other ACLs. After any failure, the file at the path
is the complete old or new one.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from msgspec.structs import astuple

from authorizerd.acl.grants.reading import join_notes
from authorizerd.acl.model import Acl
from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.cli.acl_file import STANDARD_INPUT, parse_acls, read_text
from authorizerd.cli.errors import CommandError
from authorizerd.cli.program.ending import saying
from authorizerd.cli.transfer.model import AclsFound, Draft, Locator, Written
from authorizerd.management.formats.model import AclTextError, Format, Loss
from authorizerd.metadata.checkpoint_writer import PART_SUFFIX, removed_on_error
from authorizerd.metadata.meta_properties import write_whole
from authorizerd.metadata.storage import Storage

FILE_MODE: Final = 0o664
"""The permissions of new files, less the umask. Only owner and group may write."""


def find_writable(path: Path, *, overwrite: bool) -> tuple[Path, int | None]:
    """Return the file at ``path``, with links resolved, and its permissions.

    Returns: None as the permissions if there is no such file.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return path, None
    except OSError as error:
        raise new_error(path, error) from error
    if not stat.S_ISREG(mode):
        raise CommandError(f"{path}: expected a file or nothing, found something else")
    if not overwrite:
        raise CommandError(
            f"{path}: the file exists and was kept: use --overwrite, or another name"
        )
    return path.resolve(), stat.S_IMODE(mode)


def write_text(path: Path, text: str, mode: int | None, storage: Storage | None = None) -> None:
    """Write a file atomically and durably. A failure leaves no partial file."""
    storage = storage or Storage(file_mode=FILE_MODE if mode is None else mode)
    part = path.with_name(path.name + PART_SUFFIX)
    try:
        with (
            saying(lambda: f"{path}: the file is complete, either the earlier or the new one"),
            removed_on_error(part, storage),
        ):
            write_whole(path, text.encode(), storage)
    except OSError as error:
        raise new_error(path, error) from error


def new_error(path: Path, error: OSError) -> CommandError:
    """Return the error for a file that cannot be written, or whose path cannot be examined."""
    return CommandError(f"{path}: not written: {error.strerror or os.strerror(error.errno or 0)}")


STANDARD_OUTPUT = "standard output"
_LOST_PARTNER: Final = (
    "it belongs to a grant that the format cannot express: an ACL and the note of its end are "
    "written together, or not at all"
)


class TextSource:
    """A file, or standard input."""

    def __init__(self, locator: Locator, format: str | None) -> None:
        self._locator = locator
        self._format = locator.format or format
        self.name = STANDARD_INPUT if locator.is_standard else str(locator.path)

    def read(self) -> AclsFound:
        locator = self._locator
        text = read_text(None if locator.is_standard else locator.path)
        found = parse_acls(self.name, text, locator.path.suffix, self._format)
        return AclsFound(found.acls, losses=found.losses)


class TextTarget:
    """A file, or standard output."""

    is_complete = True

    def __init__(
        self,
        locator: Locator,
        format: Format,
        *,
        overwrite: bool = False,
        storage: Storage | None = None,
    ) -> None:
        self._path = locator.path
        self._format = format
        self._overwrite = overwrite
        self._storage = storage
        self._mode: int | None = None
        self._text = ""
        self.name = STANDARD_OUTPUT if locator.is_standard else str(locator.path)
        self.kind = format.name
        self.is_standard_output = locator.is_standard

    @contextmanager
    def open(self) -> Iterator[TextTarget]:
        if not self.is_standard_output:
            self._path, self._mode = find_writable(self._path, overwrite=self._overwrite)
        yield self

    def draft(self, found: AclsFound) -> Draft:
        """Return what would be written, and keep the text."""
        # A broker's listing is unordered. Sort it, so that exports can be compared line by line.
        acls = tuple(sorted(found.acls, key=astuple))
        losses = self._format_acls(acls)
        lost = {loss.acl for loss in losses}
        # Without its note, the ACL of a grant would be permanent.
        joined = (each for each in join_notes(acls) if not lost.isdisjoint(each))
        partners = [acl for each in joined for acl in each if acl not in lost]
        if partners:
            lost |= set(partners)
            losses += self._format_acls(tuple(acl for acl in acls if acl not in lost))
            losses += tuple(Loss(acl, _LOST_PARTNER) for acl in partners)
        return Draft(tuple(acl for acl in acls if acl not in lost), losses=losses)

    def _format_acls(self, acls: tuple[Acl, ...]) -> tuple[Loss, ...]:
        """Keep the text of some ACLs, and return its losses."""
        written = self._format.write(acls)
        self._text = written.text
        lost = {loss.acl for loss in written.losses}
        return (*written.losses, *_find_unnamed(self._format, written.text, acls, lost))

    def write(self, draft: Draft, found: AclsFound) -> Written:
        if self.is_standard_output:
            sys.stdout.flush()
            sys.stdout.buffer.write(self._text.encode())
            sys.stdout.buffer.flush()
        else:
            write_text(self._path, self._text, self._mode, self._storage)
        return Written(count=len(draft.new))


def _find_unnamed(
    format: Format, text: str, acls: tuple[Acl, ...], lost: set[Acl | None]
) -> list[Loss]:
    """Parse the text again, and return the losses that the format did not report."""
    try:
        back = frozenset(format.read(text).acls)
    except AclTextError as error:
        raise CommandError(
            f"{format.name}: the text cannot be read back, and was not written: {error.place}: "
            f"{error.reason}"
        ) from error
    for acl in back.difference(acls):
        raise CommandError(
            f"{format.name}: the text would grant or deny something else, and was not written: "
            f"{escape_unprintable(str(acl))}"
        )
    return [
        Loss(acl, f"{format.name} does not reproduce it")
        for acl in acls
        if acl not in back and acl not in lost
    ]
