"""The columns of ``ls``."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.cli.shell.commands import lay_out


@pytest.mark.parametrize(
    ("names", "width", "lines"),
    [
        ([], 80, []),
        (["a", "b"], None, ["a", "b"]),
        (["a", "b"], 0, ["a", "b"]),
        (["a", "b"], 7, ["a", "b"]),
        (["a", "b"], 8, ["a  b"]),
        (["abc", "d", "e"], 8, ["abc  e", "d    "]),
        (["a", "bcd", "e", "f"], 80, ["a  bcd  e  f"]),
        (["abcdefgh", "i"], 8, ["abcdefgh", "i"]),
        # Three columns would leave the last one empty.
        (["a", "b", "c", "d"], 12, ["a  c", "b  d"]),
    ],
)
def test_names_fill_columns_from_top_to_bottom(
    names: list[str], width: int | None, lines: list[str]
) -> None:
    assert list(lay_out(names, width)) == lines


@given(st.lists(st.text("ab", min_size=1, max_size=9)), st.none() | st.integers(0, 60))
def test_no_name_is_lost_and_no_line_is_too_long(names: list[str], width: int | None) -> None:
    lines = list(lay_out(names, width))
    assert sorted(name for line in lines for name in line.split()) == sorted(names)
    longest = max(map(len, names), default=0)
    assert all(len(line) <= max(width or 0, longest) for line in lines)
