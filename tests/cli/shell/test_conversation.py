"""Conversations on a terminal: the lines that users type, completion, and the history file."""

import builtins
import signal
import stat
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.cli.errors import CommandError
from authorizerd.cli.program import ending
from authorizerd.cli.shell.commands import Shell, lay_out
from authorizerd.cli.shell.conversation import (
    CANDIDATES_MAX,
    HISTORY_LINES_MAX,
    complete,
    converse,
    find_history_file,
    read_history,
    split_line,
    write_history,
)
from authorizerd.cli.shell.tree import (
    Folder,
    compile_glob,
    file_of,
    find_matches,
    folder_of,
    resolve,
    table_of,
)


def tree() -> Folder:
    names = ("ab", "ac", "b c", "d\x1b", "\U0001f600")
    return folder_of(
        {
            "dir": lambda: folder_of({name: lambda: file_of("") for name in names}),
            "file": lambda: file_of("text"),
        }
    )


def new_shell(printed: list[str] | None = None) -> Shell:
    lines: list[str] = [] if printed is None else printed
    return Shell(tree(), lines.append, is_interactive=True)


@pytest.mark.parametrize(("line", "candidates"), [
    ("l", ["ls "]),
    ("h", ["help ", "history "]),
    ("x", []),
    ("man c", ["cat", "cd"]),
    ("nope /d", []),
    ("pwd /d", []),
    ("ls d", ["dir/"]),
    ("ls /d", ["/dir/"]),
    ("ls f", ["file "]),
    ("ls dir/a", ["dir/ab ", "dir/ac "]),
    ("ls dir/../dir/ab", ["dir/../dir/ab "]),
    ("ls dir/\U0001f600", ["dir/\U0001f600 "]),
    # readline ends words at blanks, and would print escape sequences.
    ("ls dir/b", []),
    ("ls dir/d", []),
    ("ls none/a", []),
    ("ls file/a", []),
    ("cat file d", ["dir/"]),
])  # fmt: skip
def test_word_is_completed(line: str, candidates: list[str]) -> None:
    *words, prefix = line.split(" ")
    assert complete(new_shell(), words, prefix) == candidates


def test_candidates_are_bounded() -> None:
    names = {f"a{number}": "" for number in range(CANDIDATES_MAX + 5)}
    shell = Shell(table_of(names), lambda _: None, is_interactive=True)
    assert len(complete(shell, ["ls"], "a")) == CANDIDATES_MAX


def test_path_is_completed_from_the_working_directory() -> None:
    shell = new_shell()
    shell.run(["cd", "dir"])
    assert complete(shell, ["cat"], "a") == ["ab ", "ac "]
    assert complete(shell, ["cat"], "") == ["ab ", "ac ", "\U0001f600 "]


@pytest.mark.parametrize(("environment", "path"), [
    ({"XDG_STATE_HOME": "/state"}, Path("/state/authorizerd/shell_history")),
    ({}, Path.home() / ".local/state/authorizerd/shell_history"),
    ({"XDG_STATE_HOME": "relative"}, Path.home() / ".local/state/authorizerd/shell_history"),
])  # fmt: skip
def test_history_is_in_the_state_directory(environment: dict[str, str], path: Path) -> None:
    assert find_history_file(environment) == path


def test_history_is_bounded_and_private(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "history"
    lines = [f"cat {number}" for number in range(HISTORY_LINES_MAX + 5)]
    write_history(path, lines)
    write_history(path, [*lines[1:], "last"])
    assert read_history(path) == [*lines[6:], "last"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [each.name for each in path.parent.iterdir()] == ["history"]


def test_history_file_of_another_program_is_read_with_care(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_bytes(b"ls\n\n\x1b[2J\n\xff\nold " + b"x" * 2_000_000)
    found = read_history(path)
    assert found[:2] == ["ls", "\ufffd"]
    assert sum(map(len, found)) < 1_100_000


def test_unusable_history_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.touch()
    write_history(file / "history", ["ls"])
    assert read_history(tmp_path) == []
    assert read_history(tmp_path / "none") == []
    warnings = capsys.readouterr().err
    assert "cannot save the history" in warnings
    assert "cannot read the history" in warnings


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> list[str | BaseException]:
    """Return the lines that are typed; an exception is raised in place of one."""
    lines: list[str | BaseException] = []

    def answer(_: str) -> str:
        line = lines.pop(0) if lines else EOFError()
        if isinstance(line, BaseException):
            raise line
        return line

    monkeypatch.setattr(builtins, "input", answer)
    # As on a machine without readline.
    monkeypatch.setitem(sys.modules, "readline", None)
    return lines


def test_ctrl_c_drops_a_line_and_ctrl_d_leaves(typed: list[str | BaseException]) -> None:
    printed: list[str] = []
    typed += ["pwd", KeyboardInterrupt(), "cat file", EOFError(), "pwd"]
    assert converse(new_shell(printed), "the log", lambda: 80) == 0
    assert printed == ["[ the log. Type help for the commands. ]\n", "/\n", "^C\n", "text\n", "\n"]
    assert typed == ["pwd"]


def test_sigterm_ends_a_conversation(
    typed: list[str | BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The handler of SIGTERM raises what that of SIGINT raises."""
    monkeypatch.setattr(ending, "_received", [signal.SIGTERM])
    typed += [KeyboardInterrupt(), "pwd"]
    with pytest.raises(KeyboardInterrupt):
        converse(new_shell([]), "the log", lambda: 80)
    assert typed == ["pwd"]


def test_exit_leaves(typed: list[str | BaseException]) -> None:
    printed: list[str] = []
    typed += ["exit", "pwd"]
    assert converse(new_shell(printed), "the log", lambda: 80) == 0
    assert typed == ["pwd"]


def test_names_fill_the_width_of_the_terminal(typed: list[str | BaseException]) -> None:
    printed: list[str] = []
    typed += ["ls"]
    converse(new_shell(printed), "the log", lambda: 80)
    assert printed[1] == "dir  file\n"


def test_broker_that_fails_does_not_end_the_conversation(
    typed: list[str | BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> Folder:
        raise CommandError("no broker answers")

    printed: list[str] = []
    shell = Shell(folder_of({"a": fail}), printed.append, is_interactive=True)
    typed += ["ls a", "pwd"]
    converse(shell, "the log", lambda: 80)
    assert printed[1:] == ["/\n", "\n"]
    assert capsys.readouterr().err == "authorizerd: no broker answers\n"


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
def test_names_fill_columns_downwards(
    names: list[str], width: int | None, lines: list[str]
) -> None:
    assert list(lay_out(names, width)) == lines


@given(st.lists(st.text("ab", min_size=1, max_size=9)), st.none() | st.integers(0, 60))
def test_no_name_is_lost_and_no_line_is_too_long(names: list[str], width: int | None) -> None:
    lines = list(lay_out(names, width))
    assert sorted(name for line in lines for name in line.split()) == sorted(names)
    longest = max(map(len, names), default=0)
    assert all(len(line) <= max(width or 0, longest) for line in lines)
