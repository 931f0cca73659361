"""``token``, ``replay``, and the warnings of ``serve``. (tests/end_to_end runs it.)"""

import os
import sys
from pathlib import Path

import pytest

from authorizerd.cli import commands
from authorizerd.cli.main import main
from authorizerd.cli.serve import warn_of
from authorizerd.config.configuration import parse
from authorizerd.daemon.decisions.token_file import read_tokens
from tests.support.fixture_types import Capture, LogCapture, MonkeyPatch


def run(*arguments: str) -> int:
    return main(["token", *arguments])


def test_token_and_its_line_are_printed(tmp_path: Path, capsys: Capture) -> None:
    assert run("--principal", "User:a proxy") == 0
    token, line = capsys.readouterr().out.splitlines()
    path = tmp_path / "tokens"
    path.write_text(f"{line}\n")
    found = read_tokens(str(path)).find(token.encode())
    assert found is not None
    assert found.principal == "User:a proxy"


def test_append_adds_the_line_to_the_file_and_prints_only_the_token(
    tmp_path: Path, capsys: Capture
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


def test_ids_and_secrets_are_random(capsys: Capture) -> None:
    for _ in range(2):
        assert run("--principal", "User:a") == 0
    first, _, second, _ = capsys.readouterr().out.splitlines()
    for one, other in zip(first.split("."), second.split("."), strict=True):
        assert one != other


@pytest.mark.parametrize(("arguments", "reason"), [
    (("--principal", ""), "expected a principal Type:name, for example"),
    (("--principal", ":a"), "expected a principal Type:name, for example"),
    (("--principal", "User:*"), "expected one principal, found User:* (everyone)"),
    (("--principal", "User:a", "--id", "a b"), "expected an id of 1 to 64 letters"),
    (("--principal", "User:a", "--id", "a.b"), "expected an id of 1 to 64 letters"),
])  # fmt: skip
def test_invalid_id_or_principal_is_rejected_in_one_line(
    arguments: tuple[str, ...], reason: str, capsys: Capture
) -> None:
    assert run(*arguments) == 1
    captured = capsys.readouterr()
    assert reason in captured.err
    assert len(captured.err.splitlines()) == 1
    assert captured.out == ""


def test_append_never_makes_a_file_invalid(tmp_path: Path, capsys: Capture) -> None:
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


def test_append_refuses_a_file_that_every_user_may_write(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "tokens"
    path.touch()
    path.chmod(0o666)
    assert run("--principal", "User:a", "--append", str(path)) == 1
    captured = capsys.readouterr()
    assert "everybody may write to it" in captured.err
    assert captured.out == path.read_text() == ""


@pytest.mark.parametrize(("given", "principal"), [
    ("rest-bridge", "Service:rest-bridge"),
    ("a proxy", "Service:a proxy"),
    ("User:a", "User:a"),
    ("Service:a", "Service:a"),
])  # fmt: skip
def test_name_without_a_type_is_no_user_of_kafka(
    given: str, principal: str, capsys: Capture
) -> None:
    assert run("--principal", given) == 0
    assert capsys.readouterr().out.splitlines()[1].split(" ", 2)[2] == principal


def test_principal_that_is_probably_not_meant_is_warned_of(
    capsys: Capture,
) -> None:
    assert run("--principal", "user:a") == 0
    captured = capsys.readouterr()
    assert captured.err == (
        "authorizerd: warning: principal 'user:a': Kafka's clients have the type User, in this"
        " letter case\n"
    )
    assert captured.out.splitlines()[1].endswith(" user:a")


FOLLOWING = """\
log.dirs=/d
controller.quorum.bootstrap.servers=c:1
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:SSL,PLAINTEXT:PLAINTEXT
listener.name.controller.ssl.keystore.location={path}
listener.name.controller.ssl.keystore.type=PEM
"""
SERVING = """\
node.id=1
log.dirs=/d
listeners=SSL://127.0.0.1:0
ssl.keystore.location={path}
ssl.keystore.type=PEM
authorizerd.decision.http=https://127.0.0.1:0
authorizerd.http.ssl.keystore.location={path}
authorizerd.http.ssl.keystore.type=PEM
"""


@pytest.mark.parametrize("text", [FOLLOWING, SERVING], ids=["following", "serving"])
@pytest.mark.parametrize(("mode", "warnings"), [(0o644, 1), (0o640, 0), (0o602, 0)])
def test_keystore_that_everybody_may_read_is_warned_of(
    tmp_path: Path, caplog: LogCapture, text: str, mode: int, warnings: int
) -> None:
    """Once, even if several ports use it."""
    keystore = tmp_path / "keystore.pem"
    keystore.touch()
    keystore.chmod(mode)
    warn_of(parse(text.format(path=keystore), source="server.properties"))
    assert caplog.text.count(f"{keystore}: every user may read the private key") == warnings


def test_settings_that_are_probably_not_meant_are_warned_of(
    caplog: LogCapture,
) -> None:
    """The daemon uses them as they are."""
    text = "node.id=1\nlog.dirs=/d\nsuper.users=User:a,User:b\nlistener=x\n"
    warn_of(parse(text, source="server.properties"))
    assert [record.getMessage() for record in caplog.records] == [
        "unsupported keys are ignored: listener (did you mean listeners?)",
        "super.users: 'User:a,User:b' is one principal: separate entries by semicolons",
    ]


def test_tokens_in_the_clear_are_warned_of(caplog: LogCapture) -> None:
    text = "node.id=1\nlog.dirs=/log\nauthorizerd.tokens.file=/tokens\n"
    for address, is_warned in (("127.0.0.1", False), ("0.0.0.0", True)):
        caplog.clear()
        warn_of(parse(f"{text}authorizerd.decision.http=http://{address}:0", source="test"))
        assert ("tokens travel in the clear" in caplog.text) is is_warned


class Replaced(Exception):
    """Raised where the process would be replaced."""


def test_process_becomes_replay_with_the_same_words(monkeypatch: MonkeyPatch) -> None:
    became: list[tuple[str, list[str]]] = []

    def execv(path: str, words: list[str]) -> None:
        became.append((path, words))
        raise Replaced

    monkeypatch.setattr(os, "execv", execv)
    with pytest.raises(Replaced):
        main(["replay", "ingest", "--input", "a b", "--help"])
    words = [sys.executable, "-P", "-m", "authorizerd.replay", "ingest", "--input", "a b", "--help"]
    assert became == [(sys.executable, words)]


def test_missing_libraries_are_named_with_the_pip_command(
    monkeypatch: MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(commands, "find_spec", lambda _: None)
    monkeypatch.setattr(os, "execv", lambda *_: pytest.fail("replay was started"))
    assert main(["replay", "ingest"]) == 1
    assert capsys.readouterr().err == (
        "authorizerd: replay: not installed: jinja2, pandas, pyarrow, yaml. Run: "
        f"{sys.executable} -m pip install 'authorizerd[replay]'\n"
    )


@pytest.mark.parametrize("command", ["usage", "whatif"])
def test_local_engine_starts_without_the_extra(command: str, monkeypatch: MonkeyPatch) -> None:
    """It reads audit logs without these libraries."""

    def execv(path: str, words: list[str]) -> None:
        raise Replaced

    monkeypatch.setattr(commands, "find_spec", lambda _: None)
    monkeypatch.setattr(os, "execv", execv)
    with pytest.raises(Replaced):
        main(["replay", command, "--logs", "audit.log"])
