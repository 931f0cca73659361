"""``authorizerd acls plan --review FILE…``: removals that owners decided in an access review."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from authorizerd.acl.model import Acl
from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.cli.acl_source import AclSource, SourceRequest
from authorizerd.cli.errors import CommandError
from authorizerd.cli.selection_flags import Selection
from authorizerd.management.formats.model import AclTextError
from authorizerd.management.plan.selector import Selector, manage_one
from authorizerd.metadata.bounded_file import read_file

if TYPE_CHECKING:
    from authorizerd.management.review.sheet import Sheet


class Review(NamedTuple):
    """What a review asks for: of the managed ACLs, those of ``kept`` stay.

    Attributes:
        notes: sentences that a plan's reviewers should know.
        reasons: the owners' reason for each removal.
    """

    selector: Selector
    kept: list[Acl]
    notes: list[str]
    reasons: Mapping[Acl, str]


NO_REVIEW: Final = Review(Selector(()), [], [], {})


def read_sheets(
    paths: Sequence[Path], selection: Selection, request: SourceRequest
) -> list[tuple[str, Sheet]]:
    """Return the sheets of a review, each with the name of its file. Blocks."""
    from authorizerd.management.review.sheet import read_sheet  # few plans need it

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


def read_review(sheets: Sequence[tuple[str, Sheet]], source: AclSource) -> Review:
    """Return what the sheets ask for. Without removals, the plan manages what was reviewed.

    Raises:
        PlanError: an ACL has two decisions.
        CommandError: no reviewed ACL is present.
    """
    from authorizerd.management.review.decisions import decide

    decisions = decide(sheets, source.snapshot.acls, has_ids=source.offset is not None)
    removed, kept = decisions.removed, [] if decisions.removed else decisions.kept
    if not (removed or kept):
        raise CommandError("--review: none of the reviewed ACLs is there: make a new review")
    return Review(Selector(map(manage_one, [*removed, *kept])), kept, decisions.notes, removed)
