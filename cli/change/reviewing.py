"""``authorizerd acls plan --review FILE…``: removals that owners decided in an access review."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.cli.acl_source import AclSource, SourceRequest
from authorizerd.cli.errors import CommandError
from authorizerd.cli.selection_flags import Selection
from authorizerd.management.formats.model import AclTextError
from authorizerd.management.review.decisions import Decisions, decide
from authorizerd.management.review.sheet import Sheet, read_sheet
from authorizerd.metadata.bounded_file import read_file


def read_sheets(
    paths: Sequence[Path], selection: Selection, request: SourceRequest
) -> list[tuple[str, Sheet]]:
    """Return the sheets of a review, each with the name of its file. Blocks."""
    if selection.read_entries():
        request.refuse("--review: expected no flags that select ACLs: the files name theirs")
    sheets = []
    for path in paths:
        try:
            sheets.append((str(path), read_sheet(read_file(path))))
        except OSError as error:
            raise CommandError(f"{path}: {error.strerror or error}") from error
        except AclTextError as error:
            raise CommandError(escape_unprintable(f"{path}: {error}")) from error
    return sheets


def apply_sheets(sheets: Sequence[tuple[str, Sheet]], source: AclSource) -> Decisions:
    """Return what the sheets decide about the ACLs of a source.

    Raises:
        PlanError: an ACL has two decisions.
        CommandError: no reviewed ACL is present.
    """
    decisions = decide(sheets, source.snapshot.acls, has_ids=source.offset is not None)
    if not decisions.managed:
        raise CommandError("--review: none of the reviewed ACLs is there: make a new review")
    return decisions
