"""Find the changed decisions of recorded traffic, from audit logs or from a Spark job's report.

**Invariant:** evidence is only made of accepted traffic that was judged by exactly the ACLs and
settings before and after the plan. Otherwise there is an error, never evidence that shows nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.explanation.words import name_resource
from authorizerd.acl.model import Question
from authorizerd.acl.plan.names import name_acl
from authorizerd.acl.plan.traffic import (
    CAUSES_MAX,
    REQUESTS_MAX,
    TrafficCause,
    TrafficChange,
    TrafficCount,
    TrafficEvidence,
    TrafficFile,
    TrafficLines,
    TrafficRequest,
)
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.metadata.bounded_file import read_file
from authorizerd.replay.acl_set import digest_of
from authorizerd.replay.ingest.report import Ingested
from authorizerd.replay.judging.asking import OPERATION_CODES, RESOURCE_TYPE_CODES
from authorizerd.replay.judging.index import AclIndex
from authorizerd.replay.judging.report import Count, JudgedBy
from authorizerd.replay.local.causes import ChangedAcls, ChangedRequest
from authorizerd.replay.local.comparing import (
    Change,
    Comparison,
    Contradicted,
    compare,
    sum_changes,
)
from authorizerd.replay.local.errors import TrafficError
from authorizerd.replay.local.traffic import Traffic
from authorizerd.replay.text import format_count, format_time, parse_time
from authorizerd.replay.whatif.report import Changed, RecordedBaseline, decode_whatif

HOW_TO_COMPARE: Final = (
    "run authorizerd replay whatif with --plan PLAN and the present ACLs, and pass its whatif.json"
)
_NOTHING_ALLOWED: Final = (
    "the record contains no allowed request (Kafka logs them at DEBUG; the default is INFO), so it "
    "cannot show that nobody loses access"
)
_SAMPLED: Final = (
    "the log is a sample of the allowed requests (authorizerd.audit.sample.allowed), so others are "
    "not checked"
)


def judge_traffic(
    traffic: Traffic, before: AclSnapshot, after: AclSnapshot, settings: AuthorizerSettings
) -> TrafficEvidence:
    """Return what changes for the traffic of audit logs. Blocks.

    Raises:
        TrafficError: too many lines were set aside, an archive is damaged, or nothing was recorded.
    """
    ingested = traffic.ingested
    for path in traffic.damaged:
        raise TrafficError(
            f"{path}: the archive is damaged, so recorded requests are missing: fetch it again"
        )
    _check_ingested(ingested)
    comparison = compare(traffic.tuples, AclIndex(before, settings), AclIndex(after, settings))
    changed_acls = _changed_acls(before, after)
    evidence = TrafficEvidence(
        engine="local",
        inputs=ingested.inputs,
        files=tuple(
            TrafficFile(path=file.path, bytes=file.bytes, sha256=file.sha256)
            for file in traffic.files
        ),
        lines=TrafficLines(
            all=ingested.lines,
            blank=ingested.blank_lines,
            set_aside=ingested.set_aside,
            reasons=ingested.reasons,
        ),
        events=ingested.events,
        allowed_events=ingested.allowed_events,
        tuples=ingested.tuples,
        first_at=ingested.first_at,
        last_at=ingested.last_at,
        not_evaluated=_counts(comparison.not_evaluated),
        not_reproduced=_count(comparison.not_reproduced),
        newly_denied=_change(
            [each for each in comparison.changes if not each.after.allowed], changed_acls
        ),
        newly_allowed=_change(
            [each for each in comparison.changes if each.after.allowed], changed_acls
        ),
        warnings=(*_describe_drift(comparison), *(_SAMPLED,) * traffic.is_sampled),
    )
    return _with_warnings(evidence)


def read_report(
    path: Path, before: AclSnapshot, after: AclSnapshot, settings: AuthorizerSettings
) -> TrafficEvidence:
    """Return what changes for traffic that a Spark job judged: the file is its ``whatif.json``.

    Raises:
        TrafficError: the file is no such report, or it is about other ACLs or settings.
    """
    try:
        report = decode_whatif(read_file(path).decode())
    except OSError as error:
        raise TrafficError(f"{path}: {error.strerror or error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TrafficError(f"{path}: expected the whatif.json of replay whatif: {error}") from error
    if isinstance(report.baseline, RecordedBaseline):
        raise TrafficError(
            f"{path}: it compares with the recorded decisions, not with the present ACLs: "
            f"{HOW_TO_COMPARE}"
        )
    for name, judged_by, what, snapshot in (
        ("baseline", report.baseline, "the present ACLs", before),
        ("candidate", report.candidate, "the ACLs after this plan", after),
    ):
        other = _find_difference(judged_by, AclIndex(snapshot, settings))
        if other is not None:
            raise TrafficError(
                f"{path}: its {name} has other {other} than {what}: {HOW_TO_COMPARE}"
            )
    _check_recorded(report.events)
    changed_acls = _changed_acls(before, after)
    details, left_out = report.newly_denied.details, report.newly_denied.details_left_out
    evidence = TrafficEvidence(
        engine="spark",
        inputs=(str(path),),
        events=report.events,
        allowed_events=report.allowed_events,
        tuples=report.tuples,
        first_at=report.first_at,
        last_at=report.last_at,
        not_evaluated=_counts(report.not_evaluated),
        newly_denied=_reported(report.newly_denied, changed_acls, is_allowed=False),
        newly_allowed=_reported(report.newly_allowed, changed_acls, is_allowed=True),
        warnings=(
            f"the ACLs that newly deny requests are those of the {len(details):,} most frequent "
            f"requests only: the report leaves out {left_out:,} others",
        )
        * bool(left_out),
    )
    return _with_warnings(evidence)


def _check_ingested(ingested: Ingested) -> None:
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in ingested.reasons.items())
    if ingested.lines > ingested.blank_lines == ingested.lines - ingested.set_aside:
        names = ", ".join(ingested.inputs)
        raise TrafficError(
            f"{names}: no line is of an audit log ({reasons}): name a log of Kafka's "
            "kafka.authorizer.logger, or of authorizerd's audit"
        )
    if not ingested.accepted:
        raise TrafficError(
            f"{ingested.set_aside:,} of {format_count(ingested.lines, 'line')} cannot be read "
            f"({reasons}): filter the log, or raise --traffic-max-bad-ratio"
        )
    _check_recorded(ingested.events)


def _check_recorded(events: int) -> None:
    if not events:
        raise TrafficError("there is no recorded request, so nothing can be judged")


def _find_difference(found: JudgedBy, index: AclIndex) -> str | None:
    """Return what differs between ``found`` and ``index``; None if they decide alike."""
    settings = index.settings
    expected = msgspec.structs.replace(
        found,
        digest=digest_of(index.snapshot.acls.values()),
        super_users=tuple(settings.super_users),
        allow_everyone_if_no_acl_found=settings.allow_everyone_if_no_acl_found,
    )
    if found.decides_as(expected):
        return None
    return "ACLs" if found.digest != expected.digest else "settings"


def _changed_acls(before: AclSnapshot, after: AclSnapshot) -> ChangedAcls:
    present, planned = (set(snapshot.acls.values()) for snapshot in (before, after))
    return ChangedAcls(present - planned, planned - present)


def _change(changes: Sequence[Change], changed_acls: ChangedAcls) -> TrafficChange:
    requests = (
        ChangedRequest(
            each.recorded.question, each.after.allowed, each.figures.events, each.figures.last_ms
        )
        for each in changes
    )
    return _listed(sum_changes(changes), requests, changed_acls)


def _reported(changed: Changed, changed_acls: ChangedAcls, *, is_allowed: bool) -> TrafficChange:
    """Return the changes in a report. Their causes are those of the requests that it lists."""
    requests = (
        ChangedRequest(
            Question(
                each.principal,
                each.host,
                OPERATION_CODES[each.operation],
                RESOURCE_TYPE_CODES[each.resource_type],
                each.resource_name,
            ),
            is_allowed,
            each.events,
            parse_time(each.last_at or format_time(0)),
        )
        for each in changed.details
    )
    return _listed(changed, requests, changed_acls)


def _listed(
    changed: Changed, requests: Iterable[ChangedRequest], changed_acls: ChangedAcls
) -> TrafficChange:
    causes = changed_acls.find_causes(requests)
    details = changed.details[:REQUESTS_MAX]
    return TrafficChange(
        events=changed.events,
        tuples=changed.tuples,
        causes=tuple(
            TrafficCause(
                change="delete" if each.is_removed else "create",
                acl=name_acl(each.acl),
                events=each.events,
                tuples=each.tuples,
                last_at=format_time(each.last_ms),
            )
            for each in causes[:CAUSES_MAX]
        ),
        causes_left_out=max(len(causes) - CAUSES_MAX, 0),
        requests=tuple(
            TrafficRequest(
                principal=each.principal,
                host=each.host,
                operation=each.operation,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                events=each.events,
                last_at=each.last_at,
                rule_before=each.baseline_rule,
                rule_after=each.candidate_rule,
            )
            for each in details
        ),
        requests_left_out=changed.tuples - len(details),
    )


def _counts(counts: Mapping[str, Count]) -> dict[str, TrafficCount]:
    return {reason: _count(count) for reason, count in counts.items()}


def _count(count: Count) -> TrafficCount:
    return TrafficCount(events=count.events, tuples=count.tuples)


def _describe_drift(comparison: Comparison) -> Iterator[str]:
    """Yield a warning if the record contradicts the ACLs and settings before the plan."""
    if not comparison.contradicted:
        return
    examples = ", ".join(map(_describe_contradicted, comparison.contradicted))
    yield (
        f"the present ACLs decide {format_count(comparison.not_reproduced.events, 'event')} "
        f"otherwise than recorded, most often {examples}: the log was recorded under other ACLs, "
        "or under other settings than those of --super-users and --allow-everyone-if-no-acl-found"
    )


def _describe_contradicted(contradicted: Contradicted) -> str:
    one = contradicted.recorded
    resource = name_resource(RESOURCE_TYPE_CODES[one.resource_type], one.resource_name)
    return (
        f"{one.principal} {one.operation} {resource} from {one.host or 'an unknown host'} (now "
        f"{'allowed' if contradicted.was_allowed else 'denied'}, "
        f"{format_count(contradicted.events, 'event')})"
    )


def _with_warnings(evidence: TrafficEvidence) -> TrafficEvidence:
    warnings = (*_warnings(evidence), *evidence.warnings)
    return msgspec.structs.replace(evidence, warnings=warnings)


def _warnings(evidence: TrafficEvidence) -> Iterator[str]:
    if not evidence.allowed_events:
        yield _NOTHING_ALLOWED
    unjudged = evidence.events - evidence.judged_events
    if unjudged:
        reasons = ", ".join(
            f"{reason} {count.events:,}" for reason, count in evidence.not_evaluated.items()
        )
        yield f"{format_count(unjudged, 'event')} cannot be judged: {reasons}"
