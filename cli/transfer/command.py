"""``authorizerd acls export`` and ``authorizerd acls import``: ACLs from one place to another.

**Invariant:** nothing is lost silently. A loss is reported, and stops the command before anything
is written, unless ``--accept-losses`` is given. Nothing is ever removed from the target.

Exit codes: 0 everything was (or would be) written, 1 a fault, 2 invalid arguments, 3 something
would be lost, and nothing was written.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from authorizerd.acl.explanation.words import count_of
from authorizerd.acl.model import Acl
from authorizerd.acl.snapshot import is_grant
from authorizerd.acl.surprises import find_surprises
from authorizerd.acl.text.named_acl import name_acl
from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.cli.errors import CommandError
from authorizerd.cli.output import print_document, print_lines, warn
from authorizerd.cli.transfer import arguments, model
from authorizerd.cli.transfer.places import open_source, open_target
from authorizerd.management.formats.model import Loss

DENIALS_SHOWN_MAX: Final = 1_000
LOSSES_SHOWN_MAX: Final = 20
"""Maximum number of lost DENYs printed as lines. Above it, other losses are counted by reason.
The JSON document has all losses.
"""
REASONS_SHOWN_MAX: Final = 50
PRINCIPALS_SHOWN_MAX: Final = 5


def describe_losses(losses: tuple[Loss, ...]) -> Iterator[str]:
    """Yield a line for each lost DENY, then the other losses: few as lines, many by reason."""
    denials = [loss for loss in losses if loss.acl is not None and not is_grant(loss.acl)]
    others = [loss for loss in losses if loss.acl is None or is_grant(loss.acl)]
    yield from (f"loss: {loss}" for loss in denials[:DENIALS_SHOWN_MAX])
    if len(denials) > DENIALS_SHOWN_MAX:
        yield f"and {count_of(len(denials) - DENIALS_SHOWN_MAX, 'more DENY')}; --json lists all"
    if len(others) > LOSSES_SHOWN_MAX:
        yield from _count_losses(others)
    else:
        yield from (f"loss: {loss}" for loss in others)
    if denials:
        yield f"{count_of(len(denials), 'DENY')} among them: without a DENY, more is allowed"


def _count_losses(losses: list[Loss]) -> Iterator[str]:
    """Yield a line for each reason, the most frequent one first, with the principals."""
    by_reason: dict[str, Counter[str]] = {}
    for loss in losses:
        principals = by_reason.setdefault(loss.reason, Counter())
        principals["" if loss.acl is None else loss.acl.principal] += 1
    ordered = sorted(by_reason.items(), key=lambda each: -each[1].total())
    for reason, principals in ordered[:REASONS_SHOWN_MAX]:
        if set(principals) == {""}:  # part of the source that is not an ACL
            yield f"loss: {reason}"
            continue
        named = ", ".join(
            f"{principal} ({count})"
            for principal, count in principals.most_common(PRINCIPALS_SHOWN_MAX)
        )
        more = len(principals) - PRINCIPALS_SHOWN_MAX
        if more > 0:
            named += f" and {count_of(more, 'other principal')}"
        yield f"loss: {count_of(principals.total(), 'ALLOW')} of {named}: {reason}"
    left = sum(principals.total() for _, principals in ordered[REASONS_SHOWN_MAX:])
    more_text = f"and {left} more; " if left else ""
    yield f"{more_text}--json lists each of the losses"


EXIT_FAULT: Final = 1
EXIT_LOSSES: Final = 3
SURPRISES_SHOWN_MAX: Final = 20


def add_export_command(parser: argparse.ArgumentParser) -> None:
    arguments.add_export_arguments(parser)
    parser.set_defaults(run=lambda given: _run(arguments.read_export(given)))


def add_import_command(parser: argparse.ArgumentParser) -> None:
    arguments.add_import_arguments(parser)
    parser.set_defaults(run=lambda given: _run(arguments.read_import(given)))


class _Outcome(NamedTuple):
    """The outcome of a request: the ACLs read, and the part of the draft that was written.

    Attributes:
        read, selected: the number of ACLs in the source, and how many of them the flags select.
        written: None if nothing was to be written.
    """

    request: model.Request
    source: model.Source
    target: model.Target
    read: int
    selected: int
    draft: model.Draft
    losses: tuple[Loss, ...]
    written: model.Written | None


def _run(request: model.Request) -> int:
    return transfer(request, open_source(request), open_target(request))


def transfer(request: model.Request, source: model.Source, target: model.Target) -> int:
    """Read the source, write the target, report; return the exit code.

    Raises:
        CommandError, ConfigurationError, MetadataLogError: a place is unusable. The target is
            unchanged, unless the text says otherwise.
    """
    everything = model.leave_out_lost(source.read())
    found = _select(everything, request.selects)
    with target.open() as opened:
        draft = opened.draft(found)
        if not request.is_export:
            _warn_of_surprises(draft.new)
        for note in draft.notes:
            warn(f"warning: {note}")
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


def _select(found: model.AclsFound, selects: Callable[[Acl], bool] | None) -> model.AclsFound:
    """Return the selected ACLs, and the losses that concern them or no ACL."""
    if selects is None:
        return found

    def concerns(loss: Loss) -> bool:
        return loss.acl is None or selects(loss.acl)

    return model.AclsFound(
        tuple(filter(selects, found.acls)), found.ids, tuple(filter(concerns, found.losses))
    )


def _check_replaceable(request: model.Request) -> None:
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
        yield f"wrote {count_of(written.count, 'ACL')} to {target.name} ({target.kind})"
        yield from written.notes
    elif request.dry_run:
        denials = sum(1 for acl in draft.new if not is_grant(acl))
        yield (
            f"would write {count_of(len(draft.new), 'ACL')} ({denials} DENY, "
            f"{len(draft.new) - denials} ALLOW) to {target.name} ({target.kind})"
        )
    if not target.is_complete and (written is None or not written.failure):
        yield f"ACLs that {source.name} lacks are kept: `authorizerd acls plan` also removes ACLs"


def _print_lines(target: model.Target, lines: Iterable[str]) -> None:
    """Print lines on standard output, unless the ACLs go there."""
    if target.is_standard_output:
        sys.stderr.write("".join(f"{escape_unprintable(line)}\n" for line in lines))
    else:
        print_lines(lines)


def _warn_of_surprises(acls: Iterable[Acl]) -> None:
    """Warn about probable mistakes, such as `user:alice`; each warning once."""
    texts = dict.fromkeys(text for acl in acls for text in find_surprises(acl))
    for text in islice(texts, SURPRISES_SHOWN_MAX):
        warn(f"warning: {text}")
    if len(texts) > SURPRISES_SHOWN_MAX:
        warn(f"and {len(texts) - SURPRISES_SHOWN_MAX} more warnings")


def _report_faults(losses: tuple[Loss, ...], written: model.Written | None, *, stops: bool) -> None:
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
    target, written, losses = outcome.target, outcome.written, outcome.losses
    done = model.Written(count=0) if written is None else written
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
            {"acl": None if loss.acl is None else name_acl(loss.acl), "reason": loss.reason}
            for loss in losses
        ],
        "losses_accepted": bool(losses) and outcome.request.accept_losses,
        "requests": done.requests,
        "offset": done.offset,
        "cluster_id": done.cluster_id,
        "failure": done.failure or None,
    }
