"""Findings are never better than the results, and say what they mean."""

import hashlib
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.known_settings import ALLOW_EVERYONE
from authorizerd.replay.ingest.report import Log
from authorizerd.replay.judging.report import Count, JudgedBy
from authorizerd.replay.load.thresholds import Verdict
from authorizerd.replay.report import wording
from authorizerd.replay.report.errors import ReportError
from authorizerd.replay.report.findings import Finding, assess
from authorizerd.replay.report.results import Results, read_results
from authorizerd.replay.text import encode_json, format_count
from authorizerd.replay.whatif.report import NOTHING_CHANGED, decode_whatif
from tests.ops.replay.report import examples
from tests.ops.replay.report.examples import (
    KINDS,
    dry_run,
    ingested,
    judged_by,
    load,
    usage,
    whatif,
    write_results,
)

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


@pytest.mark.parametrize(("fields", "state", "notes"), [
    ({}, "good", []),
    ({"not_evaluated": {"x": FOUR}}, "doubtful", ["4 events of 100 could not be evaluated."]),
    ({"allowed_events": 0}, "doubtful", ["This proves nothing: the record contains no allowed"]),
    ({"allowed_events": 0, "events": 0}, "doubtful", ["This proves nothing: no request was reco"]),
    ({"allowed_events": 0, "baseline": judged_by(digest="sha256:before")}, "doubtful",
     ["This proves nothing: the record contains no allowed request (Kafka logs"]),
    ({"logs": {"a": Log(last_at=None)}}, "doubtful", ["a: no event."]),
    ({"baseline": SAFE.candidate}, "good", ["Both sides are the same ACLs"]),
    # Super users that are judged by the ACLs are at worst reported as newly denied.
    ({"candidate": changed(SAFE.candidate, super_users=None)}, "good", ["super.users is unkn"]),
    ({"candidate": OF_UNKNOWN_DEFAULT}, "good", [f"{ALLOW_EVERYONE} is unknown"]),
    ({"candidate": OF_UNKNOWN_DEFAULT, "baseline": judged_by(digest="sha256:before")}, "doubtful",
     [f"If {ALLOW_EVERYONE} is true", f"{ALLOW_EVERYONE} is unknown"]),
])  # fmt: skip
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


@pytest.mark.parametrize(("other", "is_other"), [
    ({"whatif": SAFE, "usage": USAGE}, False),
    ({"whatif": changed(SAFE, events=99)}, True),
    ({"whatif": changed(SAFE, last_at=None)}, True),
    ({"whatif": changed(SAFE, events=99, window_begins_at="2026-11-16T06:00:00.000Z")}, False),
    ({"usage": changed(USAGE, window=changed(USAGE.window, ends_at=None))}, True),
])  # fmt: skip
def test_results_of_other_events_are_found(other: dict[str, object], is_other: bool) -> None:
    """An old result may have been left in the directory."""
    texts = [finding.text for finding in find(ingest=ingested(), **other)]
    assert any("different events" in text for text in texts) == is_other


DEEP = b'{"baseline": {"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}"


def test_all_four_results_are_read_with_their_hashes(tmp_path: Path) -> None:
    write_results(tmp_path)
    results = read_results(tmp_path)
    assert results.ingest == examples.ingested("User:alice")
    assert results.whatif == whatif()
    assert results.usage == examples.usage()
    assert results.load == examples.load("User:alice")
    data = (tmp_path / "whatif.json").read_bytes()
    assert bytes(results.texts["whatif"]) == data
    assert results.files["whatif"].sha256 == hashlib.sha256(data).hexdigest()
    assert results.files["whatif"].bytes == len(data)


def test_result_may_be_one_directory_down_but_not_two(tmp_path: Path) -> None:
    write_results(tmp_path / "ingest", kinds=["ingest"])
    write_results(tmp_path / "load", kinds=["load"])
    write_results(tmp_path / "elsewhere" / "all")
    results = read_results(tmp_path)
    assert {kind: file.path for kind, file in results.files.items()} == {
        "ingest": "ingest/ingest.json",
        "load": "load/load.json",
    }
    assert (results.whatif, results.usage) == (None, None)


@pytest.mark.parametrize("baseline", [None, examples.judged_by()])
def test_both_kinds_of_baseline_are_decoded(baseline: JudgedBy | None) -> None:
    told = whatif(baseline=baseline)
    assert decode_whatif(encode_json(told)) == told


def test_result_may_be_a_directory_with_one_part_file(tmp_path: Path) -> None:
    """Spark writes so to an object store."""
    write_results(tmp_path, kinds=["whatif"])
    text = (tmp_path / "whatif.json").read_text()
    (tmp_path / "whatif.json").unlink()
    (tmp_path / "whatif.json").mkdir()
    (tmp_path / "whatif.json" / "_SUCCESS").touch()
    (tmp_path / "whatif.json" / "part-00000-a.txt").write_text(text)
    (tmp_path / "usage.json").mkdir()
    (tmp_path / "usage.json" / "part-00000-a.txt").touch()  # a result that was removed
    results = read_results(tmp_path)
    assert (results.whatif, list(results.files)) == (whatif(), ["whatif"])
    (tmp_path / "whatif.json" / "part-00001-a.txt").write_text(text)
    with pytest.raises(ReportError, match=r"found both .*part-00000-a\.txt and .*part-00001"):
        read_results(tmp_path)


def test_two_results_of_one_kind_are_rejected(tmp_path: Path) -> None:
    write_results(tmp_path / "one")
    write_results(tmp_path / "two")
    with pytest.raises(ReportError, match=r"one/ingest\.json and .*two/ingest\.json"):
        read_results(tmp_path)


@pytest.mark.parametrize(("name", "expected"), [
    ("", r"found none of ingest\.json, whatif\.json, usage\.json"),
    ("no-such", "no-such: No such file or directory"),
])  # fmt: skip
def test_directory_without_results_is_rejected(tmp_path: Path, name: str, expected: str) -> None:
    (tmp_path / "whatif.json").mkdir()
    with pytest.raises(ReportError, match=expected):
        read_results(tmp_path / name)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "text", [b"", b"{}", b"[]", b"[1", b'{"events": "many"}', b"\xff", b'{"baseline": 5}', DEEP]
)
def test_invalid_result_is_rejected_with_its_path(tmp_path: Path, kind: str, text: bytes) -> None:
    (tmp_path / f"{kind}.json").write_bytes(text)
    with pytest.raises(ReportError, match=rf"{kind}\.json: not a result of {kind}: "):
        read_results(tmp_path)


@pytest.mark.parametrize(("found", "damaged"), [
    # The upper bound of such a bucket would be a number with 2**53 bits.
    (b'"buckets":[[', b'"buckets":[[1152921504606846976,1],['),
    (b'"question":["daemon:8183",null,', b'"question":['),
])  # fmt: skip
def test_impossible_figure_is_rejected(tmp_path: Path, found: bytes, damaged: bytes) -> None:
    text = msgspec.json.encode(examples.load())
    (tmp_path / "load.json").write_bytes(text)
    assert read_results(tmp_path).load == examples.load()
    (tmp_path / "load.json").write_bytes(text.replace(found, damaged, 1))
    with pytest.raises(ReportError, match=r"load\.json: not a result of load: Expected `"):
        read_results(tmp_path)


@given(st.text(max_size=1_000), st.integers(wording.NAME_MAX, 600))
def test_long_name_keeps_both_ends_and_says_how_much_is_missing(text: str, longest: int) -> None:
    cut = wording.cut(text, longest)
    if len(text) <= longest:
        assert cut == text
    else:
        assert text.startswith(cut.split("…")[0][:50])
        assert text.endswith(cut[-30:])
        assert f"[{len(text) - longest:,} characters]" in cut


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (0.0421, "0.042"), (1.234, "1.23"), (12.34, "12.3"), (1234.5, "1,234"), (None, "–")],
)
def test_numbers_have_three_significant_digits(number: float | None, text: str) -> None:
    assert wording.format_significant(number) == text


@pytest.mark.parametrize(("part", "whole", "text"), [
    (0, 10**6, "0.0 %"),
    (1, 10**6, "below 0.1 %"),
    (10**6 - 1, 10**6, "above 99.9 %"),
    (10**6, 10**6, "100.0 %"),
    (0, 0, "–"),
])  # fmt: skip
def test_share_is_never_rounded_to_nothing_or_to_all(part: int, whole: int, text: str) -> None:
    assert wording.format_share(part, whole) == text


@pytest.mark.parametrize(("iso", "text"), [
    ("2026-11-16T06:00:00.123Z", "2026-11-16 06:00:00"),
    ("2026-11-16T06:00:00+02:00", "2026-11-16 04:00:00"),
    ("2026-11-16T06:00:00", "2026-11-16 06:00:00"),
    ("0001-01-01T00:00:00+02:00", "0001-01-01T00:00:00+02:00"),
    ("9007199254740991 ms", "9007199254740991 ms"),
    (None, "–"),
])  # fmt: skip
def test_times_are_in_utc(iso: str | None, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        assert wording.format_time(iso) == text
    finally:
        monkeypatch.undo()
        time.tzset()


def test_nouns_follow_their_number() -> None:
    counted = [format_count(number, "event") for number in (0, 1, 2_000)]
    assert counted == ["0 events", "1 event", "2,000 events"]
