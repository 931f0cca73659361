import os
import re
import shlex
import shutil
import time
from configparser import ConfigParser
from pathlib import Path
from typing import Final

import pytest

from authorizerd.config.configuration import Configuration, parse
from authorizerd.config.values import SecurityProtocol
from authorizerd.daemon.endpoints import ADMIN_HTTP, DECISION_HTTP, DECISION_STREAM, METRICS_HTTP
from tests.support.daemon_process import new_log, run, write_config
from tests.support.programs import run_program

FILES: Final = Path(__file__).parents[3] / "ops/systemd"
SERVICE: Final = FILES / "authorizerd.service"
SOCKETS: Final = sorted(FILES.glob("*.socket"))
BACKUP: Final = FILES / "authorizerd-backup.service"
VERIFY: Final = FILES / "authorizerd-verify.service"
SYNC: Final = FILES / "authorizerd-sync.service"
TIMER: Final = FILES / "authorizerd-backup.timer"
COMMAND: Final = "/opt/authorizerd/bin/authorizerd"


def tool(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed: apt-get install systemd")
    return path


def configured() -> Configuration:
    """Return the configuration with the metrics port, whose line is a comment in the file."""
    source = FILES / "server.properties"
    text = source.read_text()
    comment = "\n#   authorizerd.metrics.http="
    assert comment in text
    text = text.replace(comment, comment.replace("#   ", ""))
    return parse(text, source=str(source))


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    """The daemon is not installed here, so another program replaces it."""
    analyze = tool("systemd-analyze")
    installed = shutil.copytree(FILES, tmp_path / "units")
    units = [installed / each.name for each in (SERVICE, BACKUP, VERIFY, SYNC, TIMER, *SOCKETS)]
    for unit in units[:4]:
        text = unit.read_text()
        assert COMMAND in text
        unit.write_text(text.replace(COMMAND, "/bin/true"))
    done = run_program(analyze, "verify", "--man=no", *units)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("unit", [SERVICE, BACKUP, VERIFY, SYNC], ids=lambda unit: unit.stem)
def test_exposure_of_a_service_is_at_most_2_of_10(unit: Path) -> None:
    options = ("--offline=true", "--no-pager", "--threshold=20")
    done = run_program(tool("systemd-analyze"), "security", *options, unit)
    assert done.returncode == 0, done.stdout


def test_user_and_directories_are_created_and_the_configuration_is_read_only(
    tmp_path: Path,
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can change the owner of a directory")
    (tmp_path / "etc").mkdir()
    done = run_program(
        tool("systemd-sysusers"), f"--root={tmp_path}", FILES / "authorizerd.sysusers.conf"
    )
    assert done.returncode == 0, done.stderr
    user = (tmp_path / "etc/passwd").read_text()
    assert user.startswith("authorizerd:")
    tmpfiles = tool("systemd-tmpfiles")
    done = run_program(
        tmpfiles, "--create", f"--root={tmp_path}", FILES / "authorizerd.tmpfiles.conf"
    )
    assert done.returncode == 0, done.stderr
    uid, gid = map(int, user.split(":")[2:4])
    for parent, owner in (("etc", 0), ("var/lib", uid)):
        status = (tmp_path / parent / "authorizerd").stat()
        assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (owner, gid, 0o750)


def test_sockets_have_the_names_and_addresses_of_the_configuration() -> None:
    """Otherwise the daemon would not start with them."""
    configuration = configured()
    (kafka,) = configuration.listeners
    assert configuration.metrics_http is not None
    tcp = (
        (kafka.listener_name, kafka),
        (DECISION_HTTP, configuration.decision_http),
        (ADMIN_HTTP, configuration.admin_http),
        (METRICS_HTTP, configuration.metrics_http),
    )
    stream = configuration.decision_stream
    assert stream is not None
    expected = dict[str, str | None]({name: f"{each.host}:{each.port}" for name, each in tcp})
    expected[DECISION_STREAM] = stream.path
    found = {}
    for path in SOCKETS:
        unit = ConfigParser(interpolation=None)
        unit.read(path)
        section = unit["Socket"]
        found[section["FileDescriptorName"]] = section["ListenStream"]
        assert section["Service"] == SERVICE.name
    assert found == expected


def test_service_writes_only_to_its_directories() -> None:
    """tests/end_to_end/test_write_access.py runs a daemon that may write only to these three."""
    unit = SERVICE.read_text()
    assert "\nProtectSystem=strict\n" in unit
    assert "ReadWritePaths=" not in unit
    roots = {"State": "/var/lib", "Logs": "/var/log", "Runtime": "/run"}
    found = re.findall(r"^(State|Logs|Runtime)Directory=(\S+)$", unit, re.MULTILINE)
    assert len(found) == len(roots)
    writable = {f"{roots[kind]}/{name}" for kind, name in found}
    configuration = configured()
    stream = configuration.decision_stream
    assert stream is not None
    for path in (configuration.metadata_log_dir, configuration.audit_log, stream.path):
        assert path is not None
        assert writable & set(map(str, (Path(path), *Path(path).parents))), path


def test_serve_accepts_the_arguments_of_the_service() -> None:
    (start,) = (line for line in SERVICE.read_text().splitlines() if line.startswith("ExecStart="))
    program, *arguments = start.removeprefix("ExecStart=").split()
    assert program == COMMAND
    assert arguments.pop() == "$AUTHORIZERD_OPTIONS"
    assert arguments[:2] == ["serve", "--config"]
    done = run(*arguments[:-1], FILES / "nowhere", "--override", "node.id=1")
    assert (done.returncode, "No such file" in done.stderr) == (1, True)


def test_service_needs_no_program_except_the_shell() -> None:
    """A minimal system lacks ``/bin/kill``, so a reload with it would fail."""
    programs = re.findall(r"^Exec\w+=(\S+)", SERVICE.read_text(), re.MULTILINE)
    assert set(programs) == {COMMAND, "/bin/sh"}


def test_audit_log_is_the_file_that_logrotate_rotates() -> None:
    rotation = (FILES / "authorizerd.logrotate").read_text()
    assert rotation.split(maxsplit=1)[0] == configured().audit_log
    assert f"```\n{rotation}```\n" in (FILES.parents[1] / "docs/audit.md").read_text()


def test_uncommented_lines_add_users_and_an_administrator() -> None:
    text = (FILES / "server.properties").read_text()
    assert "super.users" not in configured().file_values
    configuration = parse(re.sub(r"^#   ", "", text, flags=re.MULTILINE), source="lines")
    (listener,) = configuration.listeners
    assert listener.security_protocol is SecurityProtocol.SASL_PLAINTEXT
    (sasl,) = configuration.sasl_listeners.values()
    (name,) = sasl.users.passwords
    assert configuration.file_values["super.users"] == f"User:{name}"


def test_commands_of_the_readme_install_every_file() -> None:
    commands = re.findall(r"^# install (.*)$", (FILES / "README.md").read_text(), re.MULTILINE)
    named = {word for command in commands for word in command.split()}
    assert {path.name for path in FILES.iterdir() if path.suffix != ".md"} <= named | {
        path.name for path in SOCKETS if "authorizerd-*.socket" in named
    }


def test_backup_service_writes_a_backup_and_removes_old_ones(tmp_path: Path) -> None:
    """Its commands run here with other paths."""
    folder = tmp_path / "backups"
    folder.mkdir()
    for name, age in (("old.checkpoint", 40), ("old.checkpoint.sha256", 40), ("new.checkpoint", 9)):
        (folder / name).touch()
        os.utime(folder / name, (time.time() - age * 86_400,) * 2)
    config = write_config(tmp_path, new_log(tmp_path))
    lines = re.findall(r"^ExecStart=(.*)$", BACKUP.read_text(), re.MULTILINE)
    for line in lines:
        line = line.replace("/etc/authorizerd/server.properties", str(config))
        program, *words = shlex.split(line.replace("/var/backups/authorizerd", str(folder)))
        done = run(*words) if program == COMMAND else run_program(program, *words)
        assert done.returncode == 0, done
    left = sorted(path.name for path in folder.iterdir())
    assert [re.sub("^[0-9-]+", "N", name) for name in left] == [
        "N.checkpoint", "N.checkpoint.sha256", "new.checkpoint",
    ]  # fmt: skip
