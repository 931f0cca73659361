"""Findings are never better than the results."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from authorizerd.acl.known_settings import ALLOW_EVERYONE
from authorizerd.replay.judging.report import Count
from authorizerd.replay.load.thresholds import Verdict
from authorizerd.replay.report.findings import Finding, assess
from authorizerd.replay.report.results import Results
from authorizerd.replay.whatif.report import NOTHING_CHANGED
from tests.ops.replay.report.examples import dry_run, ingested, judged_by, load, usage, whatif

SAFE = whatif(newly_denied=NOTHING_CHANGED, newly_allowed=NOTHING_CHANGED)
USAGE = usage()
ONE, FOUR = Count(events=1, tuples=1), Count(events=4, tuples=1)
changed: Any = msgspec.structs.replace
OF_UNKNOWN_DEFAULT = changed(SAFE.candidate, allow_everyone_if_no_acl_found=None)


def find(**results: Any) -> tuple[Finding, ...]:  # noqa: ANN401 - one result of each kind
    return tuple(assess(Results(files={}, texts={}, **results)))


def states(**results: Any) -> list[str]:  # noqa: ANN401 - one result of each kind
    return [finding.state for finding in find(**results)]


def suggest(**proof: Count) -> Any:  # noqa: ANN401 - a usage report
    proof_of_other_acls = changed(USAGE.suggestions.proof, **proof)
    return changed(USAGE, suggestions=changed(USAGE.suggestions, proof=proof_of_other_acls))


def test_newly_denied_requests_come_first() -> None:
    denied, allowed, *_ = find(whatif=whatif(), ingest=ingested())
    assert (denied.state, allowed.state) == ("bad", "doubtful")
    assert denied.text == "12 recorded requests (1 distinct) of 1 principal would be newly denied"


@pytest.mark.parametrize(
    ("fields", "state", "notes"),
    [
        ({}, "good", []),
        ({"not_evaluated": {"x": FOUR}}, "doubtful", ["4 events of 100 could not be evaluated."]),
        ({"allowed_events": 0}, "doubtful", ["Only denials were recorded"]),
        ({"allowed_events": 0, "events": 0}, "doubtful", ["No event was recorded"]),
        # Two sets of ACLs decide each request themselves, whatever was recorded.
        ({"allowed_events": 0, "baseline": judged_by(digest="sha256:before")}, "good", []),
        ({"baseline": SAFE.candidate}, "good", ["Both sides are the same ACLs"]),
        # Super users that are judged by the ACLs are at worst reported as newly denied.
        ({"candidate": changed(SAFE.candidate, super_users=None)}, "good", ["super.users is unkn"]),
        ({"candidate": OF_UNKNOWN_DEFAULT}, "good", [f"{ALLOW_EVERYONE} is unknown"]),
        (
            {"candidate": OF_UNKNOWN_DEFAULT, "baseline": judged_by(digest="sha256:before")},
            "doubtful",
            [f"If {ALLOW_EVERYONE} is true", f"{ALLOW_EVERYONE} is unknown"],
        ),
    ],
)
def test_nothing_newly_denied_is_good_only_if_all_requests_were_evaluated(
    fields: dict[str, object], state: str, notes: list[str]
) -> None:
    (finding,) = find(whatif=changed(SAFE, **fields))
    assert finding.state == state
    assert len(finding.notes) == len(notes)
    assert all(map(str.startswith, finding.notes, notes))


def test_load_is_good_if_valid_and_doubtful_where_answers_differ_or_are_missing() -> None:
    assert states(load=load()) == ["good", "good", "doubtful", "doubtful"]
    assert states(load=changed(load(), mismatches=0, errors={})) == ["good", "good"]
    assert states(load=dry_run()) == ["plain"]


def test_invalid_load_gives_its_first_reasons() -> None:
    reasons = [f"lane {lane} ended" for lane in range(30)]
    invalid, *_ = find(load=changed(load(), valid=False, invalid_reasons=reasons))
    assert invalid.state == "bad"
    assert invalid.notes == (*reasons[:10], "and 20 more")


def test_failed_threshold_shows_the_measured_value_in_its_unit() -> None:
    verdicts = [
        Verdict("p99<5ms", 6.125, False),
        Verdict("rate>=100", 99.5, False),
        Verdict("mismatch=0", 7.0, False),
        Verdict("max<1s", None, False),
    ]
    texts = [finding.text for finding in find(load=changed(load(), thresholds=verdicts))]
    assert texts[1:5] == [
        "Threshold p99<5ms failed: measured 6.125 ms",
        "Threshold rate>=100 failed: measured 99.5/s",
        "Threshold mismatch=0 failed: measured 7",
        "Threshold max<1s failed: measured nothing",
    ]


def test_unused_grants_come_with_the_period_and_the_acls_too_young_to_judge() -> None:
    (finding,) = find(usage=USAGE)
    assert (finding.state, finding.text) == ("plain", "1 grant of 3 ACLs never used")
    assert "2026-11-16 06:00:00 to 2026-11-16 07:00:00" in finding.notes[0]
    assert finding.notes[1] == "1 ACL may be too young to be judged."


def test_acls_that_decide_differently_are_found() -> None:
    assert states(usage=suggest(newly_denied=ONE))[-1] == "bad"
    assert states(usage=suggest(newly_allowed=ONE))[-1] == "bad"
    assert states(usage=changed(USAGE, disagreeing=FOUR))[-1] == "doubtful"


def test_ingest_is_good_if_accepted_with_allowed_events() -> None:
    assert states(ingest=ingested()) == ["good"]
    assert states(ingest=changed(ingested(), accepted=False)) == ["bad"]
    assert states(ingest=changed(ingested(), damaged=("a.gz",))) == ["doubtful"]
    assert states(ingest=changed(ingested(), allowed_events=0, denied_events=100)) == ["doubtful"]


@pytest.mark.parametrize(
    ("other", "is_other"),
    [
        ({"whatif": SAFE, "usage": USAGE}, False),
        ({"whatif": changed(SAFE, events=99)}, True),
        ({"whatif": changed(SAFE, last_at=None)}, True),
        ({"usage": changed(USAGE, window=changed(USAGE.window, ends_at=None))}, True),
    ],
)
def test_results_of_other_events_are_found(other: dict[str, object], is_other: bool) -> None:
    """An old result may have been left in the directory."""
    texts = [finding.text for finding in find(ingest=ingested(), **other)]
    assert any("different events" in text for text in texts) == is_other
