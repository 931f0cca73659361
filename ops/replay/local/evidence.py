"""Find the changed decisions of recorded traffic, from audit logs or from a Spark job's report.

**Invariant:** evidence comes only from accepted traffic that was judged by exactly the ACLs and
settings before and after the plan. Anything else is an error, never evidence that shows nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import nsmallest
from pathlib import Path
from typing import Any, Final

import msgspec

from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.explanation.words import name_resource
from authorizerd.acl.known_settings import ALLOW_EVERYONE, KnownSettings
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.management.plan.traffic import (
    CAUSES_MAX,
    REQUESTS_MAX,
    TrafficCause,
    TrafficChange,
    TrafficCount,
    TrafficEvidence,
    TrafficLines,
    TrafficRequest,
)
from authorizerd.metadata.bounded_file import read_file
from authorizerd.replay.acl_set import digest_of
from authorizerd.replay.errors import TrafficError
from authorizerd.replay.ingest.logs import describe_stopped
from authorizerd.replay.ingest.report import NO_LINE_FIELD, Ingested, lacks_field
from authorizerd.replay.judging.asking import RESOURCE_TYPE_CODES
from authorizerd.replay.judging.index import AclIndex
from authorizerd.replay.judging.report import Count, JudgedBy, name_releases
from authorizerd.replay.local.causes import ChangedAcls
from authorizerd.replay.local.traffic import Traffic
from authorizerd.replay.recorded.agreement import describe_contradiction, find_judged
from authorizerd.replay.recorded.rows import LocalRows, by_frequency
from authorizerd.replay.text import format_count
from authorizerd.replay.whatif.evaluation import (
    Change,
    count_excluded,
    find_changes,
    make_detail,
    sum_changes,
)
from authorizerd.replay.whatif.report import (
    NEWLY_ALLOWED,
    NEWLY_DENIED,
    Changed,
    Detail,
    WhatIf,
    decode_whatif,
    find_lack,
)

CONTRADICTED_MAX: Final = 3
HOW_TO_COMPARE: Final = (
    "run authorizerd replay whatif with --plan PLAN and the present ACLs, and pass its whatif.json"
)
_FLAGS: Final = "--traffic-"
_SAMPLED: Final = (
    "the log is a sample of the allowed requests (authorizerd.audit.sample.allowed), so others are "
    "not checked"
)


def judge_traffic(
    traffic: Traffic,
    before: AclSnapshot,
    after: AclSnapshot,
    settings: AuthorizerSettings,
    allowed_min: int = 1,
    newest_after_ms: int | None = None,
) -> TrafficEvidence:
    """Return what changes for the traffic of audit logs. Blocks.

    ``allowed_min`` and ``newest_after_ms`` say what it has to contain, as in ``find_lack``.

    Raises:
        TrafficError: too many lines were set aside, an archive is damaged, or nothing was recorded.
    """
    ingested = traffic.ingested
    for path in ingested.damaged:
        raise TrafficError(
            f"{path}: the archive is damaged, so recorded requests are missing: fetch it again"
        )
    _check_ingested(ingested)
    present, planned = _index(before, settings), _index(after, settings)
    changes: list[Change] = []
    contradicted: list[Change] = []
    judged = differing = 0
    for one in traffic.tuples:  # one by one: an index caches only its last answers
        changes += find_changes((one,), planned, present)
        contradicted += find_changes((one,), present, None)
        for each in find_judged((one,), present):
            judged += each.events
            differing += 0 if each.agrees else each.events
    details = {
        kind: [make_detail(change) for change in changes if change.change == kind]
        for kind in (NEWLY_DENIED, NEWLY_ALLOWED)
    }
    denied, allowed = sum_changes(LocalRows(changes))
    excluded, not_evaluated = count_excluded(LocalRows(traffic.tuples), settings)
    return _make_evidence(
        ingested,
        ChangedAcls(present.acls, planned.acls, planned.releases),
        (denied, details[NEWLY_DENIED]),
        (allowed, details[NEWLY_ALLOWED]),
        not_evaluated,
        warnings=(
            *_describe_drift(contradicted),
            *(_SAMPLED,) * ingested.is_sampled,
            *traffic.left_out,
        ),
        engine="local",
        inputs=ingested.inputs,
        files=traffic.files,
        lines=TrafficLines(
            all=ingested.lines,
            blank=ingested.blank_lines,
            set_aside=ingested.set_aside,
            explanations=ingested.explanations,
            reasons=ingested.reasons,
        ),
        contradiction=describe_contradiction(differing, judged)
        or find_lack(
            ingested, ingested.allowed_events - excluded, None, allowed_min, newest_after_ms, _FLAGS
        ),
        not_reproduced=TrafficCount(
            events=sum(one.events for one in contradicted), tuples=len(contradicted)
        ),
    )


def read_report(
    path: Path,
    before: AclSnapshot,
    after: AclSnapshot,
    known: KnownSettings,
    allowed_min: int = 1,
    newest_after_ms: int | None = None,
) -> TrafficEvidence:
    """Return what changes for the traffic that a Spark job judged in its ``whatif.json``.

    Raises:
        TrafficError: the file is not such a report, or is about other ACLs or settings; or the
            value of allow.everyone.if.no.acl.found is unknown, which a report does not show.
    """
    if known.allow_everyone_if_no_acl_found is None:
        raise TrafficError(
            f"{path}: {ALLOW_EVERYONE} is unknown: pass --allow-everyone-if-no-acl-found, and "
            f"{HOW_TO_COMPARE}"
        )
    try:
        report = decode_whatif(read_file(path).decode())
    except OSError as error:
        raise TrafficError(f"{path}: {error.strerror or error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TrafficError(f"{path}: expected the whatif.json of replay whatif: {error}") from error
    if report.baseline is None:
        raise TrafficError(
            f"{path}: it compares with the recorded decisions, not with the present ACLs: "
            f"{HOW_TO_COMPARE}"
        )
    if report.not_as_recorded is None:
        raise TrafficError(
            f"{path}: it does not say whether the present ACLs decide as recorded: {HOW_TO_COMPARE}"
        )
    present, planned = _index(before, known.least), _index(after, known.least)
    for name, judged_by, what, index in (
        ("baseline", report.baseline, "the present ACLs", present),
        ("candidate", report.candidate, "the ACLs after this plan", planned),
    ):
        other = _find_difference(judged_by, index, known)
        if other is not None:
            raise TrafficError(
                f"{path}: its {name} has other {other} than {what}: {HOW_TO_COMPARE}"
            )
    _check_recorded(report.events)
    denied, allowed = report.newly_denied, report.newly_allowed
    return _make_evidence(
        report,
        ChangedAcls(present.acls, planned.acls, planned.releases),
        (denied, denied.details),
        (allowed, allowed.details),
        report.not_evaluated,
        warnings=tuple(_describe_limits(report)),
        engine="spark",
        contradiction=report.contradiction
        or report.find_lack(allowed_min, newest_after_ms, _FLAGS),
        not_reproduced=TrafficCount(
            events=report.not_as_recorded.events, tuples=report.not_as_recorded.tuples
        ),
        inputs=(str(path),),
    )


def _index(snapshot: AclSnapshot, settings: AuthorizerSettings) -> AclIndex:
    return AclIndex(snapshot.acls.values(), settings, snapshot)


def _check_ingested(ingested: Ingested) -> None:
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in ingested.reasons.items())
    if lacks_field(ingested):
        no_field = NO_LINE_FIELD.format(flag="--traffic-line-field")
        raise TrafficError(f"{', '.join(ingested.inputs)}: {no_field} ({reasons})")
    if ingested.lines > ingested.blank_lines == ingested.lines - ingested.set_aside:
        names = ", ".join(ingested.inputs)
        raise TrafficError(
            f"{names}: no line belongs to an audit log ({reasons}): name a log of Kafka's "
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


def _describe_limits(report: WhatIf) -> Iterator[str]:
    if report.window_begins_at is not None:
        yield f"only requests since {report.window_begins_at} were judged"
    denied = report.newly_denied
    if denied.details_left_out:
        yield (
            f"the ACLs that newly deny requests are known for the {len(denied.details):,} most "
            f"frequent requests only: the report leaves out {denied.details_left_out:,} others"
        )


def _find_difference(found: JudgedBy, index: AclIndex, known: KnownSettings) -> str | None:
    """Return the difference between ``found`` and ``index``; None if they decide alike."""
    if found.digest != digest_of(index.acls):
        return "ACLs"
    if found.kafka_releases != name_releases(index.acls, index.releases):
        return "Kafka releases"
    return None if found.known == known else "settings"


def _make_evidence(
    figures: Ingested | WhatIf,
    acls: ChangedAcls,
    denied: tuple[Changed, Sequence[Detail]],
    allowed: tuple[Changed, Sequence[Detail]],
    not_evaluated: dict[str, Count],
    *,
    warnings: tuple[str, ...],
    **more: Any,  # noqa: ANN401 - the other fields of the evidence
) -> TrafficEvidence:
    """Return the evidence, from sums and from the changes whose causes are named."""
    evidence = TrafficEvidence(
        events=figures.events,
        allowed_events=figures.allowed_events,
        tuples=figures.tuples,
        first_at=figures.first_at,
        last_at=figures.last_at,
        not_evaluated=msgspec.convert(not_evaluated, dict[str, TrafficCount], from_attributes=True),
        newly_denied=_list(denied[0], acls.find_causes(denied[1], are_allowed=False)),
        newly_allowed=_list(allowed[0], acls.find_causes(allowed[1], are_allowed=True)),
        **more,
    )
    about = (*_warnings(evidence), *describe_stopped(figures.logs), *warnings)
    return msgspec.structs.replace(evidence, warnings=about)


def _list(changed: Changed, causes: Sequence[TrafficCause]) -> TrafficChange:
    details = changed.details[:REQUESTS_MAX]
    return TrafficChange(
        events=changed.events,
        tuples=changed.tuples,
        causes=tuple(causes[:CAUSES_MAX]),
        causes_left_out=max(len(causes) - CAUSES_MAX, 0),
        requests=tuple(map(_make_request, details)),
        requests_left_out=changed.tuples - len(details),
    )


def _make_request(detail: Detail) -> TrafficRequest:
    fields = msgspec.structs.asdict(detail)
    del fields["first_at"]
    before, after = fields.pop("baseline_rule"), fields.pop("candidate_rule")
    return TrafficRequest(**fields, rule_before=before, rule_after=after)


def _describe_drift(contradicted: Sequence[Change]) -> Iterator[str]:
    """Yield a warning if the record contradicts the ACLs and settings before the plan."""
    if not contradicted:
        return
    most = nsmallest(CONTRADICTED_MAX, contradicted, key=by_frequency)
    yield (
        f"the present ACLs decide {format_count(sum(one.events for one in contradicted), 'event')} "
        f"differently from the record, most often "
        f"{', '.join(map(_describe_contradicted, most))}: the "
        "log was recorded under other ACLs, or under other settings than those of --super-users "
        "and --allow-everyone-if-no-acl-found"
    )


def _describe_contradicted(one: Change) -> str:
    resource = name_resource(RESOURCE_TYPE_CODES[one.resource_type], one.resource_name)
    return (
        f"{one.principal} {one.operation} {resource} from {one.host or 'an unknown host'} (now "
        f"{'allowed' if one.change == NEWLY_ALLOWED else 'denied'}, "
        f"{format_count(one.events, 'event')})"
    )


def _warnings(evidence: TrafficEvidence) -> Iterator[str]:
    unjudged = evidence.events - evidence.judged_events
    if unjudged:
        reasons = ", ".join(
            f"{reason} {count.events:,}" for reason, count in evidence.not_evaluated.items()
        )
        yield f"{format_count(unjudged, 'event')} cannot be judged: {reasons}"
