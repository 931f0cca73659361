"""A broker's configuration, start and end, with a script in place of Java."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from authorizerd.config.properties import parse_properties
from tests.kafka_rig import process as process_module
from tests.kafka_rig.broker import (
    Broker,
    BrokerSettings,
    Ports,
    format_storage,
    running_broker,
    server_properties,
)
from tests.kafka_rig.programs import Programs, has_ended, is_running
from tests.kafka_rig.properties import write_properties
from tests.kafka_rig.rig import Program, Rig, RigError

PORTS = Ports(plaintext=1, sasl=2, controller=3)
TRAP = "trap 'echo ended >> \"$calls\"; exit 0' TERM"
WAIT = "while :; do sleep 0.05; done"
READY = f"{TRAP}; echo 'Kafka Server started'; {WAIT}"


def broker_in(directory: Path) -> AbstractContextManager[Broker]:
    return running_broker(Rig(""), directory, directory / "log")


def test_properties_are_written_as_java_reads_them(tmp_path: Path) -> None:
    values = {"log.dirs": "C:\\logs", "super.users": "User:zoé;User:日本;User:\U0001f600"}
    write_properties(tmp_path / "p", values)
    read = parse_properties((tmp_path / "p").read_text("iso-8859-1"), source="p")
    assert {key: each.value for key, each in read.items()} == values


def test_settings_are_written_under_kafkas_keys(tmp_path: Path) -> None:
    settings = BrokerSettings(
        users={"admin": "a", "zoé": "z"},
        super_users=("User:admin", "User:root"),
        allow_everyone_if_no_acl_found=True,
        linger_ms=0,
        more={"num.io.threads": "1"},
    )
    properties = server_properties(tmp_path, settings, PORTS)
    assert properties["super.users"] == "User:admin;User:root"
    assert properties["allow.everyone.if.no.acl.found"] == "true"
    assert properties["controller.quorum.append.linger.ms"] == "0"
    assert properties["num.io.threads"] == "1"
    login = properties["listener.name.sasl_plaintext.plain.sasl.jaas.config"]
    assert login.endswith('user_admin="a" user_zoé="z";')
    usual = server_properties(tmp_path, BrokerSettings(), PORTS)
    assert "controller.quorum.append.linger.ms" not in usual
    assert usual["allow.everyone.if.no.acl.found"] == "false"


def test_controller_has_no_listener_for_clients(tmp_path: Path) -> None:
    """Kafka does not start a controller that has a broker's listeners."""
    properties = server_properties(tmp_path, BrokerSettings(roles="controller"), PORTS)
    assert properties["process.roles"] == "controller"
    assert properties["listeners"] == "CONTROLLER://127.0.0.1:3"
    assert "inter.broker.listener.name" not in properties


def test_storage_is_formatted_with_a_fixed_cluster_id_by_default(
    programs: Programs, tmp_path: Path
) -> None:
    programs.write("java", "")
    format_storage(Rig(""), tmp_path, tmp_path / "log", "--release-version", "4.3")
    format_storage(Rig(""), tmp_path, tmp_path / "log", cluster_id="AAAAAAAAAAAAAAAAAAAAAQ")
    first, second = programs.calls
    assert "kafka.tools.StorageTool format --cluster-id AAAAAAAAQACAAAAAAAAAAQ" in first
    assert first.endswith(f"--config {tmp_path}/server.properties --release-version 4.3")
    assert "--cluster-id AAAAAAAAAAAAAAAAAAAAAQ" in second
    assert f"log.dirs={tmp_path}/log\n" in (tmp_path / "server.properties").read_text()


def test_broker_is_ended_with_sigterm(programs: Programs, tmp_path: Path) -> None:
    programs.write("java", READY)
    with broker_in(tmp_path) as broker:
        assert is_running(broker.process_id)
        ports = {broker.plaintext, broker.sasl_plaintext, broker.controller}
        assert len(ports) == 3
        config = (tmp_path / "server.properties").read_text()
        assert all(f"://{port}" in config for port in ports)
    assert has_ended(broker.process_id)
    assert programs.calls[-1] == "ended"


def test_broker_that_ignores_sigterm_is_killed(
    programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_module, "STOP_TIMEOUT_SECONDS", 0.1)
    programs.write("java", f"trap '' TERM; echo 'Kafka Server started'; {WAIT}")
    with pytest.raises(ZeroDivisionError), broker_in(tmp_path) as broker:
        raise ZeroDivisionError
    assert has_ended(broker.process_id)


def test_broker_that_ends_at_once_is_reported_with_its_first_error(
    programs: Programs, tmp_path: Path
) -> None:
    programs.write("java", "echo '[time] INFO fine'; echo '[time] ERROR the lock'; echo at; exit 1")
    with pytest.raises(RigError) as error, broker_in(tmp_path):
        pass
    assert str(error.value) == (
        f"the broker ended; {tmp_path}/broker.log says\n[time] ERROR the lock\nat"
    )


def test_broker_that_never_becomes_ready_is_ended(
    programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_module, "START_TIMEOUT_SECONDS", 1)
    programs.write("java", f"{TRAP}; echo 'still loading'; {WAIT}")
    late = r"was not ready in 1 s; .* says\nstill loading"
    with pytest.raises(RigError, match=late), broker_in(tmp_path):
        pass
    assert programs.calls[-1] == "ended"


def test_tools_log_in_as_admin_or_the_given_user(programs: Programs, tmp_path: Path) -> None:
    programs.write("java", f'case "$*" in *kafka.Kafka*) {READY};; esac')
    with broker_in(tmp_path) as broker:
        broker.run(Program.ACLS, "--list")
        broker.run(Program.TOPICS, "--list", user="alice")
    _, first, second, _ = programs.calls
    server = f"--bootstrap-server {broker.sasl_plaintext} --command-config {tmp_path}"
    assert first.endswith(f"AclCommand {server}/admin.properties --list")
    assert second.endswith(f"TopicCommand {server}/alice.properties --list")
    assert 'password="alice-secret"' in (tmp_path / "alice.properties").read_text()
