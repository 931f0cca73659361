"""The report's JavaScript in a real Chromium, on a real page."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from authorizerd.replay.report.rendering import make_page
from authorizerd.replay.report.results import Results
from tests.ops.replay.report.examples import usage

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

playwright_api = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="chromium is not installed (Debian's package chromium has it)"
)

ROWS = list(zip("bdacefghij", (9, 1000, None, 20, *[9] * 6), strict=True))
NAMED = [("Alice <b>", 88), ("bob", 918), *[("x", 1)] * 7]


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    """Provide a window whose pages must not find a fault."""
    with playwright_api.sync_playwright() as playwright:
        page = playwright.chromium.launch(executable_path=CHROMIUM).new_page()
        faults: list[str] = []
        page.on("console", lambda message: faults.append(message.text))
        page.on("pageerror", lambda error: faults.append(str(error)))
        yield page
        assert faults == []


def show(page: Page, folder: Path, rows: Sequence[tuple[str, int | None]]) -> Locator:
    """Show a report, and return its table of used ACLs, with these principals and names."""
    used = usage().used[0]
    shown = replace(
        usage(),
        used=tuple(
            replace(used, acl=replace(used.acl, principal=who), names=names) for who, names in rows
        ),
    )
    path = folder / "report.html"
    path.write_text(make_page("run", Results(files={}, texts={}, usage=shown), []))
    page.goto(path.as_uri())
    return page.locator(".searchable", has_text="Used, by events")


def read(table: Locator, column: int) -> str:
    """Return the texts of a column in the rows that are shown."""
    return " ".join(table.locator(f"tbody tr:visible td:nth-child({column})").all_inner_texts())


@pytest.mark.parametrize(("rows", "pressed", "principals", "names", "order"), [
    # Numbers sort by value, the largest first, and a missing number is always last.
    (5, "Names", "d c b e a", "1,000 20 9 9 –", "descending"),
    (5, "Names Names", "b e c d a", "9 9 20 1,000 –", "ascending"),
    # Text sorts from the first letter, and the other column loses its order.
    (4, "Names Principal", "a b c d", "– 9 20 1,000", "ascending"),
    (4, "Principal Principal", "d c b a", "1,000 20 9 –", "descending"),
    (8, "", "b d a c e f g h", "9 1,000 – 20 9 9 9 9", "none"),
])  # fmt: skip
def test_pressed_column_sorts(
    page: Page, tmp_path: Path, rows: int, pressed: str, principals: str, names: str, order: str
) -> None:
    table = show(page, tmp_path, ROWS[:rows])
    for name in pressed.split():
        table.locator("th button", has_text=name).click()
    assert (read(table, 1), read(table, 10)) == (principals, names)
    orders = [head.get_attribute("aria-sort") for head in table.locator("th").all()]
    assert set(orders) == {"none", order}
    assert orders.count(order) == 1 or not pressed
    assert table.get_by_role("searchbox").count() == 0, "few rows need no search"


def test_single_row_has_no_order(page: Page, tmp_path: Path) -> None:
    assert show(page, tmp_path, ROWS[:1]).get_by_role("button").count() == 0


def test_search_shows_the_rows_with_all_words(page: Page, tmp_path: Path) -> None:
    table = show(page, tmp_path, NAMED)
    for words, found in (
        ("ALICE <B> 88", "Alice <b>"), ("8", "Alice <b> bob"), ("<b> 918", ""),
        ("  ", "Alice <b> bob" + " x" * 7),
    ):  # fmt: skip
        table.get_by_role("searchbox").fill(words)
        assert read(table, 1) == found
        count = table.locator("tbody tr:visible").count()
        assert table.locator(".shown").inner_text() == str(count)
