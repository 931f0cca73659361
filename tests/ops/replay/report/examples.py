"""Small results of each kind, with a given name wherever a name may appear."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from authorizerd.replay.ingest.report import Ingested
from authorizerd.replay.judging.report import Count, JudgedBy
from authorizerd.replay.load import report
from authorizerd.replay.load.lanes.tally import Histogram, Mismatch, Outage
from authorizerd.replay.load.report import percentiles
from authorizerd.replay.load.thresholds import Verdict
from authorizerd.replay.plans import LoadPlan
from authorizerd.replay.text import encode_json
from authorizerd.replay.usage import report as usage_report
from authorizerd.replay.usage.report import NamedAcl, UsageReport
from authorizerd.replay.whatif.report import (
    Changed,
    Detail,
    OperationCount,
    PrincipalCount,
    ResourceCount,
    WhatIf,
)

FIRST_AT, LAST_AT = "2026-11-16T06:00:00.000Z", "2026-11-16T07:00:00.000Z"


def ingested(name: str = "audit.log") -> Ingested:
    return Ingested(
        accepted=True, lines=105, blank_lines=1, events=100, set_aside=4,
        reasons={f"reason {name}": 4}, allowed_events=90, denied_events=10, tuples=7,
        first_at=FIRST_AT, last_at=LAST_AT, time_zone=f"zone {name}", inputs=(name,),
        levels={f"level {name}": 100},
    )  # fmt: skip


def judged_by(name: str = "acls.txt", *, digest: str = "sha256:after") -> JudgedBy:
    return JudgedBy(
        source=name, digest=digest, offset=17, stamped_at=LAST_AT, acls=3, super_users=(name,),
        allow_everyone_if_no_acl_found=False,
    )  # fmt: skip


def changed(name: str = "User:alice", *, left_out: int = 0) -> Changed:
    events = 12
    detail = Detail(
        principal=name, host=name, operation=name, resource_type=name, resource_name=name,
        events=events, first_at=name, last_at=LAST_AT, baseline_rule=name, candidate_rule=name,
    )  # fmt: skip
    resource = ResourceCount(resource_type=name, resource_name=name, events=events, tuples=1)
    return Changed(
        events=events, tuples=1 + left_out,
        by_principal=[PrincipalCount(principal=name, events=events, tuples=1)],
        by_resource=[resource],
        by_operation=[OperationCount(operation=name, events=events, tuples=1)], details=[detail],
        details_left_out=left_out,
    )  # fmt: skip


def whatif(
    name: str = "User:alice", *, newly_denied: Changed | None = None,
    newly_allowed: Changed | None = None, baseline: JudgedBy | None = None,
) -> WhatIf:  # fmt: skip
    return WhatIf(
        events=100, allowed_events=90, tuples=7, first_at=FIRST_AT, last_at=LAST_AT,
        not_evaluated={},
        candidate=judged_by(name),
        baseline=baseline,
        newly_denied=newly_denied or changed(name),
        newly_allowed=newly_allowed or changed(name),
    )  # fmt: skip


def usage(name: str = "User:alice") -> UsageReport:
    acl = NamedAcl(
        principal=name, host=name, operation=name, permission_type="ALLOW", resource_type=name,
        resource_name=name, pattern_type="LITERAL",
    )  # fmt: skip
    none, some = Count(), Count(events=5, tuples=1)
    unused = usage_report.UnusedAcl(acl=acl, added_at=FIRST_AT)
    return UsageReport(
        acls=JudgedBy(
            source=name, digest="sha256:before", offset=None, stamped_at=None, acls=3,
            super_users=(name,), allow_everyone_if_no_acl_found=True,
        ),
        window=usage_report.WindowReport(
            begins_at=FIRST_AT, ends_at=LAST_AT, allowed_first_at=FIRST_AT,
            allowed_last_at=LAST_AT, lookback_days=30.0, allowed_events=90, denied_events=10,
            tuples=7,
        ),
        assumed_in_force=False,
        not_evaluated={f"reason {name}": some}, by_super_users=none, disagreeing=none,
        used=(
            usage_report.UsedAcl(
                acl=acl, added_at=None, alone=some, with_others=none, last_used_at=LAST_AT, names=2
            ),
        ),
        unused=(unused,), not_judged={"added_within": (unused,), "age_unknown": ()},
        suggestions=usage_report.SuggestionsReport(
            removals=(acl,),
            narrowings=(usage_report.NarrowingReport(acl=acl, names=1, events=5, narrower=(acl,)),),
            left_out=(usage_report.LeftOutReport(acl=acl, reason=name),),
            proof=usage_report.Proof(
                digest="sha256:proof", acls=2, tuples=7, newly_denied=none, newly_allowed=none
            ),
        ),
    )  # fmt: skip


def load(name: str = "daemon:8183") -> report.LoadReport:
    histogram = Histogram()
    for latency_us in range(1, 100):
        histogram.record(latency_us * 1000)
    measured = percentiles(histogram)
    plan = LoadPlan(events=name, out=name, target=name, run_id=name, profile=name, reconnect_s=30.0)
    return report.LoadReport(
        run_id=name, target=name, surface=name, mode=name, dry_run=False,
        settings=plan.settings,
        plan=report.PlanReport(
            hash="sha256:plan", events=100, not_asked={f"reason {name}": 1}, rounds=1,
            questions=99, frames=9, lanes=[50, 49], planned_s=3.0,
        ),
        valid=True, started_at=FIRST_AT, start_skew_ms=[0.1, 0.3], sent=99, answered=98,
        errors={f"error {name}": 1}, mismatches=1,
        first_mismatches=[Mismatch([name, None, 3, 2, name], True, False, 17, 1500.0)],
        offered_per_s=33.0, served_per_s=32.7, first_offset=17, last_offset=18,
        latency=report.Latencies(corrected=measured, service=measured, send_lag=measured),
        timeline=[report.SecondReport(second, 33, 33, 0.05, 0.09, 0.1) for second in range(3)],
        thresholds=[Verdict("p99<5ms", 0.098, True)],
        death=report.Death(at=name, after_s=2.5, lane=1, reason=name),
        reconnects=1, lost=8, longest_outage_s=0.5,
        outages=[Outage(lane=1, begin_s=1.5, seconds=0.5, lost=8, reason=name)],
    )  # fmt: skip


def dry_run() -> report.LoadReport:
    planned = msgspec.structs.replace(load(), dry_run=True, valid=None, latency=None, death=None)
    return msgspec.structs.replace(planned, timeline=[], thresholds=[], mismatches=0, errors={})


KINDS = ("ingest", "whatif", "usage", "load")


def write_results(directory: Path, name: str = "User:alice", kinds: Iterable[str] = KINDS) -> None:
    """Write results of these kinds into a new directory."""
    directory.mkdir(parents=True, exist_ok=True)
    texts = {
        "ingest": encode_json(ingested(name)),
        "whatif": encode_json(whatif(name)),
        "usage": encode_json(usage(name)),
        "load": msgspec.json.encode(load(name)).decode(),
    }
    for kind in kinds:
        (directory / f"{kind}.json").write_text(texts[kind], encoding="utf-8")
