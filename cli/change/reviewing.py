"""``authorizerd acls plan --review FILE…``: removals that owners decided in an access review."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from authorizerd.acl.model import Acl
from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.cli.acl_source import AclSource, SourceRequest, open_source
from authorizerd.cli.errors import CommandError
from authorizerd.cli.output import print_lines
from authorizerd.cli.question_words import warn_of
from authorizerd.cli.selection_flags import Selection
from authorizerd.management.formats.model import AclTextError
from authorizerd.management.plan.changes import AclChanges, make_changes
from authorizerd.management.plan.selector import Selector, manage_one
from authorizerd.metadata.bounded_file import read_file


class Proposed(NamedTuple):
    """What the inputs of a plan ask for.

    Attributes:
        notes: sentences that the plan's reviewers should know.
        reasons: why people want a change, for some of the changed ACLs.
    """

    source: AclSource
    selector: Selector
    changes: AclChanges
    notes: Sequence[str]
    reasons: Mapping[Acl, str]


def read_review(
    paths: Sequence[Path], selection: Selection, request: SourceRequest
) -> Proposed | None:
    """Return the removals of these files; None if there are none. Blocks.

    Raises:
        CommandError: a file cannot be read, or is not a sheet of a review as it was made.
        PlanError: an ACL has two decisions.
    """
    # Imported here, because few plans need them.
    from authorizerd.management.review.decisions import decide
    from authorizerd.management.review.sheet import read_sheet

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
    source = open_source(request)
    acls = source.snapshot.acls
    decisions = decide(sheets, acls, has_ids=source.offset is not None)
    if not decisions.removed:
        warn_of(decisions.notes)
        print_lines(["no ACL is to be removed, so no plan was made"])
        return None
    selector = Selector(map(manage_one, decisions.removed))
    changes = make_changes(acls.values(), (), selector)
    return Proposed(source, selector, changes, decisions.notes, decisions.removed)
