"""``authorizerd acls export`` and ``authorizerd acls import``: ACLs from one place to another.

**Invariant:** nothing is lost in silence. A loss is named, and stops the command before anything
is written, unless ``--accept-losses`` is given. Nothing is ever removed from the target.

Exit codes: 0 all is written (or would be), 1 a fault, 2 invalid arguments, 3 something would be
lost, and nothing was written.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final, NamedTuple

from authorizerd.acl.explanation.words import count_of
from authorizerd.acl.formats.model import Loss
from authorizerd.acl.model import Acl
from authorizerd.acl.printable import escape_unprintable
from authorizerd.acl.surprises import find_surprises
from authorizerd.cli.errors import CommandError
from authorizerd.cli.output import print_document, print_lines, warn
from authorizerd.cli.transfer.arguments import (
    add_export_arguments,
    add_import_arguments,
    read_export,
    read_import,
)
from authorizerd.cli.transfer.model import (
    AclsFound,
    Draft,
    Request,
    Source,
    Target,
    Written,
    leave_out_lost,
)
from authorizerd.cli.transfer.places import open_source, open_target
from authorizerd.cli.transfer.report import describe_draft, describe_losses, describe_written
from authorizerd.protocol.decisions.acl_answers import make_acl_answer

EXIT_FAULT: Final = 1
EXIT_LOSSES: Final = 3
SURPRISES_SHOWN_MAX: Final = 20


def add_export_command(parser: argparse.ArgumentParser) -> None:
    """Make ``parser`` parse and run ``acls export``."""
    add_export_arguments(parser)
    parser.set_defaults(run=lambda given: _run(read_export(given)))


def add_import_command(parser: argparse.ArgumentParser) -> None:
    """Make ``parser`` parse and run ``acls import``."""
    add_import_arguments(parser)
    parser.set_defaults(run=lambda given: _run(read_import(given)))


class _Outcome(NamedTuple):
    """What became of a request: the ACLs that were read, and what was written of the draft.

    Attributes:
        read, selected: how many ACLs the source has, and how many of them the flags select.
        written: None if nothing was to be written.
    """

    request: Request
    source: Source
    target: Target
    read: int
    selected: int
    draft: Draft
    losses: tuple[Loss, ...]
    written: Written | None


def _run(request: Request) -> int:
    return transfer(request, open_source(request), open_target(request))


def transfer(request: Request, source: Source, target: Target) -> int:
    """Read the source, write the target, report; return the exit code.

    Raises:
        CommandError, ConfigurationError, MetadataLogError: a place is unusable, and the
            target is unchanged, or the text says what is known of it.
    """
    everything = leave_out_lost(source.read())
    found = _select(everything, request.selects)
    with target.open() as opened:
        draft = opened.draft(found)
        if not request.is_export:
            _warn_of_surprises(draft.new)
        losses = (*found.losses, *draft.losses)
        stops = bool(losses) and not request.accept_losses
        written = None
        if not stops and not found.acls:
            _check_replaceable(request)
        if not (stops or request.dry_run):
            written = opened.write(draft, found)
    outcome = _Outcome(
        request, source, target, len(everything.acls), len(found.acls), draft, losses, written
    )
    if request.json:
        print_document(_make_document(outcome))
    else:
        _print_lines(target, _describe(outcome))
    _report_faults(losses, written, stops=stops)
    if stops:
        return EXIT_LOSSES
    return EXIT_FAULT if written is not None and written.failure else 0


def _select(found: AclsFound, selects: Callable[[Acl], bool] | None) -> AclsFound:
    """Return the selected ACLs, and the losses that concern them or no ACL."""
    if selects is None:
        return found

    def concerns(loss: Loss) -> bool:
        return loss.acl is None or selects(loss.acl)

    return AclsFound(
        tuple(filter(selects, found.acls)), found.ids, tuple(filter(concerns, found.losses))
    )


def _check_replaceable(request: Request) -> None:
    """Keep an existing file if the flags select nothing: a typo in a name is the likely reason."""
    file = request.target.locator.path
    if request.selects is not None and request.overwrite and file.exists():
        raise CommandError(
            f"{file}: the file was kept, because the flags select no ACLs: check the names"
        )


def _describe(outcome: _Outcome) -> Iterable[str]:
    request, source, target = outcome.request, outcome.source, outcome.target
    draft, written = outcome.draft, outcome.written
    read = count_of(outcome.read, "ACL")
    if request.selects is None:
        yield f"read {read} from {source.name}"
    else:
        yield f"selected {outcome.selected} of {read} from {source.name}"
    if draft.present:
        verb = "is" if draft.present == 1 else "are"
        yield f"{draft.present} of them {verb} already in {target.name}"
    if written is not None:
        yield from describe_written(written, target=target.name, kind=target.kind)
    elif request.dry_run:
        yield from describe_draft(draft, target=target.name, kind=target.kind)
    if not target.is_complete and (written is None or not written.failure):
        yield f"ACLs that {source.name} lacks stay: `authorizerd acls plan` also removes"


def _print_lines(target: Target, lines: Iterable[str]) -> None:
    """Print lines on standard output, unless that gets the ACLs."""
    if target.is_standard_output:
        sys.stderr.write("".join(f"{escape_unprintable(line)}\n" for line in lines))
    else:
        print_lines(lines)


def _warn_of_surprises(acls: Iterable[Acl]) -> None:
    """Print what probably is not meant, such as `user:alice`, each text once."""
    texts = dict.fromkeys(text for acl in acls for text in find_surprises(acl))
    for text in islice(texts, SURPRISES_SHOWN_MAX):
        warn(f"warning: {text}")
    if len(texts) > SURPRISES_SHOWN_MAX:
        warn(f"and {len(texts) - SURPRISES_SHOWN_MAX} more warnings")


def _report_faults(losses: tuple[Loss, ...], written: Written | None, *, stops: bool) -> None:
    """Print the losses and a failure on standard error."""
    for line in describe_losses(losses):
        warn(line)
    if stops:
        warn(
            "nothing was written, because something would be lost: pass --accept-losses to leave "
            "it out"
        )
    if written is not None and written.failure:
        for line in written.failure.splitlines():
            warn(line)


def _make_document(outcome: _Outcome) -> dict[str, object]:
    """Return the document, which docs/import-export.md describes."""
    target, written, losses = outcome.target, outcome.written, outcome.losses
    done = Written(count=0) if written is None else written
    return {
        "from": outcome.source.name,
        "to": {"place": target.name, "kind": target.kind},
        "read": outcome.read,
        "selected": outcome.selected,
        "present": outcome.draft.present,
        "new": len(outcome.draft.new),
        "written": done.count,
        "is_written": written is not None and not written.failure,
        "is_dry_run": outcome.request.dry_run,
        "losses": [
            {"acl": None if each.acl is None else make_acl_answer(each.acl), "reason": each.reason}
            for each in losses
        ],
        "losses_accepted": bool(losses) and outcome.request.accept_losses,
        "requests": done.requests,
        "offset": done.offset,
        "cluster_id": done.cluster_id,
        "failure": done.failure or None,
    }
