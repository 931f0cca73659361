"""The track record names tests that exist, and its table is the sum of the runs."""

import re
from pathlib import Path
from typing import Final

import msgspec
import pytest

from tests.support.named_tests import ROOT, is_test
from tests.track_record import hours
from tests.track_record.hours import PAGE, add_files, load_sums, read_release, write_page

TEXT: Final = PAGE.read_text()
ROWS: Final = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in TEXT.splitlines()
    if line.startswith("| ") and " `tests/" in line
]
FOUND_BY: Final = re.compile(
    r"`make .+`|comparison with .+|attack|review|a recorded case|a story written by hand"
    r"|not recorded"
)
LINE: Final = (
    '{{"part":"{}","seed":7,"seconds":{},"commit":"abc","day":"2026-12-0{}","passed":{}}}\n'
)


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_every_defect_has_a_release_a_commit_a_finder_and_a_guard(row: list[str]) -> None:
    what, release, fixed, found_by, guard = row
    assert what.endswith(".")
    assert release in ("1.0.0", "before 1.0.0")
    assert re.fullmatch(r"2\d{3}-\d\d-\d\d `[0-9a-f]{8}`", fixed)
    assert FOUND_BY.fullmatch(found_by)
    for target in re.findall(r"make ([a-z-]+)", found_by):
        assert f"\n{target}: " in (ROOT / "Makefile").read_text()
    assert is_test(guard.strip("`")), guard


def test_every_defect_is_named_once() -> None:
    assert len(ROWS) > 40
    assert len({row[0] for row in ROWS}) == len(ROWS)


def test_table_is_up_to_date() -> None:
    """``python -m tests.track_record`` updates it."""
    assert write_page(TEXT, load_sums()) == TEXT


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty record; files of runs are beside it."""
    monkeypatch.setattr(hours, "FILE", tmp_path / "record.json")
    monkeypatch.setattr(hours, "PAGE", tmp_path / "page.md")
    (tmp_path / "record.json").write_text('{"1.0": {"soak": {"runs": 1, "seconds": 1800}}}')
    (tmp_path / "page.md").write_text(TEXT)
    return tmp_path


def test_runs_are_summed_by_release_and_kind_and_count_once(record: Path) -> None:
    first, second = record / "1.jsonl", record / "2.jsonl"
    first.write_text(LINE.format("chaos", 3600, 1, "true") + LINE.format("mutants", 9, 1, "true"))
    second.write_text(LINE.format("chaos-quorum", 900, 2, "false"))
    add_files([first, second])
    assert not first.exists()
    assert not second.exists()
    rows = [line for line in (record / "page.md").read_text().splitlines() if " | soak | " in line]
    assert "| 1.0 | soak | 1 | 0.50 | none |  |" in rows
    [chaos] = load_sums()[read_release()].items()
    assert chaos[0] == "chaos"
    assert (chaos[1].runs, chaos[1].seconds, chaos[1].newest) == (2, 4500, "2026-12-02")
    failed = "chaos-quorum, seed 7 (2026-12-02, abc)"
    assert f"| chaos | 2 | 1.25 | {failed} | 2026-12-02 |" in (record / "page.md").read_text()


def test_unreadable_run_changes_nothing(record: Path) -> None:
    before = (record / "record.json").read_bytes()
    good, bad = record / "good.jsonl", record / "bad.jsonl"
    good.write_text(LINE.format("soak", 1, 1, "true"))
    bad.write_text('{"part": "soak"}\n')
    with pytest.raises(msgspec.DecodeError):
        add_files([good, bad])
    assert (record / "record.json").read_bytes() == before
    assert good.exists()
