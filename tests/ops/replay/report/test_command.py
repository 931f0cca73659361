from __future__ import annotations

import json
from pathlib import Path

import pytest

from authorizerd.replay.cli import main
from tests.ops.replay.report.elements import Elements
from tests.ops.replay.report.examples import KINDS, write_results


def report(run: Path, *options: str | Path) -> int:
    return main(["report", "--run", str(run), *map(str, options)])


def test_page_and_json_are_written_and_summarised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_results(tmp_path)
    assert report(tmp_path) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == (
        "✗ whatif: 12 recorded requests (1 distinct) of 1 principal would be newly denied"
    )
    assert lines[-2].startswith(f"wrote {tmp_path}/report.html: ")
    first = (tmp_path / "report.html").read_bytes()
    assert Elements(first.decode()).names[0] == "html"
    assert report(tmp_path) == 0
    assert (tmp_path / "report.html").read_bytes() == first
    assert not list(tmp_path.glob(".*"))


def test_json_has_the_findings_and_the_unchanged_results(tmp_path: Path) -> None:
    write_results(tmp_path, "User:\u202e</script>")
    assert report(tmp_path) == 0
    document = json.loads((tmp_path / "report.json").read_text())
    assert list(document) == ["version", "findings", "files", "results"]
    assert document["version"] == 1
    assert document["findings"][0]["state"] == "bad"
    for kind in KINDS:
        assert document["results"][kind] == json.loads((tmp_path / f"{kind}.json").read_text())
        assert document["files"][kind]["path"] == f"{kind}.json"


def test_out_names_another_page_and_its_json(tmp_path: Path) -> None:
    write_results(tmp_path / "run")
    out = tmp_path / "friday.html"
    assert report(tmp_path / "run", "--out", out) == 0
    assert out.exists()
    assert out.with_suffix(".json").exists()
    assert not list((tmp_path / "run").glob("report.*"))


@pytest.mark.parametrize("name", ["whatif.html", "load.json", "ingest.htm", "page", "x.json", "/"])
def test_out_that_would_replace_a_result_or_is_not_html_is_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    write_results(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert report(tmp_path, "--out", tmp_path / name) == 1
    assert capsys.readouterr().err.startswith("authorizerd replay: --out: ")
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("out", "expected"),
    [
        ("no-such/page.html", "no-such/page.json: No such file or directory"),
        ("directory.html", "directory.html: Is a directory"),
    ],
)
def test_unwritable_file_is_named_and_nothing_half_written_is_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], out: str, expected: str
) -> None:
    write_results(tmp_path)
    (tmp_path / "directory.html").mkdir()
    assert report(tmp_path, "--out", tmp_path / out) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(expected)
    assert not list(tmp_path.glob(".*"))


def test_names_cannot_control_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_results(tmp_path, "\x1b[2J\u202e\r\nwrote all")
    assert report(tmp_path) == 0
    out = capsys.readouterr().out
    assert all(line.isprintable() for line in out.split("\n"))
    assert "\\x1b[2J\\u202e\\r\\nwrote all" in out


def test_difference_of_two_runs_is_written_beside_the_later(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_results(tmp_path / "thursday", "User:a")
    write_results(tmp_path / "friday", "User:b")
    assert report(tmp_path / "friday", "--against", tmp_path / "thursday") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "• inputs: The inputs differ"
    assert "✗ whatif: 1 distinct request newly denied only in friday" in lines
    page = (tmp_path / "friday" / "difference.html").read_text()
    assert "<title>friday against thursday</title>" in page
    document = json.loads((tmp_path / "friday" / "difference.json").read_text())
    assert list(document) == ["version", "findings", "difference"]
    assert document["difference"]["was"]["name"] == "thursday"
    assert set(document["difference"]["results"]) == set(KINDS)
    assert not list((tmp_path / "thursday").glob("difference.*"))


def test_runs_of_the_same_name_are_named_by_their_paths(tmp_path: Path) -> None:
    for week in ("1", "2"):
        write_results(tmp_path / week / "friday")
    assert report(tmp_path / "2" / "friday", "--against", tmp_path / "1" / "friday") == 0
    difference = json.loads((tmp_path / "2" / "friday" / "difference.json").read_text())
    names = [difference["difference"][side]["name"] for side in ("was", "now")]
    assert names == [f"{tmp_path}/1/friday", f"{tmp_path}/2/friday"]


def test_run_against_itself_is_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_results(tmp_path)
    assert report(tmp_path, "--against", f"{tmp_path}/.") == 1
    assert "expected another directory than --run" in capsys.readouterr().err
