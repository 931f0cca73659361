"""Who may read and write what the configuration names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from authorizerd.cli.doctor.access import access_findings
from authorizerd.cli.doctor.finding import Finding, Level
from authorizerd.config.configuration import Configuration, parse_values
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY
from authorizerd.metadata.lock import LOCK_NAME

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_a="b";'
SASL = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS,
}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "server.properties"
    path.touch(0o640)
    return path


def configured(log_dir: Path, **settings: str) -> Configuration:
    values = {key.replace("_", "."): value for key, value in settings.items()}
    return parse_values({"node.id": "1", "log.dirs": str(log_dir)} | values, source="f")


def found(config: Path, configuration: Configuration, about: Path) -> Finding:
    (finding,) = [
        each for each in access_findings(config, configuration) if f"{about}:" in each.text
    ]
    return finding


@pytest.mark.parametrize(("user", "level"), [(0, Level.WARNING), (4711, Level.OK)])
def test_root_is_warned_of(
    tmp_path: Path, config: Path, monkeypatch: pytest.MonkeyPatch, user: int, level: Level
) -> None:
    """Root may do everything, so nothing of what follows says what the daemon's user may."""
    monkeypatch.setattr(os, "geteuid", lambda: user)
    first = next(iter(access_findings(config, configured(tmp_path))))
    assert first.level is level


def test_a_log_directory_is_there_and_its_users_own(
    tmp_path: Path, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Missing, no directory, closed, open to all, another's: each is told apart."""
    log_dir = tmp_path / "log"
    configuration = configured(log_dir)
    assert "No such file" in found(config, configuration, log_dir).text
    log_dir.touch()
    assert "not a directory" in found(config, configuration, log_dir).text
    log_dir.unlink()
    log_dir.mkdir(0o755)
    assert found(config, configuration, log_dir).level is Level.OK
    log_dir.chmod(0o757)
    assert "everybody may write" in found(config, configuration, log_dir).text
    log_dir.chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    assert found(config, configuration, log_dir).level is Level.WARNING
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    assert "may not read and write it" in found(config, configuration, log_dir).text


def test_a_file_that_root_has_left_in_the_log_is_an_error(
    tmp_path: Path, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory is open, and a start would fail all the same; the first such file is named."""
    partition = tmp_path / METADATA_TOPIC_DIRECTORY
    partition.mkdir()
    (tmp_path / LOCK_NAME).touch()
    closed = [partition / "00000000000000000000.log", partition / "00000000000000000007.log"]
    for each in closed:
        each.touch()
    configuration = configured(tmp_path)
    assert {each.level for each in access_findings(config, configuration)} <= {
        Level.OK,
        Level.WARNING,  # where the tests run as root
    }
    really = os.access

    def access(path: Path, mode: int, *, effective_ids: bool) -> bool:
        return really(path, mode, effective_ids=effective_ids) and not (
            path in closed and mode & os.W_OK
        )

    monkeypatch.setattr(os, "access", access)
    errors = [each for each in access_findings(config, configuration) if each.level is Level.ERROR]
    (error,) = errors
    assert error.text.startswith(f"{closed[0]}: ")
    assert f"chown -R {tmp_path} " in error.advice
    closed.insert(0, tmp_path / LOCK_NAME)
    assert found(config, configuration, tmp_path / LOCK_NAME).level is Level.ERROR


def test_a_file_with_passwords_is_nobody_elses(tmp_path: Path, config: Path) -> None:
    """Without passwords anybody may read it."""
    configuration = parse_values(
        {"node.id": "1", "log.dirs": str(tmp_path)} | SASL, source=str(config)
    )
    assert found(config, configuration, config).level is Level.OK
    config.chmod(0o644)
    assert found(config, configuration, config).level is Level.ERROR
    without = access_findings(config, configured(tmp_path))
    assert not any(f"{config}:" in each.text for each in without)


@pytest.mark.parametrize(
    ("mode", "level"),
    [(0o640, Level.OK), (0o644, Level.WARNING), (0o642, Level.ERROR)],
)
def test_an_audit_log_is_nobody_elses(
    tmp_path: Path, config: Path, mode: int, level: Level
) -> None:
    """It says who asks for what, and is evidence."""
    audit = tmp_path / "audit.log"
    audit.touch()
    audit.chmod(mode)
    configuration = configured(tmp_path, authorizerd_audit_log=str(audit))
    assert found(config, configuration, audit).level is level


def test_an_audit_log_that_is_not_there_can_be_made(
    tmp_path: Path, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not made here."""
    audit = tmp_path / "audit.log"
    configuration = configured(tmp_path, authorizerd_audit_log=str(audit))
    assert found(config, configuration, audit).level is Level.OK
    assert not audit.exists()
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    assert found(config, configuration, audit).level is Level.ERROR
    audit.mkdir()
    assert "not a file" in found(config, configuration, audit).text


def test_a_standard_stream_is_no_file(tmp_path: Path, config: Path) -> None:
    """Its rights are whose business it is to connect it."""
    configuration = configured(tmp_path, authorizerd_audit_log="stdout")
    assert not any("stdout" in each.text for each in access_findings(config, configuration))


def test_tokens_and_secrets_are_read_as_the_daemon_reads_them(tmp_path: Path, config: Path) -> None:
    """What it would refuse is an error; a file without a token shuts everybody out."""
    tokens, secret = tmp_path / "tokens", tmp_path / "secret"
    configuration = parse_values(
        {
            "node.id": "1",
            "log.dirs": str(tmp_path),
            "authorizerd.tokens.file": str(tokens),
            "authorizerd.audit.mask.secret.file": str(secret),
        },
        source="f",
    )
    assert found(config, configuration, tokens).level is Level.ERROR
    assert found(config, configuration, secret).level is Level.ERROR
    tokens.touch(0o644)
    secret.write_bytes(bytes(16))
    secret.chmod(0o640)
    assert found(config, configuration, tokens).level is Level.WARNING
    assert found(config, configuration, secret).level is Level.OK
    tokens.chmod(0o646)
    secret.chmod(0o644)
    assert found(config, configuration, tokens).level is Level.ERROR
    assert found(config, configuration, secret).level is Level.ERROR


def test_a_pipe_need_not_be_readable(
    tmp_path: Path, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a file the end is read before it is appended to."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    asked: list[int] = []

    def access(path: Path, mode: int, *, effective_ids: bool) -> bool:
        if path == pipe:
            asked.append(mode)
        return True

    monkeypatch.setattr(os, "access", access)
    configuration = configured(tmp_path, authorizerd_audit_log=str(pipe))
    assert found(config, configuration, pipe).level is Level.OK
    pipe.unlink()
    pipe.touch(0o600)
    assert found(config, configuration, pipe).level is Level.OK
    assert asked == [os.W_OK, os.R_OK | os.W_OK]
