"""The doctor's checks of owners and permissions, and of the callers of decision ports."""

import os
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import pytest

from authorizerd.acl.model import Acl
from authorizerd.cli.doctor import access
from authorizerd.cli.doctor.access import examine_access, examine_callers
from authorizerd.cli.doctor.finding import Finding, Level
from authorizerd.config.configuration import Configuration, parse_values
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY
from authorizerd.metadata.lock import LOCK_NAME
from tests.support.acls import acl
from tests.support.log_files import added, write_log

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
    assert next(iter(examine_access(config, configured(tmp_path)))).level is level


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


def test_read_only_disk_is_named(
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
    (error,) = [each for each in examine_access(config, configuration) if each.level is Level.ERROR]
    assert error.text.startswith(f"{closed[0]}: ")
    assert f"chown -R {tmp_path} " in error.advice
    closed.insert(0, tmp_path / LOCK_NAME)
    assert found(config, configuration, tmp_path / LOCK_NAME).level is Level.ERROR


@pytest.mark.parametrize("more", [
    SASL,
    {"ssl.keystore.password": "TOP"},
    {"ssl.truststore.password": "TOP"},
    {"authorizerd.http.ssl.key.password": "TOP"},
    {"authorizerd.http.ssl.keystore.key": "TOP"},
])  # fmt: skip
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
    ("mode", "level"), [(0o640, Level.OK), (0o644, Level.WARNING), (0o642, Level.ERROR)]
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


def test_routes_are_read_as_the_daemon_reads_them(tmp_path: Path, config: Path) -> None:
    routes = tmp_path / "routes.yaml"
    configuration = configured(tmp_path, authorizerd_routes_file=str(routes))
    assert found(config, configuration, routes).level is Level.ERROR
    routes.write_text("routes:\n  - GET /x -> READ TOPIC x\n")
    finding = found(config, configuration, routes)
    assert (finding.level, finding.text) == (Level.OK, f"{routes}: 1 routes")
    routes.write_text("routes:\n  - GET /x\n")
    finding = found(config, configuration, routes)
    assert finding.level is Level.ERROR
    assert f"{routes}:2: routes: 'GET /x'" in finding.text


def test_audit_pipe_is_not_read(
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


BRIDGE = "Service:bridge"
FORWARDS = "holds CLUSTER_ACTION in the cluster"
USER = "may be a user of Kafka"
ASK = "CLUSTER_ACTION in an ACL was the right to use the decision ports"
READ = "DESCRIBE in an ACL was the right to use the decision ports"


def examine(folder: Path, *acls: Acl, holder: str | None, **callers: str) -> list[str]:
    return [each.text for each in examine_findings(folder, *acls, holder=holder, **callers)]


def examine_findings(folder: Path, *acls: Acl, holder: str | None, **callers: str) -> list[Finding]:
    """Return the warnings about the holder of a token, and about the principals in the keys."""
    some = (acl("User:other", "READ", topic="t"), *acls)
    write_log(folder / "log", [added(number, each) for number, each in enumerate(some, 1)])
    values = {"node.id": "1", "log.dirs": str(folder / "log"), "super.users": "User:root"}
    values |= {f"authorizerd.callers.{right}": text for right, text in callers.items()}
    if holder is not None:
        digest = sha256(b"secret").hexdigest()
        (folder / "tokens").write_text(f"a {digest} {holder}\nroot {digest} User:root\n")
        values["authorizerd.tokens.file"] = str(folder / "tokens")
    found = list(examine_callers(parse_values(values, source="test")))
    return [each for each in found if each.level is Level.WARNING]


def on_cluster(principal: str, operation: str, *, host: str = "*", deny: bool = False) -> Acl:
    return acl(principal, operation, host=host, deny=deny, cluster=True)


@pytest.mark.parametrize(("holder", "acls", "said"), [
    (BRIDGE, [], []),
    ("User:bridge", [], [USER]),
    (BRIDGE, [on_cluster(BRIDGE, "CLUSTER_ACTION")], [FORWARDS, ASK]),
    (BRIDGE, [on_cluster(BRIDGE, "CLUSTER_ACTION", host="10.0.0.1")], [FORWARDS, ASK]),
    (BRIDGE, [on_cluster("User:*", "ALL")], [FORWARDS, READ, ASK]),
    ("User:a", [on_cluster("User:a", "DESCRIBE")], [USER, READ]),
    ("User:a", [on_cluster("User:a", "ALTER")], [USER, READ]),
    (BRIDGE, [on_cluster(BRIDGE, "ALL"), on_cluster("User:*", "CLUSTER_ACTION", deny=True)],
     [READ]),
    ("User:root", [on_cluster("User:*", "ALL")], []),
    (BRIDGE, [acl(BRIDGE, "ALL", topic="t")], []),
])  # fmt: skip
def test_rights_of_a_token_holder_in_kafka(
    holder: str, acls: list[Acl], said: list[str], tmp_path: Path
) -> None:
    found = examine(tmp_path, *acls, holder=holder)
    assert [any(text in each for each in found) for text in said] == [True] * len(said)
    assert len(found) == len(said)


def test_principals_in_the_keys_are_examined_like_token_holders(tmp_path: Path) -> None:
    acls = [acl("User:app", "READ", topic="t"), on_cluster("User:app", "CLUSTER_ACTION")]
    found = examine(tmp_path, *acls, holder=BRIDGE, ask="User:app;User:client", search="User:app")
    assert len(found) == 1
    assert found[0].startswith("User:app: holds CLUSTER_ACTION")


def test_upgrader_learns_which_keys_must_list_a_caller(tmp_path: Path) -> None:
    forwards = on_cluster(BRIDGE, "CLUSTER_ACTION")
    [_, text] = examine(tmp_path, forwards, holder=BRIDGE, search=BRIDGE)
    past = "authorizerd.callers.read for questions about the past"
    assert text.endswith(f"; now authorizerd.callers.ask must list it, and {past}")
    [_, text] = examine(tmp_path, forwards, holder=BRIDGE, search=BRIDGE, read=BRIDGE)
    assert text.endswith("; now authorizerd.callers.ask must list it")


def test_remedy_keeps_the_old_version_working(tmp_path: Path) -> None:
    """Doctor runs before the upgrade: the old daemon still needs the ACL."""
    assert "once no daemon of version 1.0 needs it" in find_advice(tmp_path, BRIDGE)
    assert "authorizerd token" not in find_advice(tmp_path, BRIDGE)
    assert "authorizerd token" in find_advice(tmp_path, "User:bridge")


def find_advice(folder: Path, principal: str) -> str:
    """Return what to do about a caller that holds CLUSTER_ACTION."""
    forwards = on_cluster(principal, "CLUSTER_ACTION")
    [found, _] = examine_findings(folder, forwards, holder=principal)
    return found.advice


def test_trusted_callers_are_not_examined(tmp_path: Path) -> None:
    assert examine(tmp_path, on_cluster("User:*", "ALL"), holder=None, ask="User:a") == []


def test_unreadable_log_is_another_checks_finding(tmp_path: Path) -> None:
    assert examine(tmp_path, holder="User:a") == [
        "User:a: may be a user of Kafka, so what its ACLs allow is at risk with it"
    ]
    (tmp_path / "log" / "__cluster_metadata-0").rename(tmp_path / "moved")
    values = {
        "node.id": "1",
        "log.dirs": str(tmp_path / "log"),
        "authorizerd.tokens.file": str(tmp_path / "tokens"),
    }
    levels = [each.level for each in examine_callers(parse_values(values, source="test"))]
    assert levels.count(Level.WARNING) == 2
