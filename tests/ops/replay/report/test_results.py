from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
import pytest

from authorizerd.replay.judging.report import JudgedBy
from authorizerd.replay.report.errors import ReportError
from authorizerd.replay.report.results import read_results
from authorizerd.replay.text import encode_json
from authorizerd.replay.whatif.report import decode_whatif
from tests.ops.replay.report import examples
from tests.ops.replay.report.examples import KINDS, whatif, write_results

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


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("", r"found none of ingest\.json, whatif\.json, usage\.json"),
        ("no-such", "no-such: No such file or directory"),
    ],
)
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
def test_impossible_figure_of_a_load_is_rejected(
    tmp_path: Path, found: bytes, damaged: bytes
) -> None:
    text = msgspec.json.encode(examples.load())
    (tmp_path / "load.json").write_bytes(text)
    assert read_results(tmp_path).load == examples.load()
    (tmp_path / "load.json").write_bytes(text.replace(found, damaged, 1))
    with pytest.raises(ReportError, match=r"load\.json: not a result of load: Expected `"):
        read_results(tmp_path)
