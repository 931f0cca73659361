"""The profile: which cluster commands ask if no flag names a place."""

from pathlib import Path

import msgspec
import pytest

from authorizerd.cli.errors import CommandError
from authorizerd.cli.profile import VARIABLE, find_profile, use_profile
from tests.support.log_files import added, write_log
from tests.support.printed import run_main

TIMES = "request.timeout.ms=50\ndefault.api.timeout.ms=50\n"
PASSWORD = "sasl.jaas.config=org.a.PlainLoginModule required username=a password=b;\n"
CLOSED = "127.0.0.1:1"


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a profile of a server that nobody serves, and let the environment name it."""
    path = tmp_path / "profile.properties"
    path.write_text(f"bootstrap.servers={CLOSED}\n{TIMES}")
    monkeypatch.setenv(VARIABLE, str(path))
    return path


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_log(tmp_path / "log", [added(1)])
    Path("policy.yaml").write_text("tests: [nobody may READ any topic]")
    Path("desired.yaml").write_text("acls: []")
    return tmp_path


class Request(msgspec.Struct, frozen=True):
    """The flags of a command that uses the profile."""

    bootstrap_server: str | None = None
    command_config: str | None = None
    log_dir: str | None = None


@pytest.mark.parametrize(("value", "expected"), [
    ("prod", "home/authorizerd/prod.properties"),
    ("./prod", "prod"),
    ("/etc/prod.conf", "/etc/prod.conf"),
    ("", None),
])  # fmt: skip
def test_variable_has_a_name_or_a_path(
    value: str, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "home")
    monkeypatch.setenv(VARIABLE, value)
    assert find_profile() == (None if expected is None else Path(expected))
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", "/root")
    if value == "prod":
        assert find_profile() == Path("/root/.config/authorizerd/prod.properties")


@pytest.mark.parametrize("words", [
    "explain --principal User:a --operation read --topic t",
    "who-can read --topic t",
    "what-can User:a",
    "can User:a --topic t",
    "test policy.yaml",
    "shell ls",
    "acls --list",
    "acls plan desired.yaml",
    "acls apply plan.json",
    "acls remove --principal User:a",
    "acls export",
    "acls import desired.yaml",
])  # fmt: skip
def test_every_command_that_connects_uses_the_profile(words: str, profile: Path) -> None:
    run_main("acls", "plan", "desired.yaml", "--log-dir", "log", "--out", "plan.json", code=10)
    printed = run_main(*words.split(), code=1)
    assert CLOSED in printed.out + printed.err
    if words.split()[0] != "acls":
        assert f"authorizerd: {VARIABLE}: {profile}: {CLOSED}: " in printed.err


@pytest.mark.parametrize("words", [
    "what-can User:a {}", "acls --list {}", "acls export {}", "shell {} ls",
    "acls plan desired.yaml {}",
])  # fmt: skip
def test_flag_of_a_place_turns_the_profile_off(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "/no/such/profile")
    run_main(*words.format("--log-dir log").split(), code=(0, 3, 10))
    printed = run_main(*words.format("").split(), code=1)
    assert f"{VARIABLE}: /no/such/profile: No such file or directory" in printed.err


@pytest.mark.parametrize("name", ["bootstrap_server", "command_config", "log_dir"])
def test_profile_is_used_as_a_whole_or_not_at_all(name: str, profile: Path) -> None:
    """The password of the profile is never sent to another server."""
    profile.write_text(f"bootstrap.servers={CLOSED}\n{PASSWORD}")
    profile.chmod(0o600)
    given = Request(**{name: "other"})
    assert use_profile(given, "log_dir") == (given, None)
    used, _ = use_profile(Request(), "log_dir")
    assert used == Request(CLOSED, str(profile))


@pytest.mark.parametrize(("text", "mode", "reason"), [
    (f"bootstrap.servers=a:1\n{PASSWORD}", 0o640, "expected mode 0600, because sasl.jaas"),
    (f"bootstrap.servers=a:1\n{PASSWORD}", 0o604, "found 0604: run chmod 600 "),
    ("bootstrap.servers=a:1\nssl.keystore.password=x\n", 0o644, "ssl.keystore.password is"),
    ("bootstrap.servers=a:1\nssl.key.password=x\n", 0o644, "ssl.key.password is a secret"),
    ("bootstrap.servers=a:1\nssl.keystore.key=x\n", 0o660, "ssl.keystore.key is a secret"),
    ("security.protocol=SSL\n", 0o600, "expected either bootstrap.servers or bootstrap."),
    ("bootstrap.servers=a:1\nbootstrap.controllers=b:1\n", 0o600, ", found both"),
    ("bootstrap.controllers=b:1\n", 0o600, "which only authorizerd acls --list, --add and"),
    (f"#{'x' * (1 << 20)}", 0o600, "expected at most 1048576 bytes, found more"),
])  # fmt: skip
def test_unusable_profile_is_rejected(text: str, mode: int, reason: str, profile: Path) -> None:
    profile.write_text(text)
    profile.chmod(mode)
    with pytest.raises(CommandError) as rejected:
        use_profile(Request())
    assert str(rejected.value).startswith(f"{VARIABLE}: {profile}: ")
    assert reason in str(rejected.value)


@pytest.mark.parametrize(("text", "mode"), [
    (f"bootstrap.servers=a:1\n{PASSWORD}", 0o600),
    (f"bootstrap.servers=a:1\n{PASSWORD}", 0o400),
    ("bootstrap.servers=a:1\nsecurity.protocol=SSL\n", 0o644),
])  # fmt: skip
def test_profile_without_secrets_may_be_public(text: str, mode: int, profile: Path) -> None:
    profile.write_text(text)
    profile.chmod(mode)
    used, _ = use_profile(Request())
    assert used.bootstrap_server == "a:1"


def test_acls_also_asks_the_controllers_of_a_profile(profile: Path) -> None:
    # Long enough for one try to connect, also on a busy machine.
    times = "request.timeout.ms=2000\ndefault.api.timeout.ms=2000\n"
    profile.write_text(f"bootstrap.controllers={CLOSED}\n{times}")
    printed = run_main("acls", "--list", code=1)
    assert "Error while executing ACL command: " in printed.out
    assert CLOSED in printed.out + printed.err
