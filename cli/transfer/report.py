"""The report of a command: lines for people, or one JSON document for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from authorizerd.acl.explanation.words import count_of
from authorizerd.acl.formats.model import Loss
from authorizerd.acl.snapshot import is_grant
from authorizerd.cli.transfer.model import Draft, Written

DENIALS_SHOWN_MAX: Final = 1_000
LOSSES_SHOWN_MAX: Final = 20
"""How many lost DENYs are printed as lines, and how many other losses before they are counted by
reason. The JSON document has all losses.
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
        if set(principals) == {""}:  # a part of the source that is not an ACL
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


def describe_draft(draft: Draft, *, target: str, kind: str) -> Iterator[str]:
    """Yield the lines about what is to be written, for --dry-run."""
    denials = sum(1 for acl in draft.new if not is_grant(acl))
    yield (
        f"would write {count_of(len(draft.new), 'ACL')} ({denials} DENY, "
        f"{len(draft.new) - denials} ALLOW) to {target} ({kind})"
    )


def describe_written(written: Written, *, target: str, kind: str) -> Iterator[str]:
    """Yield the lines about what was written."""
    yield f"wrote {count_of(written.count, 'ACL')} to {target} ({kind})"
    yield from written.notes
