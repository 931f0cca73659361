"""Find the recorded tuples that a candidate set of ACLs decides differently.

**Invariant:** a tuple changes only if the candidate denies what was allowed, or allows what was
denied. Rules are looked up only for changed tuples.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from authorizerd.replay.judging.asking import unasked_reason
from authorizerd.replay.judging.index import AclIndex
from authorizerd.replay.recorded.tuples import RecordedTuple
from authorizerd.replay.whatif.report import NEWLY_ALLOWED, NEWLY_DENIED


class Change(NamedTuple):
    """A tuple that is decided differently, and the figures of the events that change.

    These are all its events if two sets were compared, and otherwise those with the other answer.
    """

    change: str
    principal: str
    host: str | None
    operation: str
    resource_type: str
    resource_name: str
    baseline_rule: str | None
    candidate_rule: str
    events: int
    first_ms: int
    last_ms: int


class NotEvaluated(NamedTuple):
    """The tuples that ACLs cannot decide for one reason."""

    reason: str
    events: int
    tuples: int


def find_changes(
    tuples: Iterable[RecordedTuple], candidate: AclIndex, baseline: AclIndex | None
) -> Iterator[Change]:
    """Yield the tuples that the candidate decides differently from the baseline or the record.

    Without a baseline, the figures and ``baseline_rule`` are those of the events whose recorded
    decision changes. With a baseline, the figures are those of the whole tuple.
    """
    for one in tuples:
        if unasked_reason(one) is not None:
            continue
        is_allowed = candidate.allows(one)
        if baseline is None:
            figures = one.denied if is_allowed else one.allowed
            if figures is None:
                continue
            rule = figures.rule
        elif baseline.allows(one) is is_allowed:
            continue
        else:
            figures, rule = one.all_events, str(baseline.explain(one).rule)
        yield Change(
            NEWLY_ALLOWED if is_allowed else NEWLY_DENIED,
            *one[:5],
            rule,
            str(candidate.explain(one).rule),
            *figures[:3],
        )


def find_unasked(tuples: Iterable[RecordedTuple]) -> Iterator[NotEvaluated]:
    """Yield the tuples that ACLs cannot decide."""
    for one in tuples:
        reason = unasked_reason(one)
        if reason is not None:
            yield NotEvaluated(reason.value, one.events, 1)
