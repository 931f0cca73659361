"""Results are found where jobs leave them, and read by their own types."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from authorizerd.replay.report.errors import ReportError
from authorizerd.replay.report.results import decode_whatif, read_results
from authorizerd.replay.whatif.report import encode_report
from tests.ops.replay.report.examples import ingested, judged_by, load, usage, whatif, write_results

DEEP = b'{"baseline": {"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}"


def test_all_four_are_read(tmp_path: Path) -> None:
    """As they were written, and each known by its hash."""
    write_results(tmp_path)
    results = read_results(tmp_path)
    assert results.ingest == ingested("User:alice")
    assert results.whatif == whatif()
    assert results.usage == usage()
    assert results.load == load("User:alice")
    data = (tmp_path / "whatif.json").read_bytes()
    assert bytes(results.texts["whatif"]) == data
    assert results.files["whatif"].sha256 == hashlib.sha256(data).hexdigest()
    assert results.files["whatif"].bytes == len(data)


def test_a_result_may_be_one_directory_down(tmp_path: Path) -> None:
    """Each job writes into its own; two down is another run's."""
    for kind in ("ingest", "load"):
        write_results(tmp_path / "elsewhere" / "all")
        (tmp_path / kind).mkdir()
        (tmp_path / "elsewhere" / "all" / f"{kind}.json").rename(tmp_path / kind / f"{kind}.json")
    results = read_results(tmp_path)
    assert {kind: file.path for kind, file in results.files.items()} == {
        "ingest": "ingest/ingest.json",
        "load": "load/load.json",
    }
    assert results.whatif is None
    assert results.usage is None


@pytest.mark.parametrize("baseline", [None, judged_by()])
def test_a_baseline_is_told_from_what_was_recorded(baseline: None) -> None:
    """By its fields: both are read back as they were."""
    told = whatif(baseline=baseline)
    assert decode_whatif(encode_report(told)) == told


def test_two_of_a_kind_are_refused(tmp_path: Path) -> None:
    """Nobody can say which is meant; both are named."""
    write_results(tmp_path / "one")
    write_results(tmp_path / "two")
    with pytest.raises(ReportError, match=r"one/ingest\.json and .*two/ingest\.json"):
        read_results(tmp_path)


def test_nothing_to_report_is_a_fault(tmp_path: Path) -> None:
    """With the names that were looked for; a directory of such a name is none of them."""
    (tmp_path / "whatif.json").mkdir()
    with pytest.raises(ReportError, match=r"none of ingest\.json, whatif\.json, usage\.json"):
        read_results(tmp_path)
    with pytest.raises(ReportError, match="no-such: No such file or directory"):
        read_results(tmp_path / "no-such")


@pytest.mark.parametrize("kind", ["ingest", "whatif", "usage", "load"])
@pytest.mark.parametrize(
    "text",
    [b"", b"{}", b"[]", b"[1", b'{"events": "many"}', b"\xff", b'{"baseline": 5}', DEEP],
)
def test_another_file_of_that_name_is_named(tmp_path: Path, kind: str, text: bytes) -> None:
    """Whatever is wrong with it, it is one error with the path in it."""
    (tmp_path / f"{kind}.json").write_bytes(text)
    with pytest.raises(ReportError, match=rf"{kind}\.json: not what {kind} writes: "):
        read_results(tmp_path)
