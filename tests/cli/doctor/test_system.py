"""The doctor's checks of the machine, the packages, the disk, the log and the release."""

import os
import resource
import tomllib
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
import trio

from authorizerd.acl.release_in_force import UNKNOWN_RELEASE
from authorizerd.cli.doctor import system
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

PROJECT = Path(__file__).parents[3] / "pyproject.toml"


@pytest.mark.parametrize(("wall_s", "step_s", "level"), [
    (system.CLOCK_START_S, 0.0, Level.OK),
    (system.CLOCK_START_S, system.CLOCK_STEP_S * 2, Level.WARNING),
    (system.CLOCK_START_S, -system.CLOCK_STEP_S * 2, Level.WARNING),
    (system.CLOCK_START_S - 1, 0.0, Level.ERROR),
    (0.0, 0.0, Level.ERROR),
])  # fmt: skip
def test_clock_must_be_set_and_steady(wall_s: float, step_s: float, level: Level) -> None:
    assert system.judge_clock(wall_s, step_s).level is level


def test_hard_limit_of_open_files_is_judged() -> None:
    assert system.judge_limit(4096, 4096).level is Level.OK
    assert system.judge_limit(4096, resource.RLIM_INFINITY).level is Level.OK
    too_low = system.judge_limit(4096, 4095)
    assert too_low.level is Level.WARNING
    assert "4095" in too_low.text
    assert "4096" in too_low.text


def test_requirements_leave_out_extras() -> None:
    project = tomllib.loads(PROJECT.read_text())["project"]
    needed = project["dependencies"]
    names = [each.partition(">=")[0] for each in needed]
    extra = [f"{name}; extra == 'replay'" for name in project["optional-dependencies"]["replay"]]
    assert system.list_requirements([*needed, *extra, "a-b.c>=1,<2"]) == [*names, "a-b.c"]


def test_missing_requirement_is_an_error() -> None:

    def installed(name: str) -> str:
        if name == "trio":
            raise PackageNotFoundError(name)
        return "1.2"

    missing, all_others = system.examine_versions(installed)
    assert (missing.level, missing.text) == (Level.ERROR, "trio is not installed")
    assert "msgspec 1.2" in all_others.text
    assert "trio" not in all_others.text


SLOW = system.SYNC_SLOW_MS + 1


@pytest.mark.parametrize(("judge", "measured", "level"), [
    (system.judge_free_space, system.FREE_BYTES_LEAST - 1, Level.ERROR),
    (system.judge_free_space, system.FREE_BYTES_LEAST, Level.WARNING),
    (system.judge_free_space, system.FREE_BYTES_ENOUGH - 1, Level.WARNING),
    (system.judge_free_space, system.FREE_BYTES_ENOUGH, Level.OK),
    (system.judge_free_files, system.FREE_FILES_ENOUGH, Level.OK),
    (system.judge_free_files, system.FREE_FILES_ENOUGH - 1, Level.WARNING),
    (system.judge_syncs, [1.0, 1.0, SLOW], Level.OK),
    (system.judge_syncs, [1.0, SLOW, SLOW], Level.WARNING),
])  # fmt: skip
def test_space_inodes_and_syncs_are_judged(
    tmp_path: Path, judge: Callable[[Path, object], Finding], measured: object, level: Level
) -> None:
    assert judge(tmp_path, measured).level is level


def test_sync_probe_is_always_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = []

    def fdatasync(file: int) -> None:
        assert len(list(tmp_path.iterdir())) == 1
        synced.append(os.fstat(file).st_size)

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    assert len(system.measure_syncs_ms(tmp_path)) == system.SYNCS
    assert synced == sorted(set(synced))
    assert list(tmp_path.iterdir()) == []

    def fail(file: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", fail)
    last = list(system.examine_disk(tmp_path))[-1]
    assert last.level is Level.ERROR
    assert "Input/output error" in last.text
    assert list(tmp_path.iterdir()) == []


def test_disk_of_a_copy_is_judged_as_that_of_a_copy(tmp_path: Path) -> None:
    """The daemon goes on without it, and no change waits for a sync."""
    found = system.judge_free_space(tmp_path, 0, is_copy=True)
    assert found.level is Level.WARNING
    assert "the daemon ends" not in found.advice
    assert not any("sync" in each.text for each in system.examine_disk(tmp_path, is_copy=True))


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


def found_of_copy(log_dir: Path, *, node_id: int = 1, is_running: bool = False) -> list[Finding]:
    return list(examine_copied_log(log_dir, node_id, is_running=is_running))


def test_valid_copy_is_ok(tmp_path: Path) -> None:
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


def test_missing_directory_is_left_to_another_check(tmp_path: Path) -> None:
    none = tmp_path / "none"
    assert list(system.examine_disk(none)) == found(none) == found_of_copy(none) == []
    assert list(examine_releases(configure(none))) == []


async def test_every_broker_is_asked(nursery: trio.Nursery) -> None:
    cluster = ScriptedCluster(nursery)
    cluster.brokers[2].level = 33
    settings = FollowSettings(kind=SourceKind.BROKERS, servers=(Server("bootstrap", 1),))
    image = await ask_brokers(settings, cluster.open_node)
    assert {key: each.level for key, each in image.nodes.items()} == {
        (False, 1): 30,
        (False, 2): 33,
    }
