"""The threat model names guards and tests that exist."""

import re
from typing import Final

import pytest

from tests.support.named_tests import ROOT, is_test

PAGE: Final = (ROOT / "docs" / "threat-model.md").read_text()
GUARDED: Final = PAGE.partition("## Threats and guards")[2].partition("## Out of scope")[0]
ROWS: Final = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in GUARDED.splitlines()
    if line.startswith("| ") and not line.startswith("| threat |")
]
BORDERS: Final = "①②③④⑤⑥⑦"


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_every_threat_has_a_guard_and_a_test(row: list[str]) -> None:
    threat, guards, tests = row
    assert threat.endswith(".")
    for cell in (guards, tests):
        named = re.findall(r"`([^`]+)`", cell)
        assert cell == ", ".join(f"`{each}`" for each in named) != ""
    assert all((ROOT / each).is_file() for each in re.findall(r"`([^`]+)`", guards))
    for node_id in re.findall(r"`([^`]+)`", tests):
        assert is_test(node_id), node_id


def test_every_border_of_trust_has_threats() -> None:
    picture = PAGE.partition("```")[2].partition("```")[0]
    assert len(ROWS) > 50
    for border in BORDERS:
        assert border in picture
        section = GUARDED.partition(f"### {border} ")[2].partition("\n### ")[0]
        assert section.count("\n| ") > 1
    assert len({row[0] for row in ROWS}) == len(ROWS)
