from __future__ import annotations

import csv
from io import StringIO

import pytest

from authorizerd.daemon.console.exports import encode_csv


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@a", "\tx", "\rx"])
def test_cell_is_never_a_formula(cell: str) -> None:
    (row,) = csv.reader(StringIO(encode_csv([("a", cell)]).decode(), newline=""))
    assert row == ["a", "'" + cell]


@pytest.mark.parametrize("cell", ["", "a", 'a,"b"', "line\nfeed", "a=b", "\u202e", "*", "User:é"])
def test_other_cells_are_read_back_as_they_are(cell: str) -> None:
    data = encode_csv([("x", cell), (cell, "y")]).decode()
    assert [*csv.reader(StringIO(data, newline=""))] == [["x", cell], [cell, "y"]]
