"""The command ``authorizerd shell`` and the commands in it: all that Kafka's prints, and more."""

import io
import re
from pathlib import Path

import pytest

from authorizerd.cli.shell.commands import DONE, INVALID, NOT_FOUND, Shell
from authorizerd.cli.shell.log_tree import log_tree, read_contents
from authorizerd.cli.shell.tree import File, Folder, file_of, folder_of
from tests.support.daemon_process import write_config
from tests.support.log_files import added, removed, write_checkpoint, write_log
from tests.support.printed import run_main
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


@pytest.mark.parametrize(("words", "code"), [
    (["ls"], DONE),
    (["ls", "/a", "/none"], NOT_FOUND),
    (["cat", "/a/b"], DONE),
    (["cat", "/a"], NOT_FOUND),
    (["find", "/a/*", "/none"], NOT_FOUND),
    (["tree", "/none"], NOT_FOUND),
    (["ls", "-l"], INVALID),
    (["pwd"], INVALID),
    ([""], DONE),
])  # fmt: skip
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


ONE = "AAAAAAAAAAAAAAAAAAAAAQ"
TWO = "AAAAAAAAAAAAAAAAAAAAAg"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    write_log(tmp_path, [added(1)], [added(2)], [removed(1)])
    return tmp_path


@pytest.mark.parametrize(("words", "code", "printed"), [
    ("ls /acl/id", 0, f"{TWO}\n"),
    ("-- ls /acl/id", 0, f"{TWO}\n"),
    ("--as-of 3 ls /acl/id", 0, f"{ONE}\n{TWO}\n"),
    ("--as-of 2 ls /acl/id", 0, f"{ONE}\n"),
    ("ls /acl/{ONE}", 1, "ls: /acl/{ONE}: no such file or directory.\n"),
    ("ls -l", 2, "unrecognized arguments: '-l'\n"),
    ("cd /acl", 2, "invalid choice: 'cd' (choose from 'cat', 'find', 'ls', 'tree')\n"),
])  # fmt: skip
def test_one_command_is_run(log_dir: Path, words: str, code: int, printed: str) -> None:
    assert run_main("shell", "--log-dir", log_dir, *words.split(), code=code) == (printed, "")


@pytest.mark.parametrize(("lines", "code", "printed"), [
    ("", 0, ""),
    ("cd /acl\nls 'id'\n", 0, f"{TWO}\n"),
    ("pwd\nexit\nls\n", 0, "/\n"),
    ("ls none\npwd", 0, "ls: none: no such file or directory.\n/\n"),
    ("pwd\nls none\n", 1, "/\nls: none: no such file or directory.\n"),
    ("ls -l\n", 2, "unrecognized arguments: '-l'\n"),
    (" pwd\npwd\nhistory\n", 0, "/\n/\n    0  pwd\n    1  history\n"),
])  # fmt: skip
def test_commands_are_read_from_a_pipe(
    log_dir: Path, lines: str, code: int, printed: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    assert run_main("shell", "--log-dir", log_dir, code=code) == (printed, "")


def test_too_long_line_is_an_error(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("x" * 70_000))
    printed = run_main("shell", "--log-dir", log_dir, code=1)
    assert "expected lines of fewer than 65536 characters" in printed.err


def test_configuration_names_the_log(log_dir: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path, log_dir)
    assert run_main("shell", "--config", config, "ls", "/acl/id").out == f"{TWO}\n"


@pytest.mark.parametrize("flag", ["-s", "--snapshot", "--log-dir"])
def test_checkpoint_is_read_by_either_flag(flag: str, tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path, 10, [added(1)])
    assert run_main("shell", flag, path, "ls", "/acl/id").out == f"{ONE}\n"


def test_unread_records_are_reported(tmp_path: Path) -> None:
    write_log(tmp_path, [bytes((1, 99, 0, 0))])
    assert run_main("shell", "--log-dir", tmp_path, "ls", "/acl/id") == (
        "",
        "authorizerd: records that this version cannot read are not shown: type 99\n",
    )


@pytest.mark.parametrize(("words", "code", "text"), [
    ("ls", 2, "expected --log-dir DIR"),
    ("--log-dir {log} --snapshot {log} ls", 2, "found both"),
    ("--bootstrap-server h:1 --log-dir {log} ls", 2, "--log-dir: expected either --boot"),
    ("--command-config f --log-dir {log} ls", 2, "--command-config: expected --boot"),
    ("--bootstrap-server h:1 --as-of 1 ls", 2, "--as-of: expected a log"),
    ("--override a=b --log-dir {log} ls", 2, "--override: expected --config as well"),
    ("--as-of yesterday --log-dir {log} ls", 2, "--as-of"),
    ("--as-of 9 --log-dir {log} ls", 1, "offset 9 is in the future"),
    ("--log-dir {log}/none ls", 1, "none"),
    ("-s {log}/__cluster_metadata-0/00000000000000000000.log ls", 1, "expected a log dir"),
])  # fmt: skip
def test_unusable_source_is_an_error(log_dir: Path, words: str, code: int, text: str) -> None:
    assert text in run_main("shell", *words.format(log=log_dir).split(), code=code).err
