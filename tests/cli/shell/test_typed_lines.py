"""Lines that users type: their words and wildcards, and the columns of names that ``ls`` prints."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.cli.shell.commands import lay_out
from authorizerd.cli.shell.conversation import split_line
from authorizerd.cli.shell.tree import compile_glob, file_of, find_matches, folder_of, resolve


@pytest.mark.parametrize(("line", "words"), [
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
])  # fmt: skip
def test_quotes_and_backslashes_keep_characters_together(line: str, words: list[str]) -> None:
    assert split_line(line) == words


@given(st.text("a '\"\\\t"))
def test_no_line_fails_and_no_word_is_empty(line: str) -> None:
    assert all(split_line(line))


@pytest.mark.parametrize(("glob", "matched", "others"), [
    ("*", ["", "a", ".b"], ["a\n"]),
    ("a?c", ["abc", "a.c", "a\U0001f600c"], ["ac", "abbc", "a\nc"]),
    ("{a,bc}x", ["ax", "bcx"], ["x", "ab"]),
    ("{,a}x", ["x", "ax"], ["aax"]),
    ("{a}", ["a"], ["{a}"]),
    ("a,}*", ["a,}", "a,}b"], ["a"]),
    (r"\**", ["*", "*a"], ["a"]),
    (r"a\?*", ["a?"], ["ab"]),
    (r"{a\,b,c}", ["a,b", "c"], ["a", "b"]),
    ("*\\", ["a\\"], ["a"]),
    ("(a|b)*", ["(a|b)"], ["a", "b"]),
    ("[a]$^.+*", ["[a]$^.+"], ["a"]),
])  # fmt: skip
def test_glob_matches_whole_names(glob: str, matched: list[str], others: list[str]) -> None:
    pattern = compile_glob(glob)
    assert pattern is not None
    assert [name for name in matched + others if pattern.fullmatch(name)] == matched


@pytest.mark.parametrize("glob", ["", "a", "a,b", "a}", r"\*", "{a", "{a,{b}}", "a{*"])
def test_name_without_a_valid_wildcard_stands_for_itself(glob: str) -> None:
    assert compile_glob(glob) is None


@given(st.text("ab*?", max_size=6), st.text("abc", max_size=6))
def test_glob_agrees_with_a_plain_matcher(glob: str, name: str) -> None:
    def matches(glob: str, name: str) -> bool:
        if not glob:
            return not name
        if glob[0] == "*":
            return any(matches(glob[1:], name[start:]) for start in range(len(name) + 1))
        return bool(name) and glob[0] in ("?", name[0]) and matches(glob[1:], name[1:])

    pattern = compile_glob(glob)
    found = name == glob if pattern is None else pattern.fullmatch(name) is not None
    assert found == matches(glob, name)


@pytest.mark.parametrize(("directory", "path", "names"), [
    ("/", "/", []),
    ("/", "", []),
    ("/a/b", "", ["a", "b"]),
    ("/a/b", "..", ["a"]),
    ("/a", "../../..", []),
    ("/a", "/b//c/", ["b", "c"]),
    ("/a", "./b/.././c", ["a", "c"]),
    ("/a", "...", ["a", "..."]),
])  # fmt: skip
def test_path_begins_at_the_working_directory(directory: str, path: str, names: list[str]) -> None:
    assert resolve(directory, path) == names


def test_name_without_wildcards_does_not_list_its_folder() -> None:
    """A folder may have 500,000 names."""
    folder = folder_of({"a": lambda: file_of("text")})
    folder.names = None  # type: ignore[method-assign, assignment]  # a call would fail
    assert [match.names for match in find_matches(folder, ["a"])] == [("a",)]


@pytest.mark.parametrize(("names", "width", "lines"), [
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
])  # fmt: skip
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
