"""The doctor's checks of owners and permissions."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from authorizerd.cli.doctor import access
from authorizerd.cli.doctor.access import examine_access
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
        each for each in examine_access(config, configuration) if f"{about}:" in each.text
    ]
    return finding


@pytest.mark.parametrize(("user", "level"), [(0, Level.WARNING), (4711, Level.OK)])
def test_running_as_root_is_a_warning(
    tmp_path: Path, config: Path, monkeypatch: pytest.MonkeyPatch, user: int, level: Level
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    first = next(iter(examine_access(config, configured(tmp_path))))
    assert first.level is level


def test_log_directory_must_exist_and_belong_to_the_user(
    tmp_path: Path, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_dir = tmp_path / "log"
    configuration = configured(log_dir)
    assert "No such file" in found(config, configuration, log_dir).text
    log_dir.touch()
    assert "not a directory" in found(config, configuration, log_dir).text
    log_dir.unlink()
    log_dir.mkdir(0o755)
    assert found(config, configuration, log_dir).level is Level.OK
    log_dir.chmod(0o757)
    assert "every user may write" in found(config, configuration, log_dir).text
    log_dir.chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    assert found(config, configuration, log_dir).level is Level.WARNING
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    assert "cannot both read and write it" in found(config, configuration, log_dir).text


def test_read_only_file_system_is_named(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner of the directory is not the cause."""
    log_dir = tmp_path / "log"
    log_dir.mkdir()
    status = SimpleNamespace(f_flag=os.ST_RDONLY)
    monkeypatch.setattr(os, "statvfs", lambda _: status)
    [finding] = access._examine_log_dir(log_dir)
    assert finding.level is Level.ERROR
    assert finding.text == f"{log_dir}: its file system is mounted read-only"


def test_first_inaccessible_log_file_is_an_error(
    tmp_path: Path, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = tmp_path / METADATA_TOPIC_DIRECTORY
    partition.mkdir()
    (tmp_path / LOCK_NAME).touch()
    closed = [partition / "00000000000000000000.log", partition / "00000000000000000007.log"]
    for each in closed:
        each.touch()
    configuration = configured(tmp_path)
    assert {each.level for each in examine_access(config, configuration)} <= {
        Level.OK,
        Level.WARNING,  # where the tests run as root
    }
    really = os.access

    def access(path: Path, mode: int, *, effective_ids: bool) -> bool:
        return really(path, mode, effective_ids=effective_ids) and not (
            path in closed and mode & os.W_OK
        )

    monkeypatch.setattr(os, "access", access)
    errors = [each for each in examine_access(config, configuration) if each.level is Level.ERROR]
    (error,) = errors
    assert error.text.startswith(f"{closed[0]}: ")
    assert f"chown -R {tmp_path} " in error.advice
    closed.insert(0, tmp_path / LOCK_NAME)
    assert found(config, configuration, tmp_path / LOCK_NAME).level is Level.ERROR


@pytest.mark.parametrize(
    "more",
    [
        SASL,
        {"ssl.keystore.password": "TOP"},
        {"ssl.truststore.password": "TOP"},
        {"authorizerd.http.ssl.key.password": "TOP"},
        {"authorizerd.http.ssl.keystore.key": "TOP"},
    ],
)
def test_file_with_passwords_or_keys_must_be_private(
    tmp_path: Path, config: Path, more: dict[str, str]
) -> None:
    values = {"node.id": "1", "log.dirs": str(tmp_path)} | more
    configuration = parse_values(values, source=str(config))
    assert found(config, configuration, config).level is Level.OK
    config.chmod(0o644)
    assert found(config, configuration, config).level is Level.ERROR
    without = examine_access(config, configured(tmp_path))
    assert not any(f"{config}:" in each.text for each in without)


@pytest.mark.parametrize(
    ("mode", "level"),
    [(0o640, Level.OK), (0o644, Level.WARNING), (0o642, Level.ERROR)],
)
def test_audit_log_should_be_private(tmp_path: Path, config: Path, mode: int, level: Level) -> None:
    audit = tmp_path / "audit.log"
    audit.touch()
    audit.chmod(mode)
    configuration = configured(tmp_path, authorizerd_audit_log=str(audit))
    assert found(config, configuration, audit).level is level


def test_missing_audit_log_must_be_creatable_and_is_not_created(
    tmp_path: Path, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = tmp_path / "audit.log"
    configuration = configured(tmp_path, authorizerd_audit_log=str(audit))
    assert found(config, configuration, audit).level is Level.OK
    assert not audit.exists()
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    assert found(config, configuration, audit).level is Level.ERROR
    audit.mkdir()
    assert "not a file" in found(config, configuration, audit).text


def test_directory_of_the_audit_log_must_exist(tmp_path: Path, config: Path) -> None:
    audit = tmp_path / "none" / "audit.log"
    configuration = configured(tmp_path, authorizerd_audit_log=str(audit))
    error = found(config, configuration, audit)
    assert error.level is Level.ERROR
    assert error.text == f"{audit}: the directory {audit.parent} does not exist"


def test_audit_to_standard_output_is_not_examined(tmp_path: Path, config: Path) -> None:
    configuration = configured(tmp_path, authorizerd_audit_log="stdout")
    assert not any("stdout" in each.text for each in examine_access(config, configuration))


def test_tokens_and_secrets_are_read_as_the_daemon_reads_them(tmp_path: Path, config: Path) -> None:
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


def test_audit_pipe_need_not_be_readable(
    tmp_path: Path, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon reads the end of a file before it appends, but never a pipe."""
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
