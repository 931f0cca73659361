"""What the results come to; never better than they are."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from authorizerd.replay.ingest.report import Ingested
from authorizerd.replay.load.report import LoadReport
from authorizerd.replay.load.thresholds import Verdict
from authorizerd.replay.report.findings import Finding, findings
from authorizerd.replay.report.results import Results
from authorizerd.replay.usage.report import Count, UsageReport
from authorizerd.replay.whatif.report import NOTHING_CHANGED, WhatIf
from tests.ops.replay.report.examples import (
    NOT_EVALUATED,
    dry_run,
    ingested,
    judged_by,
    load,
    usage,
    whatif,
)

SAFE = whatif(newly_denied=NOTHING_CHANGED, newly_allowed=NOTHING_CHANGED)


def found(
    *,
    ingest: Ingested | None = None,
    whatif: WhatIf | None = None,
    usage: UsageReport | None = None,
    load: LoadReport | None = None,
) -> tuple[Finding, ...]:
    return findings(
        Results(files={}, texts={}, ingest=ingest, whatif=whatif, usage=usage, load=load)
    )


def changed(of: Any, **fields: object) -> Any:  # noqa: ANN401 - a struct like the one given
    return msgspec.structs.replace(of, **fields)


def test_who_would_be_locked_out_comes_first() -> None:
    """With how much, of whom; what is newly allowed is to be looked at too."""
    denied, allowed, *_ = found(whatif=whatif(), ingest=ingested())
    assert (denied.state, allowed.state) == ("bad", "doubtful")
    assert denied.text == ("12 recorded requests (1 distinct) of 1 principal would be newly denied")


def test_nobody_locked_out_is_good_only_where_all_was_asked() -> None:
    """What could not be evaluated might have been denied."""
    (good,) = found(whatif=SAFE)
    assert good.state == "good"
    (unsure,) = found(whatif=changed(SAFE, not_evaluated=NOT_EVALUATED))
    assert unsure.state == "doubtful"
    assert unsure.notes == ("4 events of 100 could not be evaluated.",)


@pytest.mark.parametrize(("events", "allowed_events"), [(100, 0), (0, 0)])
def test_a_log_of_denials_proves_nothing(events: int, allowed_events: int) -> None:
    """What was denied already cannot be newly denied; nor can what was not recorded."""
    (finding,) = found(whatif=changed(SAFE, events=events, allowed_events=allowed_events))
    assert finding.state == "doubtful"
    assert finding.notes


def test_denials_are_enough_where_two_sets_of_acls_are_compared() -> None:
    """Then both answer for each request, whatever was recorded."""
    (finding,) = found(
        whatif=changed(SAFE, allowed_events=0, baseline=judged_by(digest="sha256:before"))
    )
    assert (finding.state, finding.notes) == ("good", ())


def test_equal_acls_are_said_to_be_equal() -> None:
    """Or nobody would know why nothing changes."""
    (finding,) = found(whatif=changed(SAFE, baseline=SAFE.candidate))
    assert finding.notes == ("Both sides are the same ACLs under the same settings.",)


def test_a_valid_run_that_holds_its_thresholds_is_good() -> None:
    """What was answered otherwise, or not at all, is to be looked at."""
    states = [finding.state for finding in found(load=load())]
    assert states == ["good", "good", "doubtful", "doubtful"]
    clean = changed(load(), mismatches=0, errors={})
    assert [finding.state for finding in found(load=clean)] == ["good", "good"]


def test_an_invalid_run_says_why() -> None:
    """At most so many reasons of it."""
    reasons = [f"lane {lane} ended" for lane in range(30)]
    invalid, *_ = found(load=changed(load(), valid=False, invalid_reasons=reasons))
    assert invalid.state == "bad"
    assert invalid.notes == (*reasons[:10], "and 20 more")


def test_every_failed_threshold_is_named_with_what_was_measured() -> None:
    """In the unit that it was given in."""
    verdicts = [
        Verdict("p99<5ms", 6.125, False),
        Verdict("rate>=100", 99.5, False),
        Verdict("mismatch=0", 7.0, False),
        Verdict("max<1s", None, False),
    ]
    texts = [finding.text for finding in found(load=changed(load(), thresholds=verdicts))]
    assert texts[1:5] == [
        "Threshold p99<5ms failed: 6.12 ms",
        "Threshold rate>=100 failed: 99.5 per s",
        "Threshold mismatch=0 failed: 7",
        "Threshold max<1s failed: nothing measured",
    ]


def test_a_dry_run_says_nothing_of_the_target() -> None:
    """Nothing was asked."""
    (finding,) = found(load=dry_run())
    assert finding.state == "plain"


def test_unused_grants_come_with_what_was_looked_at() -> None:
    """And with those that may be too young."""
    finding, *more = found(usage=usage())
    assert (finding.state, more) == ("plain", [])
    assert finding.text == "1 grant of 3 ACLs never used"
    assert "2026-11-16 06:00:00 to 2026-11-16 07:00:00" in finding.notes[0]
    assert finding.notes[1] == "1 ACL may be too young to be judged."


def test_a_suggestion_that_changes_decisions_is_bad() -> None:
    """So is one that allows more."""
    told = usage()
    for field in ("newly_denied", "newly_allowed"):
        proof = changed(told.suggestions.proof, **{field: Count(events=1, tuples=1)})
        wrong = changed(told, suggestions=changed(told.suggestions, proof=proof))
        assert found(usage=wrong)[-1].state == "bad"


def test_other_acls_than_those_of_the_time_are_noticed() -> None:
    """They decide otherwise than was recorded."""
    told = changed(usage(), disagreeing=Count(events=3, tuples=1))
    assert found(usage=told)[-1].state == "doubtful"


def test_what_was_not_accepted_is_bad() -> None:
    """And a log of denials only is doubtful."""
    assert found(ingest=changed(ingested(), accepted=False))[0].state == "bad"
    denials = changed(ingested(), allowed_events=0, denied_events=100)
    assert found(ingest=denials)[0].state == "doubtful"
    assert found(ingest=ingested())[0].state == "good"


def test_results_of_different_events_are_not_passed_off_as_one_run() -> None:
    """An old result may have been left in the directory."""
    same = found(ingest=ingested(), whatif=SAFE, usage=usage())
    assert not [finding for finding in same if "other events" in finding.text]
    for other in (
        {"whatif": changed(SAFE, events=99)},
        {"whatif": changed(SAFE, last_at=None)},
        {"usage": changed(usage(), window=changed(usage().window, ends_at="2026-11-17T00:00:00Z"))},
    ):
        assert "other events" in found(ingest=ingested(), **other)[-1].text
