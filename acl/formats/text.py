"""Read ACLs from the text of a file: a document, or the output of kafka-acls."""

from __future__ import annotations

from typing import Final

from authorizerd.acl.formats.listing import ListingError, read_listing
from authorizerd.acl.model import Acl

DOCUMENT_SUFFIXES: Final = (".json", ".yaml", ".yml")


class AclTextError(Exception):
    """A text that cannot be read as ACLs; ``place`` is, for example, ``line 7``."""

    def __init__(self, reason: str, place: str) -> None:
        super().__init__(reason, place)
        self.reason = reason
        self.place = place


def read_acl_text(text: str, suffix: str) -> list[Acl]:
    """Return the ACLs of a text, in its order and without repeats.

    Args:
        suffix: of the file's name. It chooses YAML or JSON; any other file is a listing.

    Raises:
        AclTextError: the text has another form.
    """
    if suffix.lower() in DOCUMENT_SUFFIXES:
        return _read_document(text, suffix.lower())
    try:
        return list(dict.fromkeys(read_listing(text)))
    except ListingError as error:
        raise AclTextError(error.reason, f"line {error.line}") from error


def _read_document(text: str, suffix: str) -> list[Acl]:
    # Imported late, so that a command that reads a listing does not wait for PyYAML.
    from authorizerd.acl.formats.document import PARSERS, DocumentError, read_document

    try:
        return list(read_document(PARSERS[suffix](text)))
    except DocumentError as error:
        raise AclTextError(error.reason, error.place) from error
