"""Judge recorded tuples by other ACLs, and find the decisions that differ.

**Invariant:** the changes, and the report made of them, are those of the Spark job of ``replay
whatif`` with the same ACLs. Rules are looked up only for changed tuples.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from heapq import nsmallest
from typing import Final, NamedTuple, TypeVar

import msgspec

from authorizerd.acl.decision import Decision, explain, is_allowed
from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.judging.asking import unasked_reason
from authorizerd.replay.judging.index import AclIndex
from authorizerd.replay.judging.report import Count, JudgedBy
from authorizerd.replay.local.traffic import Figures, Traffic, TrafficTuple
from authorizerd.replay.text import format_time
from authorizerd.replay.whatif.report import (
    LISTED_MAX,
    NOTHING_CHANGED,
    Changed,
    Detail,
    OperationCount,
    PrincipalCount,
    RecordedBaseline,
    ResourceCount,
    WhatIf,
)

T = TypeVar("T")

CONTRADICTED_MAX: Final = 3


class Change(NamedTuple):
    """A tuple that the candidate decides differently, and the figures of the events that change.

    These are all its events if two sets were compared, and otherwise those with the other answer.
    """

    recorded: TrafficTuple
    figures: Figures
    rule_before: str | None
    after: Decision


class Contradicted(NamedTuple):
    """A tuple with ``events`` whose recorded answer is another one than ``was_allowed``."""

    recorded: TrafficTuple
    events: int
    was_allowed: bool


class Comparison(msgspec.Struct, frozen=True):
    """What two sets of ACLs decide about recorded traffic.

    Attributes:
        not_evaluated: the tuples that ACLs cannot decide, by reason.
        not_reproduced: the events whose recorded answer is not that of ``before``: they were
            recorded under other ACLs. Zero without ``before``.
    """

    changes: Sequence[Change]
    not_evaluated: dict[str, Count]
    not_reproduced: Count
    contradicted: Sequence[Contradicted] = ()


def compare(tuples: Iterable[TrafficTuple], before: AclIndex | None, after: AclIndex) -> Comparison:
    """Return what ``after`` decides differently from ``before``, or from the record. Blocks."""
    changes: list[Change] = []
    unasked: defaultdict[str, Counter[str]] = defaultdict(Counter)
    other = Counter[str]()
    contradicted: list[Contradicted] = []
    for recorded in tuples:
        reason = unasked_reason(recorded)
        if reason is not None:
            unasked[reason.value].update(events=recorded.all_events.events, tuples=1)
            continue
        question = recorded.question
        figures = recorded.denied if is_allowed(*after, question) else recorded.allowed
        rule_before = None if figures is None else figures.rule
        if before is not None:
            was_allowed = is_allowed(*before, question)
            contradicting = recorded.denied if was_allowed else recorded.allowed
            if contradicting is not None:
                other.update(events=contradicting.events, tuples=1)
                contradicted.append(Contradicted(recorded, contradicting.events, was_allowed))
            if is_allowed(*after, question) is was_allowed:
                continue
            figures, rule_before = recorded.all_events, str(explain(*before, question).rule)
        if figures is not None:
            changes.append(Change(recorded, figures, rule_before, explain(*after, question)))
    return Comparison(
        changes=changes,
        not_evaluated={reason: Count(**counts) for reason, counts in sorted(unasked.items())},
        not_reproduced=Count(**other),
        contradicted=tuple(nsmallest(CONTRADICTED_MAX, contradicted, key=_by_frequency)),
    )


def report_comparison(
    traffic: Traffic, baseline: AclSet | None, candidate: AclSet, comparison: Comparison
) -> WhatIf:
    """Return the report of ``compare``: the content of ``whatif.json`` for the same sets."""
    denied = [each for each in comparison.changes if not each.after.allowed]
    allowed = [each for each in comparison.changes if each.after.allowed]
    ingested = traffic.ingested
    return WhatIf(
        events=ingested.events,
        allowed_events=ingested.allowed_events,
        tuples=ingested.tuples,
        first_at=ingested.first_at,
        last_at=ingested.last_at,
        not_evaluated=comparison.not_evaluated,
        candidate=JudgedBy.of(candidate),
        baseline=RecordedBaseline() if baseline is None else JudgedBy.of(baseline),
        newly_denied=sum_changes(denied),
        newly_allowed=sum_changes(allowed),
    )


def sum_changes(changes: Sequence[Change]) -> Changed:
    """Return the sums and the lists of changes of one kind, as ``whatif.job`` sums them."""
    if not changes:
        return NOTHING_CHANGED
    principals = _counted(changes, PrincipalCount, "principal")
    resources = _counted(changes, ResourceCount, "resource_type", "resource_name")
    operations = _counted(changes, OperationCount, "operation")
    return Changed(
        events=sum(each.figures.events for each in changes),
        tuples=len(changes),
        by_principal=principals[:LISTED_MAX],
        by_principal_left_out=max(len(principals) - LISTED_MAX, 0),
        by_resource=resources[:LISTED_MAX],
        by_resource_left_out=max(len(resources) - LISTED_MAX, 0),
        by_operation=operations[:LISTED_MAX],
        details=[_detail(each) for each in sorted(changes, key=_by_events)[:LISTED_MAX]],
        details_left_out=max(len(changes) - LISTED_MAX, 0),
    )


def _counted(changes: Sequence[Change], kind: Callable[..., T], *fields: str) -> list[T]:
    """Return the counts by ``fields``: most events first, then most tuples, then by name."""
    events, tuples = Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
    for each in changes:
        key = tuple(getattr(each.recorded, field) for field in fields)
        events[key] += each.figures.events
        tuples[key] += 1
    ordered = sorted(events, key=lambda key: (-events[key], -tuples[key], key))
    return [
        kind(**dict(zip(fields, key, strict=True)), events=events[key], tuples=tuples[key])
        for key in ordered
    ]


def _by_events(change: Change) -> tuple[object, ...]:
    return (-change.figures.events, *_fields_of(change.recorded))


def _by_frequency(contradicted: Contradicted) -> tuple[object, ...]:
    return (-contradicted.events, *_fields_of(contradicted.recorded))


def _fields_of(one: TrafficTuple) -> tuple[object, ...]:
    # Spark's order: an unknown host comes before all others.
    host = (one.host is not None, one.host or "")
    return one.principal, host, one.operation, one.resource_type, one.resource_name


def _detail(change: Change) -> Detail:
    one, figures = change.recorded, change.figures
    return Detail(
        principal=one.principal,
        host=one.host,
        operation=one.operation,
        resource_type=one.resource_type,
        resource_name=one.resource_name,
        events=figures.events,
        first_at=format_time(figures.first_ms),
        last_at=format_time(figures.last_ms),
        baseline_rule=change.rule_before,
        candidate_rule=str(change.after.rule),
    )
