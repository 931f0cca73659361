"""The page gets the figures of a whole run between its markers, and nothing else changes."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tools.bench import page
from tools.bench.figures import Line
from tools.bench.machine import describe_machine
from tools.bench.page import BEGIN, END, PAGE, PageError, replace_figures, write_page
from tools.bench.parts import PARTS
from tools.bench.report import Part, Report, ReportError

REPORT = Report(
    machine=describe_machine(),
    programs={"opa": "1.22.2"},
    began="2026-01-02T03:04:05+0000",
    seconds=61.0,
    is_quick=False,
    parts=dict.fromkeys(PARTS, Part(1.0, [Line(what="decision", unit="ns", ours=400)])),
)
BEFORE, AFTER = f"# Performance\n\n{BEGIN}\n", f"{END}\n\nMore.\n"


def test_only_the_text_between_the_markers_changes() -> None:
    once = replace_figures(f"{BEFORE}old\n{AFTER}", REPORT)
    assert once.startswith(BEFORE)
    assert once.endswith(AFTER)
    assert "old" not in once
    assert "decision  400 ns" in once
    assert "opa 1.22.2" in once
    assert once.count("](replay-growth.svg)") == 1
    assert REPORT.began in once
    assert replace_figures(once, REPORT) == once


def test_continued_run_is_named_as_such() -> None:
    report = msgspec.structs.replace(REPORT, continued={"later": ["replay", "floods"]})
    page = replace_figures(BEFORE + AFTER, report)
    assert "Continued at later, it measured replay, floods." in page


@pytest.mark.parametrize(
    ("report", "complaint"),
    [
        (
            msgspec.structs.replace(REPORT, parts={"http": Part(1.0, [])}),
            "the run was without openfga, ",
        ),
        (msgspec.structs.replace(REPORT, is_quick=True), "the run was with --quick"),
    ],
)
def test_part_of_a_run_is_refused(report: Report, complaint: str) -> None:
    with pytest.raises(PageError, match=complaint):
        replace_figures(BEFORE + AFTER, report)


def test_page_names_the_parts_that_it_may_lack() -> None:
    parts = {name: part for name, part in REPORT.parts.items() if name != "replay"}
    report = msgspec.structs.replace(REPORT, parts=parts)
    assert "It lacks replay." in replace_figures(BEFORE + AFTER, report, ["replay", "floods"])
    with pytest.raises(PageError, match="the run was without replay: "):
        replace_figures(BEFORE + AFTER, report, ["floods"])


@pytest.mark.parametrize("text", ["# Performance\n", f"{END}\n{BEGIN}\n", f"{BEGIN}\n"])
def test_page_without_its_markers_is_refused(text: str) -> None:
    with pytest.raises(PageError, match="expected the lines"):
        replace_figures(text, REPORT)


def test_real_page_has_the_markers() -> None:
    assert "decision  400 ns" in replace_figures(PAGE.read_text(), REPORT)


def test_page_and_plot_are_written_from_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(page, "PLOTS", tmp_path / "docs")
    (tmp_path / "docs").mkdir()
    (tmp_path / "page.md").write_text(BEFORE + AFTER)
    with pytest.raises(ReportError, match=r"run python -m tools\.bench first"):
        write_page(tmp_path)
    (tmp_path / "bench.json").write_bytes(msgspec.json.encode(REPORT))
    (tmp_path / "growth.svg").write_text("<svg/>")
    write_page(tmp_path)
    assert "decision  400 ns" in (tmp_path / "page.md").read_text()
    assert [plot.name for plot in (tmp_path / "docs").iterdir()] == ["growth.svg"]
    assert (tmp_path / "docs/growth.svg").read_text() == "<svg/>"
