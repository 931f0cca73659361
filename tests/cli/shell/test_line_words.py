"""Words of a typed line, as JLine splits it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.cli.shell.conversation import split_line


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", []),
        (" ls  /a\t/b ", ["ls", "/a", "/b"]),
        ("cat 'a b' \"c d\"", ["cat", "a b", "c d"]),
        ("cat '' \"\"", ["cat"]),
        ("cat 'a'b", ["cat", "ab"]),
        ("cat a'b c'd", ["cat", "a'b c'd"]),
        ("cat 'a \"b", ["cat", 'a "b']),
        (r"cat a\ b a\\b \'", ["cat", "a b", r"a\b", "'"]),
        (r"cat 'a\'b' 'a\b'", ["cat", "a'b", "ab"]),
        ("cat a\\", ["cat", "a"]),
    ],
)
def test_quotes_and_backslashes_keep_characters_together(line: str, words: list[str]) -> None:
    assert split_line(line) == words


@given(st.text("a '\"\\\t"))
def test_no_line_fails_and_no_word_is_empty(line: str) -> None:
    assert all(split_line(line))
