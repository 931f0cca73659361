"""A broker's configuration, and its life from start to end, with a script in Java's place."""

from __future__ import annotations

from pathlib import Path

import pytest

from authorizerd.config.properties import parse_properties
from ops.kafka_rig import broker as broker_module
from ops.kafka_rig.broker import (
    BrokerSettings,
    Ports,
    format_storage,
    running_broker,
    server_properties,
    write_properties,
)
from ops.kafka_rig.rig import Program, Rig, RigError
from tests.ops.kafka_rig.programs import Programs, has_ended, is_running

PORTS = Ports(plaintext=1, sasl=2, controller=3)
TRAP = "trap 'echo ended >> \"$calls\"; exit 0' TERM"
WAIT = "while :; do sleep 0.05; done"
READY = f"{TRAP}; echo 'Kafka Server started'; {WAIT}"


def test_properties_are_written_as_java_reads_them(tmp_path: Path) -> None:
    """Backslashes, other alphabets and what lies beyond the first plane come back as they were."""
    values = {"log.dirs": "C:\\logs", "super.users": "User:zoé;User:日本;User:\U0001f600"}
    write_properties(tmp_path / "p", values)
    read = parse_properties((tmp_path / "p").read_text("iso-8859-1"), source="p")
    assert {key: each.value for key, each in read.items()} == values


def test_settings_stand_in_the_configuration(tmp_path: Path) -> None:
    """Under Kafka's own keys; what is not asked for is left to Kafka."""
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


def test_a_controller_alone_listens_for_no_client(tmp_path: Path) -> None:
    """Kafka refuses to start where it has listeners of a broker's."""
    properties = server_properties(tmp_path, BrokerSettings(roles="controller"), PORTS)
    assert properties["process.roles"] == "controller"
    assert properties["listeners"] == "CONTROLLER://127.0.0.1:3"
    assert "inter.broker.listener.name" not in properties


def test_storage_is_formatted_for_the_directory(programs: Programs, tmp_path: Path) -> None:
    """With a cluster id that is always the same, unless another one is asked for."""
    programs.write("java", "")
    format_storage(Rig(""), tmp_path, tmp_path / "log", "--release-version", "4.3")
    format_storage(Rig(""), tmp_path, tmp_path / "log", cluster_id="AAAAAAAAAAAAAAAAAAAAAQ")
    first, second = programs.calls
    assert "kafka.tools.StorageTool format --cluster-id AAAAAAAAQACAAAAAAAAAAQ" in first
    assert first.endswith(f"--config {tmp_path}/server.properties --release-version 4.3")
    assert "--cluster-id AAAAAAAAAAAAAAAAAAAAAQ" in second
    assert f"log.dirs={tmp_path}/log\n" in (tmp_path / "server.properties").read_text()


def test_a_broker_is_ended_by_sigterm(programs: Programs, tmp_path: Path) -> None:
    """It gets the chance to leave its log in order."""
    programs.write("java", READY)
    with running_broker(Rig(""), tmp_path, tmp_path / "log") as broker:
        assert is_running(broker.process_id)
        ports = {broker.plaintext, broker.sasl_plaintext, broker.controller}
        assert len(ports) == 3
        config = (tmp_path / "server.properties").read_text()
        assert all(f"://{port}" in config for port in ports)
    assert has_ended(broker.process_id)
    assert programs.calls[-1] == "ended"


def test_a_broker_that_hears_nothing_is_killed(
    programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None is left behind, whatever happens in the block."""
    monkeypatch.setattr(broker_module, "STOP_TIMEOUT_SECONDS", 0.1)
    programs.write("java", f"trap '' TERM; echo 'Kafka Server started'; {WAIT}")
    with (
        pytest.raises(ZeroDivisionError),
        running_broker(Rig(""), tmp_path, tmp_path / "log") as broker,
    ):
        raise ZeroDivisionError
    assert has_ended(broker.process_id)


def test_a_broker_that_ends_at_once_says_why(programs: Programs, tmp_path: Path) -> None:
    """From the first error in its log on."""
    programs.write("java", "echo '[time] INFO fine'; echo '[time] ERROR the lock'; echo at; exit 1")
    with (
        pytest.raises(RigError) as error,
        running_broker(Rig(""), tmp_path, tmp_path / "log"),
    ):
        pass
    assert str(error.value) == (
        f"the broker ended; {tmp_path}/broker.log says\n[time] ERROR the lock\nat"
    )


def test_a_broker_that_is_never_ready_is_not_waited_for(
    programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is ended."""
    monkeypatch.setattr(broker_module, "START_TIMEOUT_SECONDS", 1)
    programs.write("java", f"{TRAP}; echo 'still loading'; {WAIT}")
    with (
        pytest.raises(RigError, match=r"was not ready in 1 s; .* says\nstill loading"),
        running_broker(Rig(""), tmp_path, tmp_path / "log"),
    ):
        pass
    assert programs.calls[-1] == "ended"


def test_tools_talk_to_the_broker_as_a_user(programs: Programs, tmp_path: Path) -> None:
    """By default as the super user; the password stands in a file of the broker's."""
    programs.write("java", f'case "$*" in *kafka.Kafka*) {READY};; esac')
    with running_broker(Rig(""), tmp_path, tmp_path / "log") as broker:
        broker.run(Program.ACLS, "--list")
        broker.run(Program.TOPICS, "--list", user="alice")
    _, first, second, _ = programs.calls
    server = f"--bootstrap-server {broker.sasl_plaintext} --command-config {tmp_path}"
    assert first.endswith(f"AclCommand {server}/admin.properties --list")
    assert second.endswith(f"TopicCommand {server}/alice.properties --list")
    assert 'password="alice-secret"' in (tmp_path / "alice.properties").read_text()
