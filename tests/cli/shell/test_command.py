"""The command ``authorizerd shell``: its flags, single commands, and commands from a pipe."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from authorizerd.cli.main import main
from tests.support.daemon_process import write_config
from tests.support.log_files import added, removed, write_checkpoint, write_log

ONE = "AAAAAAAAAAAAAAAAAAAAAQ"
TWO = "AAAAAAAAAAAAAAAAAAAAAg"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    write_log(tmp_path, [added(1)], [added(2)], [removed(1)])
    return tmp_path


Printed = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("words", "code", "printed"),
    [
        ("ls /acl/id", 0, f"{TWO}\n"),
        ("-- ls /acl/id", 0, f"{TWO}\n"),
        ("--as-of 3 ls /acl/id", 0, f"{ONE}\n{TWO}\n"),
        ("--as-of 2 ls /acl/id", 0, f"{ONE}\n"),
        ("ls /acl/{ONE}", 1, "ls: /acl/{ONE}: no such file or directory.\n"),
        ("ls -l", 2, "unrecognized arguments: '-l'\n"),
        ("cd /acl", 2, "invalid choice: 'cd' (choose from 'cat', 'find', 'ls', 'tree')\n"),
    ],
)
def test_one_command_is_run(
    log_dir: Path, words: str, code: int, printed: str, capsys: Printed
) -> None:
    assert main(["shell", "--log-dir", str(log_dir), *words.split()]) == code
    assert capsys.readouterr() == (printed, "")


@pytest.mark.parametrize(
    ("lines", "code", "printed"),
    [
        ("", 0, ""),
        ("cd /acl\nls 'id'\n", 0, f"{TWO}\n"),
        ("pwd\nexit\nls\n", 0, "/\n"),
        ("ls none\npwd", 0, "ls: none: no such file or directory.\n/\n"),
        ("pwd\nls none\n", 1, "/\nls: none: no such file or directory.\n"),
        ("ls -l\n", 2, "unrecognized arguments: '-l'\n"),
        (" pwd\npwd\nhistory\n", 0, "/\n/\n    0  pwd\n    1  history\n"),
    ],
)
def test_commands_are_read_from_a_pipe(
    log_dir: Path,
    lines: str,
    code: int,
    printed: str,
    capsys: Printed,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    assert main(["shell", "--log-dir", str(log_dir)]) == code
    assert capsys.readouterr() == (printed, "")


def test_too_long_line_is_an_error(
    log_dir: Path, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("x" * 70_000))
    assert main(["shell", "--log-dir", str(log_dir)]) == 1
    assert "expected lines of less than 65536 characters" in capsys.readouterr().err


def test_configuration_names_the_log(log_dir: Path, tmp_path: Path, capsys: Printed) -> None:
    config = write_config(tmp_path, log_dir)
    assert main(["shell", "--config", str(config), "ls", "/acl/id"]) == 0
    assert capsys.readouterr().out == f"{TWO}\n"


def test_checkpoint_is_read_by_either_flag(tmp_path: Path, capsys: Printed) -> None:
    path = str(write_checkpoint(tmp_path, 10, [added(1)]))
    for flag in ("-s", "--snapshot", "--log-dir"):
        assert main(["shell", flag, path, "ls", "/acl/id"]) == 0
    assert capsys.readouterr().out == f"{ONE}\n" * 3


def test_unread_records_are_reported(tmp_path: Path, capsys: Printed) -> None:
    write_log(tmp_path, [bytes((1, 99, 0, 0))])
    assert main(["shell", "--log-dir", str(tmp_path), "ls", "/acl/id"]) == 0
    assert capsys.readouterr() == (
        "",
        "authorizerd: records that this version cannot read are not shown: type 99\n",
    )


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
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
    ],
)
def test_unusable_source_is_an_error(
    log_dir: Path, words: str, code: int, text: str, capsys: Printed
) -> None:
    try:
        ended = main(["shell", *words.format(log=log_dir).split()])
    except SystemExit as end:
        ended = int(str(end.code))
    assert ended == code
    assert text in capsys.readouterr().err
