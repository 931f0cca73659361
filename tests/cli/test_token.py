"""``authorizerd token``: one is made, shown once, and found by its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from authorizerd.cli.main import main
from authorizerd.daemon.decisions.token_file import read_tokens


def run(*arguments: str) -> int:
    return main(["token", *arguments])


def test_without_a_file_token_and_line_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line is ready to be put into the file."""
    assert run("--principal", "User:a proxy") == 0
    token, line = capsys.readouterr().out.splitlines()
    path = tmp_path / "tokens"
    path.write_text(f"{line}\n")
    found = read_tokens(str(path)).find(token.encode())
    assert found is not None
    assert found.principal == "User:a proxy"


def test_a_file_gets_the_line_and_the_terminal_the_token(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What stood there stays, a last line without an end included; nobody else may write."""
    path = tmp_path / "tokens"
    assert run("--principal", "User:a", "--id", "a", "--append", str(path)) == 0
    path.write_bytes(path.read_bytes().rstrip() + b"\n# the end")
    assert run("--principal", "User:b", "--append", str(path)) == 0
    tokens = read_tokens(str(path))
    shown = capsys.readouterr().out.splitlines()
    found = [tokens.find(token.encode()) for token in shown]
    assert [token.principal for token in found if token is not None] == ["User:a", "User:b"]
    assert not any(token.partition(".")[2] in path.read_text() for token in shown)
    assert path.stat().st_mode & 0o002 == 0


def test_no_two_tokens_are_alike(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither the ids nor the secrets."""
    for _ in range(2):
        assert run("--principal", "User:a") == 0
    first, _, second, _ = capsys.readouterr().out.splitlines()
    for one, other in zip(first.split("."), second.split("."), strict=True):
        assert one != other


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--principal", "a"), "expected a principal Type:name, for example"),
        (("--principal", "User:*"), "User:* stands for everyone: name one principal"),
        (("--principal", "User:a", "--id", "a b"), "expected an id of 1 to 64 letters"),
        (("--principal", "User:a", "--id", "a.b"), "expected an id of 1 to 64 letters"),
    ],
)
def test_what_the_file_could_not_hold_is_refused(
    arguments: tuple[str, ...], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line, and no token is shown."""
    assert run(*arguments) == 1
    captured = capsys.readouterr()
    assert reason in captured.err
    assert len(captured.err.splitlines()) == 1
    assert captured.out == ""


def test_a_file_that_would_not_be_good_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An id that stands there, a file of something else, a folder that is not there."""
    path = tmp_path / "tokens"
    assert run("--principal", "User:a", "--id", "a", "--append", str(path)) == 0
    before = path.read_bytes()
    assert run("--principal", "User:a", "--id", "a", "--append", str(path)) == 1
    assert path.read_bytes() == before
    other = tmp_path / "server.properties"
    other.write_text("node.id=1\n")
    assert run("--principal", "User:a", "--append", str(other)) == 1
    assert other.read_text() == "node.id=1\n"
    assert run("--principal", "User:a", "--append", str(tmp_path / "none" / "tokens")) == 1
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 1
    assert [line.partition("authorizerd: ")[2] for line in captured.err.splitlines()] == [
        f"{path}:2: the id a is used in an earlier line too",
        f"{other}:1: expected an id of 1 to 64 letters, digits, - and _",
        f"--append: {tmp_path / 'none' / 'tokens'}: No such file or directory",
    ]


def test_a_file_that_everybody_may_write_to_gets_no_token(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The daemon would not take it."""
    path = tmp_path / "tokens"
    path.touch()
    path.chmod(0o666)
    assert run("--principal", "User:a", "--append", str(path)) == 1
    captured = capsys.readouterr()
    assert "everybody may write to it" in captured.err
    assert captured.out == path.read_text() == ""
