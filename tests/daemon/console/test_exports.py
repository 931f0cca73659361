from __future__ import annotations

import csv
import re
from io import StringIO
from types import SimpleNamespace
from typing import cast

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.daemon.console.exports import Add, encode_csv, export
from authorizerd.daemon.console.tables import Cells
from authorizerd.daemon.console.visits import Visit
from authorizerd.daemon.errors import ClosingError


@pytest.mark.parametrize(
    "cell",
    [
        "=1+1",
        "+1",
        "-1",
        "@a",
        "\tx",
        "\rx",
        "\nx",
        " =1",
        "\u00a0=1",
        "\ufeff=1",
        "\uff1d1+1",
        "\uff0b1",
        "\uff0d1",
        "\uff201",
    ],
)
def test_cell_is_never_a_formula(cell: str) -> None:
    (row,) = csv.reader(StringIO(encode_csv([("a", cell)]).decode(), newline=""))
    assert row == ["a", "'" + cell]


@pytest.mark.parametrize(
    "cell",
    ["", "a", 'a,"b"', "line\nfeed", "a=b", "a\u202e", "*", "User:é", "CN=a;OU=b", "a;b-c", "\\"],
)
def test_other_cells_are_read_back_as_they_are(cell: str) -> None:
    data = encode_csv([("x", cell), (cell, "y")]).decode()
    assert [*csv.reader(StringIO(data, newline=""))] == [["x", cell], [cell, "y"]]


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        ("x;=1+1", "x;'=1+1"),
        ("x; =1", "x;' =1"),
        ('x;"=1', """x;'"=1"""),
        ("a\n=1", "a\n'=1"),
        ("a\t+1;@b", "a\t'+1;'@b"),
        ("a;\uff1d1", "a;'\uff1d1"),
        (";;=1", ";;'=1"),
    ],
)
def test_no_part_of_a_cell_is_a_formula(cell: str, written: str) -> None:
    """Spreadsheets with other separators do not know where a cell ends."""
    (row,) = csv.reader(StringIO(encode_csv([("a", cell)]).decode(), newline=""))
    assert row == ["a", written]


@given(st.text(st.sampled_from("a;=\t\n \"'-b"), max_size=12))
def test_spreadsheet_with_any_separator_finds_no_formula(cell: str) -> None:
    for line in encode_csv([("x", cell)]).decode().splitlines():
        for part in re.split("[;\t]", line):
            assert part.strip(' "')[:1] not in ("=", "-", "+", "@") or part.startswith("'")


async def test_slow_reader_loses_its_download(autojump_clock: trio.testing.MockClock) -> None:
    """Only the time in which it reads counts: a search may take as long as it needs."""
    rows = [("x" * 1024,)] * 64
    visit = cast(Visit, SimpleNamespace(parameters={}, request=SimpleNamespace(path="x.csv")))
    sent = 0

    async def read(add: Add[Cells]) -> None:
        for _ in range(100):
            await trio.sleep(10)
            await add(rows)

    async def send(data: bytes) -> None:
        nonlocal sent
        sent += len(data)
        await trio.sleep(seconds)

    seconds = 1.0
    await export("x", visit, ("x",), tuple, read).write(send)
    assert sent > 100 * 64 * 1024
    sent, seconds = 0, 29.0
    begun = trio.current_time()
    with pytest.raises(ClosingError, match="read too slowly"):
        await export("x", visit, ("x",), tuple, read).write(send)
    assert trio.current_time() - begun < 120


async def test_download_that_was_paused_for_long_ends_in_words(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The first part is sent although its time is over, because nothing has waited meanwhile."""
    visit = cast(Visit, SimpleNamespace(parameters={}, request=SimpleNamespace(path="x.csv")))

    async def read(add: Add[Cells]) -> None:
        for _ in range(2):
            await add([("x" * 1024,)] * 64)

    async def send(data: bytes) -> None:
        if autojump_clock.current_time() < 100:
            autojump_clock.jump(100)
            return
        await trio.lowlevel.checkpoint()

    with pytest.raises(ClosingError, match="read too slowly"):
        await export("x", visit, ("x",), tuple, read).write(send)
