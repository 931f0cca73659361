"""The command writes two files, whole, and never over a result."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from authorizerd.replay.cli import main
from tests.ops.replay.report.elements import Elements
from tests.ops.replay.report.examples import write_results


def test_the_page_and_its_json_stand_beside_the_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the console says what they come to; a second time they are written anew, the same."""
    write_results(tmp_path)
    assert main(["report", "--run", str(tmp_path)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == (
        "✗ whatif: 12 recorded requests (1 distinct) of 1 principal would be newly denied"
    )
    assert said[-2].startswith(f"wrote {tmp_path}/report.html: ")
    first = (tmp_path / "report.html").read_bytes()
    assert Elements(first.decode()).names[0] == "html"
    assert json.loads((tmp_path / "report.json").read_text())["version"] == 1
    assert main(["report", "--run", str(tmp_path)]) == 0
    assert (tmp_path / "report.html").read_bytes() == first
    assert not list(tmp_path.glob(".*"))


def test_the_page_can_go_elsewhere(tmp_path: Path) -> None:
    """Its JSON goes with it."""
    write_results(tmp_path / "run")
    out = tmp_path / "friday.html"
    assert main(["report", "--run", str(tmp_path / "run"), "--out", str(out)]) == 0
    assert out.exists()
    assert out.with_suffix(".json").exists()
    assert not list((tmp_path / "run").glob("report.*"))


@pytest.mark.parametrize("name", ["whatif.html", "load.json", "ingest.htm", "page", "x.json", "/"])
def test_no_result_is_written_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """Nor anything that is no page: it is refused before anything is read."""
    write_results(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert main(["report", "--run", str(tmp_path), "--out", str(tmp_path / name)]) == 1
    assert capsys.readouterr().err.startswith("authorizerd replay: --out: ")
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_what_cannot_be_written_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, exit code 1."""
    write_results(tmp_path)
    out = tmp_path / "no-such" / "page.html"
    assert main(["report", "--run", str(tmp_path), "--out", str(out)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("no-such/page.json: No such file or directory")


def test_nothing_half_written_is_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where the page cannot be put in place it is not left beside it."""
    write_results(tmp_path)
    (tmp_path / "report.html").mkdir()
    assert main(["report", "--run", str(tmp_path)]) == 1
    assert "report.html: Is a directory" in capsys.readouterr().err
    assert not list(tmp_path.glob(".*"))


def test_names_do_not_command_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the console is told is printable, line by line."""
    write_results(tmp_path, "\x1b[2J\u202e\r\nwrote all")
    assert main(["report", "--run", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert all(line.isprintable() for line in out.split("\n"))
    assert "\\x1b[2J\\u202e\\r\\nwrote all" in out
