"""The doctor's checks of the log, and by which releases' rules the daemon judges."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from authorizerd.acl.release_in_force import UNKNOWN_RELEASE
from authorizerd.cli.doctor.finding import Finding, Level
from authorizerd.cli.doctor.log import (
    FAULTS_MAX,
    ask_brokers,
    examine_copied_log,
    examine_log,
    examine_releases,
)
from authorizerd.config.configuration import Configuration, parse
from authorizerd.config.follow.settings import FollowSettings, Server, SourceKind
from authorizerd.image.changes import FeatureLevel
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY, segment_name
from tests.metadata.sound_logs import start_of, write_sound_log
from tests.support.copies import open_copy, write_copy
from tests.support.foreign_records import node
from tests.support.log_files import flipped, write_log
from tests.support.scripted_brokers import ScriptedCluster


def found(log_dir: Path, *, node_id: int = 1, is_running: bool = False) -> list[Finding]:
    return list(examine_log(log_dir, node_id, is_running=is_running))


def test_valid_log_of_this_node_is_ok(tmp_path: Path) -> None:
    write_sound_log(tmp_path)
    assert [each.text for each in found(tmp_path)] == [
        f"{tmp_path}/.lock: free",
        "valid up to offset 14, ACLs 3",
    ]
    assert {each.level for each in found(tmp_path)} == {Level.OK}


def test_fault_is_an_error_with_its_place_unless_a_daemon_writes(tmp_path: Path) -> None:
    write_sound_log(tmp_path)
    path = tmp_path / METADATA_TOPIC_DIRECTORY / segment_name(10)
    path.write_bytes(flipped(path.read_bytes(), start_of(10, 1) + 70))
    _, fault = found(tmp_path)
    assert fault.level is Level.ERROR
    assert fault.text.startswith(f"{path}: at byte ")
    assert "check-log" in fault.advice
    assert found(tmp_path, is_running=True)[1].level is Level.WARNING


def test_only_the_first_faults_are_listed(tmp_path: Path) -> None:
    write_sound_log(tmp_path)
    for offset in range(100, 113):
        name = f"{offset:020}-0000000001.checkpoint"
        (tmp_path / METADATA_TOPIC_DIRECTORY / name).write_bytes(b"?")
    findings = found(tmp_path)
    assert len(findings) == 1 + FAULTS_MAX + 1
    assert findings[-1].text == "3 more faults"


def test_log_of_another_node_is_an_error(tmp_path: Path) -> None:
    write_sound_log(tmp_path)
    (fault,) = [each for each in found(tmp_path, node_id=2) if each.level is Level.ERROR]
    assert fault.text == f"node.id: 2, but {tmp_path} belongs to node 1"


def test_directory_without_a_log_is_an_error(tmp_path: Path) -> None:
    (_, fault) = found(tmp_path)
    assert fault.level is Level.ERROR
    assert found(tmp_path / "none") == []


def found_of_copy(log_dir: Path, *, node_id: int = 1, is_running: bool = False) -> list[Finding]:
    return list(examine_copied_log(log_dir, node_id, is_running=is_running))


def test_valid_copy_is_ok(tmp_path: Path) -> None:
    assert found_of_copy(tmp_path / "none") == []
    open_copy(tmp_path).close()
    assert found_of_copy(tmp_path) == []
    write_copy(tmp_path)
    (only,) = found_of_copy(tmp_path)
    assert (only.level, only.text) == (Level.OK, "valid up to offset 2, ACLs 1")


def test_damaged_copy_is_a_warning(tmp_path: Path) -> None:
    """The daemon fetches again what it cannot trust, and nothing repairs a copy."""
    path = write_copy(tmp_path)
    path.write_bytes(flipped(path.read_bytes(), 100))
    (fault,) = found_of_copy(tmp_path)
    assert fault.level is Level.WARNING
    assert fault.text.startswith(f"{path}: at byte ")
    assert "start the daemon" in fault.advice
    assert "--repair" not in fault.advice
    assert "check again" in found_of_copy(tmp_path, is_running=True)[0].advice


def test_copy_that_others_can_read_is_a_warning(tmp_path: Path) -> None:
    write_copy(tmp_path)
    (tmp_path / METADATA_TOPIC_DIRECTORY).chmod(0o755)
    (found, _) = found_of_copy(tmp_path)
    assert found.level is Level.WARNING
    assert "SCRAM" in found.text


def test_copy_of_another_node_is_an_error(tmp_path: Path) -> None:
    write_copy(tmp_path)
    (fault, _) = found_of_copy(tmp_path, node_id=2)
    assert fault.level is Level.ERROR


QUORUM = """\
controller.quorum.bootstrap.servers=127.0.0.1:1
controller.listener.names=C
listener.security.protocol.map=C:PLAINTEXT,PLAINTEXT:PLAINTEXT
"""
BROKERS = "authorizerd.source=brokers\nauthorizerd.source.bootstrap.servers=127.0.0.1:1\n"


def configure(log_dir: Path, text: str = "") -> Configuration:
    return parse(f"node.id=1\nlog.dirs={log_dir}\n{text}", source="server.properties")


@pytest.mark.parametrize(("settings", "records", "level", "said"), [
    ("", [FeatureLevel("metadata.version", 30)], Level.OK, "Kafka 4.3: the log's"),
    ("", [FeatureLevel("metadata.version", 34)], Level.WARNING, "34, above 33, the newest"),
    ("authorizerd.kafka.release=4.4", [], Level.OK, "4.4: authorizerd.kafka.release=4.4"),
    (QUORUM, [FeatureLevel("metadata.version", 30), node(1, 30), node(9, 33, is_controller=True)],
     Level.WARNING, "broker 1 runs 4.3; controller 9 runs 4.4"),
    (BROKERS, [], Level.WARNING, UNKNOWN_RELEASE.reason),
])  # fmt: skip
def test_finding_names_what_keeps_a_mix(
    tmp_path: Path, settings: str, records: list[FeatureLevel | bytes], level: Level, said: str
) -> None:
    write_log(tmp_path, *([records] if records else []))
    [finding] = examine_releases(configure(tmp_path, settings))
    assert finding.level is level
    assert said in finding.text


def test_nothing_is_said_without_a_log(tmp_path: Path) -> None:
    assert list(examine_releases(configure(tmp_path / "none"))) == []


async def test_every_broker_is_asked(nursery: trio.Nursery) -> None:
    cluster = ScriptedCluster(nursery)
    cluster.brokers[2].level = 33
    settings = FollowSettings(kind=SourceKind.BROKERS, servers=(Server("bootstrap", 1),))
    image = await ask_brokers(settings, cluster.open_node)
    assert {key: each.level for key, each in image.nodes.items()} == {
        (False, 1): 30,
        (False, 2): 33,
    }
