"""The shell's commands on the log of a real broker: all that Kafka's shell prints, and more."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from authorizerd.cli.shell.commands import DONE, INVALID, NOT_FOUND, Shell
from authorizerd.cli.shell.log_tree import log_tree, read_contents
from authorizerd.cli.shell.tree import File, Folder, file_of, folder_of
from tests.support.shell_transcript import converse, expect_ours, read_transcript

TRANSCRIPT = Path(__file__).with_name("transcript.txt")
"""What Kafka 4.3.1's shell prints for the newest checkpoint of ``real_log_dir``."""
NEWEST = "__cluster_metadata-0/00000000000000002807-0000000001.checkpoint"
HISTORY = [
    ("  cat x", ""),
    ("pwd", "/\n"),
    ("pwd ", "/\n"),
    ("ls /a", "b\n"),
    ("history 2", "    1  ls /a\n    2  history 2\n"),
    ("history", "    0  pwd\n    1  ls /a\n    2  history 2\n    3  history\n"),
    ("history -1", ""),
    ("history x", "argument numEntriesToShow: could not convert 'x' to Integer (For input string: "
     '"x")\n'),
    ("history 2147483648", "argument numEntriesToShow: could not convert '2147483648' to Integer "
     '(For input string: "2147483648")\n'),
]  # fmt: skip


@pytest.fixture(scope="module")
def root(real_log_dir: Path) -> Folder:
    return log_tree(read_contents(real_log_dir / NEWEST))


def small_tree() -> Folder:
    leaf = {"b": lambda: file_of("text")}
    return folder_of({"a": lambda: folder_of(leaf), "e": lambda: folder_of({})})


def test_shell_prints_what_kafkas_prints(root: Folder) -> None:
    transcript = read_transcript(TRANSCRIPT)
    ours = converse(root, [line for line, _ in transcript])
    found = [(line, answer) for (line, _), answer in zip(transcript, ours, strict=True)]
    assert found == [(line, expect_ours(printed)) for line, printed in transcript]


def test_history_has_what_was_entered() -> None:
    answers = converse(small_tree(), [line for line, _ in HISTORY])
    answers[0] = ""  # a line that begins with a blank is run, but not remembered
    assert answers == [answer for _, answer in HISTORY]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["ls"], DONE),
        (["ls", "/a", "/none"], NOT_FOUND),
        (["cat", "/a/b"], DONE),
        (["cat", "/a"], NOT_FOUND),
        (["find", "/a/*", "/none"], NOT_FOUND),
        (["tree", "/none"], NOT_FOUND),
        (["ls", "-l"], INVALID),
        (["pwd"], INVALID),
        ([""], DONE),
    ],
)
def test_exit_code_tells_whether_all_paths_were_found(words: list[str], code: int) -> None:
    """Kafka's shell exits with 0, whatever happens."""
    assert Shell(small_tree(), lambda _: None, is_interactive=False).run(words) == code


def test_commands_of_a_conversation_are_unknown_in_a_single_command() -> None:
    printed: list[str] = []
    Shell(small_tree(), printed.append, is_interactive=False).run(["cd", "/a"])
    assert printed == ["invalid choice: 'cd' (choose from 'cat', 'find', 'ls', 'tree')\n"]


def test_unprintable_characters_are_escaped() -> None:
    """A terminal would obey them: clear the screen, or show a name backwards."""
    name, text = "a\x1b[2J", "b\u202e\nc"
    root = folder_of({name: lambda: folder_of({text: lambda: File((text, "\x9b"))})})
    printed = "".join(converse(root, ["ls", "ls *", "find", "tree *", "cat *\x1b*/*"]))
    assert re.findall(r"[^\n -~]", printed) == []
    assert "a\\x1b[2J" in printed
    assert "b\\u202e\\nc" in printed


def test_names_are_shown_in_columns_on_a_terminal() -> None:
    printed: list[str] = []
    names = {name: lambda: file_of("") for name in ("a", "bb", "ccc", "dddd", "e")}
    shell = Shell(folder_of(names), printed.append, is_interactive=True)
    shell.width = 16
    shell.run(["ls"])
    assert printed == ["a   ccc   e\n", "bb  dddd  \n"]


def test_search_creates_no_file() -> None:
    """A log may have 500,000 ACLs."""

    def fail(name: str) -> File:
        raise AssertionError(name)

    files = Folder(lambda: ["b", "a"], fail, has_only_files=True)
    assert converse(folder_of({"f": lambda: files}), ["find /f"]) == ["/f\n/f/a\n/f/b\n"]


def test_help_and_man_name_every_command() -> None:
    helped, *explained = converse(
        small_tree(), ["help", *(f"man {name}" for name in Shell(
            small_tree(), lambda _: None, is_interactive=True).commands)]
    )  # fmt: skip
    for text in explained:
        name, _, sentence = text.partition("\n")[0].partition(": ")
        assert re.search(rf"^  {name} +{re.escape(sentence)}$", helped, re.MULTILINE)
        assert f"usage: {name}" in text


def test_flag_for_help_explains_the_command() -> None:
    by_flag, by_man = converse(small_tree(), ["ls -h", "man ls"])
    assert by_flag == by_man
