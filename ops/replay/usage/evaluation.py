"""Derive the report and the script from the recorded use of ACLs, wherever the tuples are.

**Invariant:** equal tuples give equal bytes. An ACL that is not known to have been in force for the
whole window is never called unused.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from typing import NamedTuple

from authorizerd.acl.model import Acl
from authorizerd.acl.notes import is_note
from authorizerd.replay.acl_set import AclSet, DatedAcl
from authorizerd.replay.errors import UsageError
from authorizerd.replay.ingest.logs import find_live
from authorizerd.replay.ingest.report import Ingested
from authorizerd.replay.judging.index import AclIndex
from authorizerd.replay.judging.report import JudgedBy
from authorizerd.replay.messages import EXIT_DONE
from authorizerd.replay.plans import UsagePlan
from authorizerd.replay.recorded.agreement import describe_contradiction
from authorizerd.replay.recorded.rows import Rows
from authorizerd.replay.recorded.tuples import (
    Engine,
    RecordedTuple,
    Source,
    find_begin,
    find_gaps,
)
from authorizerd.replay.text import encode_json, format_time, parse_time
from authorizerd.replay.usage.report import (
    HOW_TO_LOG_ALLOWED,
    LeftOutReport,
    NarrowingReport,
    Proof,
    SuggestionsReport,
    UnusedAcl,
    UsageReport,
    UsedAcl,
    WindowReport,
    named,
    script,
    script_comments,
    summary,
)
from authorizerd.replay.usage.suggestions import Suggestions, compare, prove, suggest
from authorizerd.replay.usage.uses import AclUsage, Counted, Summed, sum_uses


class Window(NamedTuple):
    """The time over which ACLs are judged: milliseconds since 1970, both ends included."""

    begins_ms: int
    ends_ms: int


class Age(StrEnum):
    """Whether an ACL was in force during the window."""

    IN_FORCE = "in_force"
    ADDED_WITHIN = "added_within"
    UNKNOWN = "age_unknown"


def run(plan: UsagePlan, engine: Engine) -> int:
    """Write ``commands.sh`` and ``usage.json``, print a summary, and return the exit code.

    Raises:
        UsageError: as ``evaluate``.
    """
    report, commands = evaluate(plan, engine)
    engine.write_text("commands.sh", commands)
    # The summary is written last, so it exists only next to complete results.
    engine.write_text("usage.json", encode_json(report))
    for line in summary(report):
        print(line, flush=True)
    return EXIT_DONE


def evaluate(plan: UsagePlan, source: Source) -> tuple[UsageReport, str]:
    """Return the report, and the script that carries out its suggestions.

    Raises:
        UsageError: the record, or the dates of the ACLs, support no claim, or no suggestion is
            safe.
    """
    for gap in find_gaps(source):
        raise UsageError(f"no ACL can be called unused: {gap}")
    window = window_of(source.ingested, plan.lookback_days, plan.since_ms)
    check_ages(plan.acls, assume_in_force=plan.assume_in_force)
    index = AclIndex.of(plan.acls)
    tuples, summed = sum_window(source, window, index, plan.names_max)
    seen = _describe_window(window, summed, plan.lookback_days)
    ages = {
        item: age_of(item, window, assume_in_force=plan.assume_in_force) for item in plan.acls.acls
    }
    judged = [item.acl for item, age in ages.items() if age is Age.IN_FORCE]
    suggestions, suggested = prove(
        plan.acls,
        suggest(plan.acls, judged, summed.usage, names_max=plan.names_max),
        partial(compare, tuples, index),
    )
    unjudged = sum(count.tuples for count in summed.not_evaluated.values())
    proof = Proof(digest=suggested.digest, acls=len(suggested.acls), tuples=seen.tuples - unjudged)
    used, unused = sort_acls(ages, summed.usage)
    report = UsageReport(
        acls=JudgedBy.of(plan.acls),
        window=seen,
        assumed_in_force=plan.assume_in_force,
        not_evaluated=summed.not_evaluated,
        by_super_users=summed.count_of(Counted.BY_SUPER_USERS),
        disagreeing=summed.count_of(Counted.DISAGREEING),
        logs=find_live(source.ingested),
        used=used,
        unused=unused.pop(Age.IN_FORCE),
        not_judged={age.value: acls for age, acls in unused.items()},
        suggestions=describe_suggestions(suggestions, summed.usage, proof),
    )
    after = [item.acl for item in suggested.acls]
    return report, script(script_comments(report), index.acls, after)


def window_of(
    ingested: Ingested, lookback_days: float | None = None, since_ms: int | None = None
) -> Window:
    """Return the window, which ends at the last event, and does not begin before the first one.

    Raises:
        UsageError: the events contain no allowed request.
    """
    if ingested.first_at is None or ingested.last_at is None:
        raise UsageError("there are no events, so no ACL can be judged")
    if not ingested.allowed_events:
        raise UsageError(
            f"all {ingested.denied_events} recorded events are denials, so no ACL can be called "
            f"unused. {HOW_TO_LOG_ALLOWED}"
        )
    begins_ms, ends_ms = parse_time(ingested.first_at), parse_time(ingested.last_at)
    asked_ms = find_begin(ingested, lookback_days, since_ms)
    return Window(begins_ms if asked_ms is None else max(begins_ms, asked_ms), ends_ms)


def sum_window(
    source: Source, window: Window, index: AclIndex, names_max: int
) -> tuple[Rows[RecordedTuple], Summed]:
    """Return the tuples of a window, and their use, with at most ``names_max`` names of each ACL.

    Raises:
        UsageError: it contains no allowed request, or the ACLs contradict the record.
    """
    first_at = source.ingested.first_at
    is_all = first_at is not None and window.begins_ms <= parse_time(first_at)
    tuples = source.tuples(None if is_all else window.begins_ms)
    summed = sum_uses(tuples, index, names_max)
    if Counted.ALLOWED not in summed.others:
        raise UsageError(
            f"no allowed request was recorded since {format_time(window.begins_ms)}, so no ACL can "
            f"be called unused. {HOW_TO_LOG_ALLOWED}"
        )
    check_agreement(summed)
    return tuples, summed


def _describe_window(window: Window, summed: Summed, lookback_days: float | None) -> WindowReport:
    """Return the figures of the window, which contains an allowed request."""
    allowed = summed.others[Counted.ALLOWED]
    return WindowReport(
        begins_at=format_time(window.begins_ms),
        ends_at=format_time(window.ends_ms),
        allowed_first_at=format_time(allowed.first_ms),
        allowed_last_at=format_time(allowed.last_ms),
        lookback_days=lookback_days,
        allowed_events=allowed.events,
        denied_events=summed.count_of(Counted.DENIED).events,
        tuples=summed.count_of(Counted.ALL).tuples,
    )


def check_agreement(summed: Summed) -> None:
    """Reject a record that these ACLs contradict.

    Raises:
        UsageError: the ACLs decide too many events differently from the record.
    """
    unjudged = sum(count.events for count in summed.not_evaluated.values())
    judged = summed.count_of(Counted.ALL).events - unjudged
    judged -= summed.count_of(Counted.BY_SUPER_USERS).events
    differing = summed.count_of(Counted.DISAGREEING).events
    contradiction = describe_contradiction(differing, judged)
    if contradiction is not None:
        raise UsageError(f"no ACL can be called unused: {contradiction}, or --as-of")


def check_ages(acl_set: AclSet, *, assume_in_force: bool) -> None:
    """Reject a source that dates none of its ACLs, unless ``assume_in_force`` is set.

    Raises:
        UsageError: no ACL has a date.
    """
    is_undated = acl_set.acls and all(item.added_ms is None for item in acl_set.acls)
    if is_undated and not assume_in_force:
        raise UsageError(
            f"{acl_set.source} does not say when its ACLs were added, so their age is unknown. Use "
            "the metadata log as the source, or --assume-in-force if all ACLs are older than the "
            "recorded events"
        )


def age_of(dated: DatedAcl, window: Window, *, assume_in_force: bool) -> Age:
    """Return how much of the window the ACL is known to have been in force."""
    if dated.added_ms is None:
        return Age.IN_FORCE if assume_in_force else Age.UNKNOWN
    return Age.IN_FORCE if dated.added_ms < window.begins_ms else Age.ADDED_WITHIN


def is_used(dated: DatedAcl, usage: AclUsage) -> bool:
    """Return True if the ACL decided a request: it was in force at the last one that it matches."""
    return dated.added_ms is None or usage.last_ms >= dated.added_ms


def sort_acls(
    ages: Mapping[DatedAcl, Age], usage: Mapping[Acl, AclUsage]
) -> tuple[tuple[UsedAcl, ...], dict[Age, tuple[UnusedAcl, ...]]]:
    """Return the used ACLs, and the unused ones by their age, each in the set's order. No note."""
    used: list[UsedAcl] = []
    unused: dict[Age, list[UnusedAcl]] = {age: [] for age in Age}
    for dated, age in ages.items():
        if is_note(dated.acl):
            continue  # nobody can use it
        acl = named(dated.acl)
        added_at = None if dated.added_ms is None else format_time(dated.added_ms)
        use = usage.get(dated.acl)
        if use is None or not is_used(dated, use):
            unused[age].append(UnusedAcl(acl=acl, added_at=added_at))
        else:
            used.append(
                UsedAcl(
                    acl=acl,
                    added_at=added_at,
                    alone=use.alone,
                    with_others=use.with_others,
                    last_used_at=format_time(use.last_ms),
                    names=use.names_count or None,
                )
            )
    return tuple(used), {age: tuple(acls) for age, acls in unused.items()}


def describe_suggestions(
    suggestions: Suggestions, usage: Mapping[Acl, AclUsage], proof: Proof
) -> SuggestionsReport:
    """Return ``suggestions`` as the report shows them."""
    replaced, left_out = suggestions.replaced.items(), suggestions.left_out.items()
    return SuggestionsReport(
        removals=tuple(named(acl) for acl, narrower in replaced if not narrower),
        narrowings=tuple(
            NarrowingReport(
                acl=named(wide),
                names=usage[wide].names_count,
                events=usage[wide].alone.events + usage[wide].with_others.events,
                narrower=tuple(map(named, narrower)),
            )
            for wide, narrower in replaced
            if narrower
        ),
        left_out=tuple(LeftOutReport(acl=named(acl), reason=why) for acl, why in left_out),
        proof=proof if replaced else None,
    )
