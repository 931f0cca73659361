"""``authorizerd token``: it prints the token once, and stores only the hash."""

from __future__ import annotations

from pathlib import Path

import pytest

from authorizerd.cli.main import main
from authorizerd.daemon.decisions.token_file import read_tokens


def run(*arguments: str) -> int:
    return main(["token", *arguments])


def test_token_and_its_line_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--principal", "User:a proxy") == 0
    token, line = capsys.readouterr().out.splitlines()
    path = tmp_path / "tokens"
    path.write_text(f"{line}\n")
    found = read_tokens(str(path)).find(token.encode())
    assert found is not None
    assert found.principal == "User:a proxy"


def test_append_adds_the_line_to_the_file_and_prints_only_the_token(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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


def test_ids_and_secrets_are_random(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert run("--principal", "User:a") == 0
    first, _, second, _ = capsys.readouterr().out.splitlines()
    for one, other in zip(first.split("."), second.split("."), strict=True):
        assert one != other


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--principal", ""), "expected a principal Type:name, for example"),
        (("--principal", ":a"), "expected a principal Type:name, for example"),
        (("--principal", "User:*"), "expected one principal, found User:* (everyone)"),
        (("--principal", "User:a", "--id", "a b"), "expected an id of 1 to 64 letters"),
        (("--principal", "User:a", "--id", "a.b"), "expected an id of 1 to 64 letters"),
    ],
)
def test_invalid_id_or_principal_is_rejected_in_one_line(
    arguments: tuple[str, ...], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == 1
    captured = capsys.readouterr()
    assert reason in captured.err
    assert len(captured.err.splitlines()) == 1
    assert captured.out == ""


def test_append_never_makes_a_file_invalid(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
        f"{path}:2: the id a occurs in an earlier line",
        f"{other}:1: expected an id of 1 to 64 letters, digits, - and _",
        f"--append: {tmp_path / 'none' / 'tokens'}: No such file or directory",
    ]


def test_append_refuses_a_file_that_every_user_may_write(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tokens"
    path.touch()
    path.chmod(0o666)
    assert run("--principal", "User:a", "--append", str(path)) == 1
    captured = capsys.readouterr()
    assert "everybody may write to it" in captured.err
    assert captured.out == path.read_text() == ""


@pytest.mark.parametrize(
    ("given", "principal"),
    [
        ("rest-bridge", "Service:rest-bridge"),
        ("a proxy", "Service:a proxy"),
        ("User:a", "User:a"),
        ("Service:a", "Service:a"),
    ],
)
def test_name_without_a_type_is_no_user_of_kafka(
    given: str, principal: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--principal", given) == 0
    line = capsys.readouterr().out.splitlines()[1]
    assert line.split(" ", 2)[2] == principal


def test_principal_that_is_probably_not_meant_is_warned_of(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("--principal", "user:a") == 0
    captured = capsys.readouterr()
    assert captured.err == (
        "authorizerd: warning: principal 'user:a': Kafka's clients have the type User, in this"
        " letter case\n"
    )
    assert captured.out.splitlines()[1].endswith(" user:a")
