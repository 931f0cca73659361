"""The doctor's checks of the log."""

from __future__ import annotations

from pathlib import Path

from authorizerd.cli.doctor.finding import Finding, Level
from authorizerd.cli.doctor.log import FAULTS_MAX, examine_copied_log, examine_log
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY, segment_name
from tests.metadata.sound_logs import start_of, write_sound_log
from tests.support.copies import BEGINNING, acl_batch, open_copy
from tests.support.log_files import flipped


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


def make_copy(log_dir: Path) -> Path:
    """Write a copy of a followed log; return its segment."""
    copy = open_copy(log_dir)
    copy.append([*BEGINNING, acl_batch(2, 1)])
    copy.close()
    return log_dir / METADATA_TOPIC_DIRECTORY / segment_name(0)


def test_valid_copy_is_ok(tmp_path: Path) -> None:
    assert found_of_copy(tmp_path / "none") == []
    open_copy(tmp_path).close()
    assert found_of_copy(tmp_path) == []
    make_copy(tmp_path)
    (only,) = found_of_copy(tmp_path)
    assert (only.level, only.text) == (Level.OK, "valid up to offset 2, ACLs 1")


def test_damaged_copy_is_a_warning(tmp_path: Path) -> None:
    """The daemon fetches again what it cannot trust, and nothing repairs a copy."""
    path = make_copy(tmp_path)
    path.write_bytes(flipped(path.read_bytes(), 100))
    (fault,) = found_of_copy(tmp_path)
    assert fault.level is Level.WARNING
    assert fault.text.startswith(f"{path}: at byte ")
    assert "start the daemon" in fault.advice
    assert "--repair" not in fault.advice
    assert "check again" in found_of_copy(tmp_path, is_running=True)[0].advice


def test_copy_that_others_can_read_is_a_warning(tmp_path: Path) -> None:
    make_copy(tmp_path)
    (tmp_path / METADATA_TOPIC_DIRECTORY).chmod(0o755)
    (found, _) = found_of_copy(tmp_path)
    assert found.level is Level.WARNING
    assert "SCRAM" in found.text


def test_copy_of_another_node_is_an_error(tmp_path: Path) -> None:
    make_copy(tmp_path)
    (fault, _) = found_of_copy(tmp_path, node_id=2)
    assert fault.level is Level.ERROR
