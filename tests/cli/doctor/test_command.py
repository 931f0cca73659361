"""``authorizerd doctor``: its lines and exit codes. It changes nothing."""

import io
import json
import os
from pathlib import Path

import pytest

from authorizerd.cli.doctor.command import run_doctor
from tests.metadata.sound_logs import PROPERTIES
from tests.metadata.stored_files import StoredFiles
from tests.support.daemon_process import running, write_config
from tests.support.printed import run_main
from tools.example.log import ACLS, write_log

PASSWORD = "correct-horse"
JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'user_alice="{PASSWORD}" user_admin="{PASSWORD}";'
)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    write_log(tmp_path / "log")
    return tmp_path / "log"


def doctor(config: Path, *words: str) -> tuple[int, list[str]]:
    out = io.StringIO()
    return run_doctor(["--config", str(config), *words], out), out.getvalue().splitlines()


def errors(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("error: ")]


def test_valid_installation_has_no_errors(tmp_path: Path, log_dir: Path) -> None:
    config = write_config(tmp_path, log_dir)
    code, lines = doctor(config)
    assert (code, errors(lines)) == (0, [])
    checks = [line.split(": ")[1] for line in lines[:-1]]
    assert set(checks) == {
        *("configuration", "access", "exposure", "console", "ports", "limits", "disk", "log"),
        *("releases", "clock", "versions"),
    }
    assert f"ok: log: valid up to offset {len(ACLS) + 1}, ACLs {len(ACLS)}." in lines
    assert lines[-1].startswith("0 errors, ")
    assert len(run_main("doctor", "--config", config).out.splitlines()) == len(lines)


def test_last_line_counts_errors_and_warnings(tmp_path: Path, log_dir: Path) -> None:
    for number, counted in ((1, "1 error, "), (2, "2 errors, ")):
        words = [f"--override=authorizerd.nothing{each}=1" for each in range(number)]
        _, lines = doctor(write_config(tmp_path, log_dir), *words)
        assert lines[-1].startswith(counted)


def test_each_configuration_error_is_a_line(tmp_path: Path, log_dir: Path) -> None:
    config = write_config(tmp_path, log_dir, node_id="x", queued_max_requests="0")
    code, lines = doctor(config, "--override", "authorizerd.nothing=1")
    assert code == 2
    assert [line.split(": ")[3] for line in errors(lines)[:2]] == ["node.id", "queued.max.requests"]
    assert "authorizerd.nothing: unknown key" in errors(lines)[2]
    assert any(": versions: " in line for line in lines)
    assert not any(": ports: " in line for line in lines)


def test_question_about_a_key_ends_its_sentence(tmp_path: Path, log_dir: Path) -> None:
    _, lines = doctor(write_config(tmp_path, log_dir), "--override", "authorizerd.consol=true")
    (line,) = errors(lines)
    assert "did you mean authorizerd.console? Do: correct it" in line


@pytest.mark.parametrize(("setting", "said"), [
    ({"super.user": "User:a"}, "are ignored: super.user (did you mean super.users?)."),
    ({"super.users": "User:a,User:b"},
     " super.users: 'User:a,User:b' is one principal: separate entries by semicolons. Do: correct"
     " it, unless it is intended."),
    ({"super.users": "User:a\nsuper.users=User:b"}, " super.users: set in lines "),
])  # fmt: skip
def test_settings_that_are_probably_not_meant_are_named(
    tmp_path: Path, log_dir: Path, setting: dict[str, str], said: str
) -> None:
    _, lines = doctor(write_config(tmp_path, log_dir, setting))
    (line,) = [line for line in lines if "super.user" in line]
    assert line.startswith("warning: configuration: ")
    assert said in line


def test_json_has_the_worst_level_and_each_finding(tmp_path: Path, log_dir: Path) -> None:
    (log_dir / "meta.properties").write_bytes(PROPERTIES)
    code, lines = doctor(write_config(tmp_path, log_dir, node_id="7"), "--json")
    document = json.loads("\n".join(lines))
    assert (code, document["result"]) == (2, "error")
    (finding,) = [each for each in document["findings"] if each["level"] == "error"]
    assert finding["check"] == "log"
    assert finding["text"] == f"node.id: 7, but {log_dir} belongs to node 1"
    assert finding["advice"]


def test_nothing_is_changed_on_disk(tmp_path: Path, log_dir: Path) -> None:
    config = write_config(tmp_path, log_dir, authorizerd_audit_log=str(tmp_path / "audit.log"))
    before = StoredFiles.of(tmp_path).files
    assert doctor(config)[0] == 0
    assert StoredFiles.of(tmp_path).files == before


def test_no_secret_is_printed(tmp_path: Path, log_dir: Path) -> None:
    secret_file = tmp_path / "secret"
    secret_file.write_text("sixteen-or-more-letters")
    secret_file.chmod(0o604)
    tokens = tmp_path / "tokens"
    tokens.write_text("proxy.token-that-is-no-line\n")
    sasl = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS,
        "authorizerd.tokens.file": str(tokens),
        "authorizerd.audit.mask.secret.file": str(secret_file),
    }
    printed = []
    for jaas in (JAAS, JAAS.replace("required", ""), JAAS[:-1], JAAS.replace("=", " ")):
        config = write_config(
            tmp_path, log_dir, sasl | {"listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas}
        )
        for words in ((), ("--json",)):
            code, lines = doctor(config, *words)
            assert code == 2
            printed += lines
    text = "\n".join(printed)
    for secret in (PASSWORD, "sixteen-or-more-letters", "proxy.token-that-is-no-line"):
        assert secret not in text
    assert "every user has access" in text


def test_running_daemon_is_not_an_error_and_keeps_serving(tmp_path: Path, log_dir: Path) -> None:
    with running(tmp_path, log_dir) as daemon:
        words = [
            *("--override", f"authorizerd.decision.http=http://{daemon.ready['decision_http']}"),
            *("--override", f"listeners=PLAINTEXT://{daemon.ready['listeners']['PLAINTEXT']}"),
        ]
        code, lines = doctor(tmp_path / "server.properties", *words)
        assert (code, errors(lines)) == (0, [])
        in_use = [line for line in lines if "probably by the running daemon" in line]
        assert [line.split(": ")[2] for line in in_use] == [
            "authorizerd.decision.http",
            "listeners",
        ]
        assert f"ok: log: {log_dir}/.lock: held: a daemon or a broker is running." in lines
        assert daemon.evaluate({}).status == 400
        assert daemon.stop()[0] == 0


def test_unreadable_configuration_exits_with_1(tmp_path: Path) -> None:
    printed = run_main("doctor", "--config", tmp_path / "none", code=1)
    assert "none: No such file or directory" in printed.err
    run_main("doctor", code=1)


def test_path_that_is_not_utf_8_is_printed(tmp_path: Path, log_dir: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\n"))
    folder.mkdir()
    config = write_config(folder, log_dir, node_id="x")
    lines = errors(doctor(config)[1])
    assert "\\udcff\\n/server.properties:1: node.id" in lines[0]
    text = "\n".join(doctor(config, "--json")[1])
    assert json.loads(text)["result"] == "error"
    text.encode()


def test_control_characters_in_names_are_escaped(tmp_path: Path, log_dir: Path) -> None:
    audit = f"{tmp_path}/a\\u001b[2J\\nok: log: all is well"
    config = write_config(tmp_path, log_dir, authorizerd_audit_log=audit)
    Path(f"{tmp_path}/a\x1b[2J\nok: log: all is well").touch(0o666)
    Path(f"{tmp_path}/a\x1b[2J\nok: log: all is well").chmod(0o666)
    code, lines = doctor(config)
    assert code == 2
    assert all(line.isprintable() for line in lines)
    (line,) = errors(lines)
    assert line.count("a\\x1b[2J\\nok: log: all is well") == 2
