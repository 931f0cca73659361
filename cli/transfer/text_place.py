"""Files of ACLs, and standard input and output, in one of the formats of ``acl.formats``.

**Invariant:** a text is written only after it was read back: every ACL that it does not give back
is a named loss, and it never gives back an ACL that it was not given.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import astuple

from authorizerd.acl.formats.catalogue import FORMATS, read_acl_text
from authorizerd.acl.formats.model import AclTextError, Format, Loss
from authorizerd.acl.formats.unread import decode_text
from authorizerd.acl.model import Acl
from authorizerd.acl.printable import escape_unprintable
from authorizerd.cli.transfer.locator import Locator
from authorizerd.cli.transfer.model import AclsFound, Draft, Written
from authorizerd.cli.transfer.whole_file import find_writable, write_text
from authorizerd.daemon.errors import StartError
from authorizerd.metadata.bounded_file import read_file, read_stream
from authorizerd.metadata.storage import Storage

STANDARD_INPUT = "standard input"
STANDARD_OUTPUT = "standard output"


class TextSource:
    """A file, or standard input.

    Args:
        format: its name; None to detect it.
    """

    def __init__(self, locator: Locator, format: str | None) -> None:
        self._locator = locator
        self._format = locator.format or format

    @property
    def name(self) -> str:
        return STANDARD_INPUT if self._locator.is_standard else str(self._locator.path)

    def read(self) -> AclsFound:
        data = self._read_data()
        try:
            text = decode_text(data)
            if self._format is None:
                found = read_acl_text(text, self._locator.path.suffix)
            else:
                found = FORMATS[self._format].read(text)
        except AclTextError as error:
            reason = f"{self.name}: {error.place}: {error.reason}"
            raise StartError(escape_unprintable(reason)) from error
        return AclsFound(found.acls, losses=found.losses)

    def _read_data(self) -> bytes:
        try:
            if self._locator.is_standard:
                return read_stream(sys.stdin.buffer)
            return read_file(self._locator.path)
        except OSError as error:
            raise StartError(f"{self.name}: {error.strerror or error}") from error


class TextTarget:
    """A file, or standard output.

    Args:
        storage: writes the file; None for the disk.
    """

    is_complete = True

    def __init__(
        self,
        locator: Locator,
        format: Format,
        *,
        overwrite: bool = False,
        storage: Storage | None = None,
    ) -> None:
        self._locator = locator
        self._format = format
        self._overwrite = overwrite
        self._storage = storage

    @property
    def name(self) -> str:
        return STANDARD_OUTPUT if self._locator.is_standard else str(self._locator.path)

    @property
    def kind(self) -> str:
        return self._format.name

    @property
    def is_standard_output(self) -> bool:
        return self._locator.is_standard

    @contextmanager
    def open(self) -> Iterator[_OpenText]:
        if self.is_standard_output:
            yield _OpenText(self._format, None, None, None)
        else:
            path, mode = find_writable(self._locator.path, overwrite=self._overwrite)
            yield _OpenText(self._format, path, mode, self._storage)


class _OpenText:
    """A file to be written, or standard output if ``path`` is None."""

    def __init__(
        self, format: Format, path: Path | None, mode: int | None, storage: Storage | None
    ) -> None:
        self._format = format
        self._path = path
        self._mode = mode
        self._storage = storage
        self._text = ""

    def draft(self, found: AclsFound) -> Draft:
        """Return what would be written, and keep the text."""
        # A broker lists in no order. Sorted, two exports can be compared line by line.
        acls = tuple(sorted(found.acls, key=astuple))
        written = self._format.write(acls)
        self._text = written.text
        lost = {loss.acl for loss in written.losses}
        unnamed = _find_unnamed(self._format, written.text, acls, lost)
        losses = (*written.losses, *unnamed)
        lost |= {loss.acl for loss in unnamed}
        return Draft(tuple(acl for acl in acls if acl not in lost), losses=losses)

    def write(self, draft: Draft, found: AclsFound) -> Written:
        if self._path is None:
            sys.stdout.flush()
            sys.stdout.buffer.write(self._text.encode())
            sys.stdout.buffer.flush()
        else:
            write_text(self._path, self._text, self._mode, self._storage)
        return Written(count=len(draft.new))


def _find_unnamed(
    format: Format, text: str, acls: tuple[Acl, ...], lost: set[Acl | None]
) -> list[Loss]:
    """Return the losses that the format has not named, by reading the text back.

    Raises:
        StartError: the text gives back an ACL that it was not given, or cannot be read.
    """
    try:
        back = frozenset(format.read(text).acls)
    except AclTextError as error:
        raise StartError(
            f"{format.name}: the text cannot be read back, and was not written: {error.place}: "
            f"{error.reason}"
        ) from error
    for acl in back.difference(acls):
        raise StartError(
            f"{format.name}: the text would grant or deny something else, and was not written: "
            f"{escape_unprintable(str(acl))}"
        )
    return [
        Loss(acl, f"{format.name} does not give it back")
        for acl in acls
        if acl not in back and acl not in lost
    ]
