"""Wildcards in paths, against a plain matcher that tries every way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.cli.shell.tree import compile_glob, file_of, find_matches, folder_of, resolve


@pytest.mark.parametrize(
    ("glob", "matched", "others"),
    [
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
    ],
)
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


@pytest.mark.parametrize(
    ("directory", "path", "names"),
    [
        ("/", "/", []),
        ("/", "", []),
        ("/a/b", "", ["a", "b"]),
        ("/a/b", "..", ["a"]),
        ("/a", "../../..", []),
        ("/a", "/b//c/", ["b", "c"]),
        ("/a", "./b/.././c", ["a", "c"]),
        ("/a", "...", ["a", "..."]),
    ],
)
def test_path_begins_at_the_working_directory(directory: str, path: str, names: list[str]) -> None:
    assert resolve(directory, path) == names


def test_name_without_wildcards_does_not_list_its_folder() -> None:
    """A folder may have 500,000 names."""
    folder = folder_of({"a": lambda: file_of("text")})
    folder.names = None  # type: ignore[method-assign, assignment]  # a call would fail
    assert [match.names for match in find_matches(folder, ["a"])] == [("a",)]
