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
from tests.support.fixture_types import LogCapture, MonkeyPatch
from tests.support.printed import Printed, run_main


def make_token(*words: str | Path, code: int = 0) -> Printed:
    return run_main("token", *words, code=code)


def test_token_and_its_line_are_printed(tmp_path: Path) -> None:
    token, line = make_token("--principal", "User:a proxy").out.splitlines()
    path = tmp_path / "tokens"
    path.write_text(f"{line}\n")
    found = read_tokens(str(path)).find(token.encode())
    assert found is not None
    assert found.principal == "User:a proxy"


def test_append_adds_the_line_to_the_file_and_prints_only_the_token(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    first = make_token("--principal", "User:a", "--id", "a", "--append", path).out
    path.write_bytes(path.read_bytes().rstrip() + b"\n# the end")
    shown = [
        *first.splitlines(),
        *make_token("--principal", "User:b", "--append", path).out.splitlines(),
    ]
    tokens = read_tokens(str(path))
    found = [tokens.find(token.encode()) for token in shown]
    assert [token.principal for token in found if token is not None] == ["User:a", "User:b"]
    assert not any(token.partition(".")[2] in path.read_text() for token in shown)
    assert path.stat().st_mode & 0o002 == 0


def test_ids_and_secrets_are_random() -> None:
    first, second = (make_token("--principal", "User:a").out.splitlines()[0] for _ in range(2))
    for one, other in zip(first.split("."), second.split("."), strict=True):
        assert one != other


@pytest.mark.parametrize(("arguments", "reason"), [
    (("--principal", ""), "expected a principal Type:name, for example"),
    (("--principal", ":a"), "expected a principal Type:name, for example"),
    (("--principal", "User:*"), "expected one principal, found User:* (everyone)"),
    (("--principal", "User:a", "--id", "a b"), "expected an id of 1 to 64 letters"),
    (("--principal", "User:a", "--id", "a.b"), "expected an id of 1 to 64 letters"),
])  # fmt: skip
def test_invalid_id_or_principal_is_told_in_a_line(arguments: tuple[str, ...], reason: str) -> None:
    captured = make_token(*arguments, code=1)
    assert reason in captured.err
    assert len(captured.err.splitlines()) == 1
    assert captured.out == ""


def test_append_never_makes_a_file_invalid(tmp_path: Path) -> None:
    path, other, absent = (tmp_path / name for name in ("tokens", "properties", "none/tokens"))
    words = ("--principal", "User:a", "--id", "a", "--append")
    make_token(*words, path)
    other.write_text("node.id=1\n")
    for file, said in (
        (path, f"{path}:2: the id a occurs in an earlier line"),
        (other, f"{other}:1: expected an id of 1 to 64 letters, digits, - and _"),
        (absent, f"--append: {absent}: No such file or directory"),
    ):
        before = file.read_bytes() if file.exists() else None
        assert make_token(*words, file, code=1) == ("", f"authorizerd: {said}\n")
        assert (file.read_bytes() if file.exists() else None) == before


def test_append_refuses_a_file_that_every_user_may_write(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.touch()
    path.chmod(0o666)
    captured = make_token("--principal", "User:a", "--append", str(path), code=1)
    assert "writable by all users" in captured.err
    assert captured.out == path.read_text() == ""


@pytest.mark.parametrize(("given", "principal"), [
    ("rest-bridge", "Service:rest-bridge"),
    ("a proxy", "Service:a proxy"),
    ("User:a", "User:a"),
    ("Service:a", "Service:a"),
])  # fmt: skip
def test_name_without_a_type_is_no_user_of_kafka(given: str, principal: str) -> None:
    assert make_token("--principal", given).out.splitlines()[1].split(" ", 2)[2] == principal


def test_principal_that_is_probably_not_meant_is_warned_of() -> None:
    captured = make_token("--principal", "user:a")
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


def test_settings_that_are_probably_not_meant_are_warned_of(caplog: LogCapture) -> None:
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


def test_missing_libraries_are_named_with_the_pip_command(monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "find_spec", lambda _: None)
    monkeypatch.setattr(os, "execv", lambda *_: pytest.fail("replay was started"))
    assert run_main("replay", "ingest", code=1).err == (
        "authorizerd: replay: not installed: jinja2, pyarrow, yaml. Run: "
        f"{sys.executable} -m pip install 'authorizerd[replay-local]'"
        " ('authorizerd[replay]' has Spark as well)\n"
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
