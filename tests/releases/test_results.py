"""The table in docs/conformance.md has the results of the newest runs, and says what failed."""

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kafka_rig.rig import Absent, Rig, RigError
from tests.releases import __main__ as command
from tests.releases import results as results_module
from tests.releases.results import PAGE, Result, load_results, write_page
from tests.releases.versions import VERSIONS
from tests.releases.walk import Walk

GOOD = {"quorum": Walk(["create", "deny"]), "brokers": Walk(["create"])}


def row_of(version: str, result: Result) -> str:
    [row] = [
        line
        for line in write_page(PAGE.read_text(), {version: result}).splitlines()
        if line.startswith(f"| {version} | ") and result.day in line
    ]
    return row


def test_page_is_up_to_date() -> None:
    """``python -m tests.releases --write`` updates both."""
    page = PAGE.read_text()
    assert write_page(page, load_results()) == page


def test_every_release_has_a_row() -> None:
    page = write_page(PAGE.read_text(), {})
    assert [f"| {version} | not run |" in page for version in VERSIONS] == [True] * len(VERSIONS)


@pytest.mark.parametrize(("changed", "cells"), [
    ({"questions": 1234, "walks": GOOD}, "1,234 | 0 | 2 steps passed | 1 steps passed"),
    (
        {"walks": {"quorum": Walk(["create"], "deny: it is allowed")}},
        "| 0 | failed: deny | failed: not run |",
    ),
    ({"error": "mvn: exit code 1"}, "could not run: mvn: exit code 1 |  |  | "),
])  # fmt: skip
def test_row_says_what_failed(changed: dict[str, Any], cells: str) -> None:
    row = row_of("4.4.0", Result(day="2026-01-02", commit="abc", **changed))
    assert cells in row
    assert row.endswith("| 2026-01-02 | abc |")


@pytest.mark.parametrize(("rig", "walks", "code"), [
    (Rig(""), GOOD, 0),
    (Rig(""), {"quorum": Walk([], "create: it is denied")}, 1),
    (Rig(""), RigError("no leader"), 2),
    (Absent("no mvn"), GOOD, 2),
])  # fmt: skip
def test_run_writes_the_file_and_the_page(
    rig: Rig | Absent,
    walks: Any,  # noqa: ANN401 - what the walk returns or raises
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def walk(*_: object) -> object:
        if isinstance(walks, RigError):
            raise walks
        return walks

    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text())
    monkeypatch.setattr(results_module, "FILE", tmp_path / "results.json")
    monkeypatch.setattr(results_module, "PAGE", page)
    monkeypatch.setattr(command, "WALKS", tmp_path)
    monkeypatch.setattr(command, "prepare", lambda version: rig)
    monkeypatch.setattr(command, "walk_release", walk)
    options = ["--questions", "0", "--versions", "4.4.0", "--write"]
    monkeypatch.setattr(sys, "argv", ["releases", *options])
    assert command.main() == code
    written = load_results()
    assert written.keys() == {"4.4.0"}
    assert written["4.4.0"].is_passed == (code == 0)
    assert page.read_text() == write_page(PAGE.read_text(), written)


def test_part_of_a_run_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["releases", "--write", "--no-walk"])
    with pytest.raises(SystemExit, match="2"):
        command.main()
