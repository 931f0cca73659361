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
from authorizerd.replay.errors import ReportError
from authorizerd.replay.ingest.report import Log
from authorizerd.replay.judging.report import Count
from authorizerd.replay.load.thresholds import Verdict
from authorizerd.replay.report import wording
from authorizerd.replay.report.findings import assess
from authorizerd.replay.report.results import Results, read_results
from authorizerd.replay.text import encode_json
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

changed: Any = msgspec.structs.replace
INGEST, LOAD, USAGE = ingested(), load(), usage()
SAFE = whatif(newly_denied=NOTHING_CHANGED, newly_allowed=NOTHING_CHANGED)
BEFORE = judged_by(digest="sha256:before")
OF_UNKNOWN_DEFAULT = changed(SAFE.candidate, allow_everyone_if_no_acl_found=None)
ONE, FOUR = Count(events=1, tuples=1), Count(events=4, tuples=1)
DENIES, DIFFERS, IS_OTHER = (
    "No recorded ",
    "The suggested ACLs would decide diff",
    "about different",
)
GRANTS, ANSWERED = "1 grant of 3 ACLs never used", "Valid run: 98 questions answered by daemon:8183"
VERDICTS = [
    Verdict("p99<5ms", 6.125, False), Verdict("rate>=100", 99.5, False),
    Verdict("mismatch=0", 7.0, False), Verdict("max<1s", None, False),
]  # fmt: skip


def of_whatif(**fields: object) -> dict[str, object]:
    return {"whatif": changed(SAFE, **fields)}


def of_load(**fields: object) -> dict[str, object]:
    return {"load": changed(LOAD, mismatches=0, errors={}, **fields)}


def of_proof(**proof: Count) -> dict[str, object]:
    suggestions = changed(USAGE.suggestions, proof=changed(USAGE.suggestions.proof, **proof))
    return {"usage": changed(USAGE, suggestions=suggestions)}


@pytest.mark.parametrize(("results", "found"), [
    ({"whatif": whatif(), "ingest": INGEST},
     ["bad 12 recorded requests (1 distinct) of 1 principal would be newly denied",
      "doubtful 12 recorded requests (1 distinct) of 1 principal would be newly allowed",
      "good 100 events read, 4 of 105 lines set aside"]),
    (of_whatif(), [f"good {DENIES}"]),
    (of_whatif(not_evaluated={"x": FOUR}),
     [f"doubtful {DENIES}", "4 events of 100 could not be evaluated."]),
    (of_whatif(allowed_events=0),
     [f"doubtful {DENIES}", "This proves nothing: the record contains no allowed request (K"]),
    (of_whatif(allowed_events=0, events=0),
     [f"doubtful {DENIES}", "This proves nothing: no request was recorded."]),
    (of_whatif(allowed_events=0, baseline=BEFORE), [f"doubtful {DENIES}", "This proves nothing"]),
    (of_whatif(logs={"a": Log(last_at=None)}), [f"doubtful {DENIES}", "a: no event."]),
    (of_whatif(baseline=SAFE.candidate), [f"good {DENIES}", "Both sides are the same ACLs"]),
    # Super users that are judged by the ACLs are at worst reported as newly denied.
    (of_whatif(candidate=changed(SAFE.candidate, super_users=None)),
     [f"good {DENIES}", "super.users is unknown"]),
    (of_whatif(candidate=OF_UNKNOWN_DEFAULT), [f"good {DENIES}", f"{ALLOW_EVERYONE} is unknown"]),
    (of_whatif(candidate=OF_UNKNOWN_DEFAULT, baseline=BEFORE),
     [f"doubtful {DENIES}", f"If {ALLOW_EVERYONE} is true", f"{ALLOW_EVERYONE} is unknown"]),
    (of_load(), [f"good {ANSWERED}", "good 1 threshold held: p99<5ms"]),
    ({"load": LOAD},
     [f"good {ANSWERED}", "good 1 threshold held: p99<5ms",
      "doubtful 1 answer different from the recorded decision",
      "doubtful Questions without a decision: 1 errors"]),
    ({"load": dry_run()}, ["plain Dry run: 99 questions planned, none sent"]),
    (of_load(valid=False, invalid_reasons=[f"lane {n} ended" for n in range(30)], thresholds=[]),
     ["bad Invalid run: ", *(f"lane {n} ended" for n in range(10)), "and 20 more"]),
    (of_load(thresholds=VERDICTS),
     [f"good {ANSWERED}", "bad Threshold p99<5ms failed: measured 6.125 ms",
      "bad Threshold rate>=100 failed: measured 99.5/s",
      "bad Threshold mismatch=0 failed: measured 7", "bad Threshold max<1s failed: measured noth"]),
    ({"usage": USAGE},
     [f"plain {GRANTS}", "Seen: 2026-11-16 06:00:00 to 2026-11-16 07:00:00 (UTC)",
      "1 ACL may be too young to be judged."]),
    (of_proof(newly_denied=ONE), [f"plain {GRANTS}", "Seen", "1 ACL may", f"bad {DIFFERS}"]),
    (of_proof(newly_allowed=ONE), [f"plain {GRANTS}", "Seen", "1 ACL may", f"bad {DIFFERS}"]),
    ({"usage": changed(USAGE, disagreeing=FOUR)},
     [f"plain {GRANTS}", "Seen", "1 ACL may", "doubtful 4 events recorded with a different deci"]),
    ({"ingest": changed(INGEST, accepted=False)}, ["bad Not accepted: 4 of 105 lines set aside"]),
    ({"ingest": changed(INGEST, damaged=("a.gz",))},
     ["doubtful 100 events read", "Archives are damaged, so events are missing: a.gz."]),
    ({"ingest": changed(INGEST, allowed_events=0, denied_events=100)},
     ["doubtful 100 events read", "Only denials were recorded"]),
])  # fmt: skip
def test_findings_say_what_the_results_show(results: Any, found: list[str]) -> None:  # noqa: ANN401 - one result of each kind
    """Each text begins with the state of a finding, or is the beginning of one of its notes."""
    texts = []
    for each in assess(Results(files={}, texts={}, **results)):
        texts += [f"{each.state} {each.text}", *each.notes]
    assert len(texts) == len(found)
    assert all(map(str.startswith, texts, found)), texts


@pytest.mark.parametrize(("other", "is_other"), [
    ({"whatif": SAFE, "usage": USAGE}, False),
    ({"whatif": changed(SAFE, events=99)}, True),
    ({"whatif": changed(SAFE, last_at=None)}, True),
    ({"whatif": changed(SAFE, events=99, window_begins_at="2026-11-16T06:00:00.000Z")}, False),
    ({"usage": changed(USAGE, window=changed(USAGE.window, ends_at=None))}, True),
])  # fmt: skip
def test_results_of_other_events_are_found(other: Any, is_other: bool) -> None:  # noqa: ANN401 - one result of each kind
    """An old result may have been left in the directory."""
    found = assess(Results(files={}, texts={}, ingest=INGEST, **other))
    assert any(IS_OTHER in each.text for each in found) == is_other


DEEP = b'{"baseline": {"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}"


def test_results_are_read_with_their_hashes_up_to_one_directory_down(tmp_path: Path) -> None:
    write_results(tmp_path, kinds=["whatif", "usage"])
    for kind in ("ingest", "load"):
        write_results(tmp_path / kind, kinds=[kind])
    write_results(tmp_path / "elsewhere" / "all")
    results = read_results(tmp_path)
    assert results.ingest == examples.ingested("User:alice")
    assert (results.whatif, results.usage) == (whatif(), usage())
    assert results.load == examples.load("User:alice")
    assert {kind: file.path for kind, file in results.files.items()} == {
        "ingest": "ingest/ingest.json", "whatif": "whatif.json", "usage": "usage.json",
        "load": "load/load.json",
    }  # fmt: skip
    data = (tmp_path / "whatif.json").read_bytes()
    assert bytes(results.texts["whatif"]) == data
    assert results.files["whatif"].sha256 == hashlib.sha256(data).hexdigest()
    assert results.files["whatif"].bytes == len(data)
    told = whatif(baseline=judged_by())
    assert decode_whatif(encode_json(told)) == told


def test_result_may_be_a_directory_with_one_part_file(tmp_path: Path) -> None:
    """Spark writes so to an object store."""
    write_results(tmp_path, kinds=["whatif"])
    text = (tmp_path / "whatif.json").read_text()
    (tmp_path / "whatif.json").unlink()
    for path in ("whatif.json/_SUCCESS", "whatif.json/part-00000-a.txt", "usage.json/part-0.txt"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).touch()  # an empty part is a result that was removed
    (tmp_path / "whatif.json" / "part-00000-a.txt").write_text(text)
    results = read_results(tmp_path)
    assert (results.whatif, list(results.files)) == (whatif(), ["whatif"])
    (tmp_path / "whatif.json" / "part-00001-a.txt").write_text(text)
    with pytest.raises(ReportError, match=r"found both .*part-00000-a\.txt and .*part-00001"):
        read_results(tmp_path)


@pytest.mark.parametrize(("name", "expected"), [
    ("none", r"found none of ingest\.json, whatif\.json, usage\.json"),
    ("no-such", "no-such: No such file or directory"),
    ("twice", r"one/ingest\.json and .*two/ingest\.json"),
])  # fmt: skip
def test_directory_without_one_result_of_a_kind_is_rejected(
    tmp_path: Path, name: str, expected: str
) -> None:
    (tmp_path / "none" / "whatif.json").mkdir(parents=True)
    for each in ("one", "two"):
        write_results(tmp_path / "twice" / each)
    with pytest.raises(ReportError, match=expected):
        read_results(tmp_path / name)


@pytest.mark.parametrize("kind", KINDS)
def test_invalid_result_is_rejected_with_its_path(tmp_path: Path, kind: str) -> None:
    texts = [b"", b"{}", b"[]", b"[1", b'{"events": "many"}', b"\xff", b'{"baseline": 5}', DEEP]
    if kind == "load":
        whole = msgspec.json.encode(examples.load())
        # The upper bound of such a bucket would be a number with 2**53 bits.
        texts.append(whole.replace(b'"buckets":[[', b'"buckets":[[1152921504606846976,1],[', 1))
        texts.append(whole.replace(b'"question":["daemon:8183",null,', b'"question":[', 1))
        assert whole not in texts
    for text in texts:
        (tmp_path / f"{kind}.json").write_bytes(text)
        with pytest.raises(ReportError, match=rf"{kind}\.json: not a result of {kind}: "):
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
    (0, 10**6, "0.0 %"), (1, 10**6, "below 0.1 %"), (10**6 - 1, 10**6, "above 99.9 %"),
    (10**6, 10**6, "100.0 %"), (0, 0, "–"),
])  # fmt: skip
def test_share_is_never_rounded_to_nothing_or_to_all(part: int, whole: int, text: str) -> None:
    assert wording.format_share(part, whole) == text


@pytest.mark.parametrize(("iso", "text"), [
    ("2026-11-16T06:00:00.123Z", "2026-11-16 06:00:00"),
    ("2026-11-16T06:00:00+02:00", "2026-11-16 04:00:00"),
    ("2026-11-16T06:00:00", "2026-11-16 06:00:00"),
    ("0001-01-01T00:00:00+02:00", "0001-01-01T00:00:00+02:00"),
    ("9007199254740991 ms", "9007199254740991 ms"), (None, "–"),
])  # fmt: skip
def test_times_are_in_utc(iso: str | None, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        assert wording.format_time(iso) == text
    finally:
        monkeypatch.undo()
        time.tzset()
