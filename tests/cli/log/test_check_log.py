"""``authorizerd check-log``: its output, exit codes and repairs."""

import io
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from authorizerd.cli.log.check_log import run_check_log
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY, segment_name
from authorizerd.metadata.errors import LogLockedError
from authorizerd.metadata.lock import locked
from authorizerd.metadata.storage import DISK
from tests.metadata.sound_logs import SEGMENTS, start_of, write_sound_log
from tests.metadata.stored_files import StoredFiles
from tests.support.copies import CLUSTER_ID, open_copy, write_copy
from tests.support.log_files import acl_id, added, flipped, held, read_acls
from tests.support.printed import run_main

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SUMMARY = (
    "segments 3, checkpoints 0, batches 10, records 15\n"
    "first offset 0, last offset 14, last epoch 2, ACLs at the end 3, shutdown not clean\n"
    "valid\n"
)


def check(*words: str | Path) -> tuple[int, str]:
    out = io.StringIO()
    return run_check_log([str(word) for word in words], out, DISK, NOW), out.getvalue()


def spoil_last_segment(log_dir: Path) -> Path:
    write_sound_log(log_dir)
    path = log_dir / METADATA_TOPIC_DIRECTORY / segment_name(10)
    path.write_bytes(flipped(path.read_bytes(), start_of(10, 1) + 70))
    return path


def test_valid_log_is_summarized(tmp_path: Path) -> None:
    write_sound_log(tmp_path)
    assert check(tmp_path) == (0, SUMMARY)
    assert run_main("check-log", tmp_path).out == SUMMARY


def test_log_of_a_real_broker_is_valid(real_log_dir: Path) -> None:
    code, text = check(real_log_dir)
    assert code == 0
    assert text.splitlines() == [
        f"note: {real_log_dir}/acls-list.txt: not known",
        f"note: {real_log_dir}/kafka-authorizer.log.xz: not known",
        "segments 1, checkpoints 6, batches 238, records 3060",
        "first offset 0, last offset 3059, last epoch 1, ACLs at the end 1751, shutdown not clean",
        "valid",
    ]


def test_fault_is_printed_with_its_place_and_nothing_is_changed(tmp_path: Path) -> None:
    path = spoil_last_segment(tmp_path)
    before = StoredFiles.of(tmp_path).files
    code, text = check(tmp_path)
    assert code == 2
    fault, *_, last, advice = text.splitlines()
    assert fault.startswith(
        f"fault: {path}: at byte {start_of(10, 1) + 17}, log offset 13: expected CRC-32C "
    )
    assert last == "1 fault"
    assert "run this with --repair" in advice
    assert "last offset 12, last epoch 2, ACLs at the end unknown" in text
    assert StoredFiles.of(tmp_path).files == before


def test_repair_reports_faults_steps_losses_and_the_copy(tmp_path: Path) -> None:
    path = spoil_last_segment(tmp_path)
    before = path.read_bytes()
    code, text = check(tmp_path, "--repair")
    assert code == 0
    lines = text.splitlines()
    assert lines[0].startswith(f"fault: {path}: at byte ")
    copies = tmp_path / "repair-20260102T030405Z"
    assert lines[1:] == [
        f"step: cut {path} to {start_of(10, 1)} bytes",
        "lost: offsets 13 to 14 (readable records: 1)",
        f"lost: {len(SEGMENTS[10][1])} unreadable bytes from offset 13 on; which ACLs they"
        " created or removed is unknown",
        f"would come back: {added(4).acl}",
        "the log will end at offset 12, with 3 ACLs",
        f"repaired; {copies} contains the original files (move it elsewhere before a Kafka "
        "node starts here; otherwise the node treats it as a topic's directory)",
        "segments 3, checkpoints 0, batches 8, records 13",
        "first offset 0, last offset 12, last epoch 2, ACLs at the end 3, shutdown not clean",
        "valid",
    ]
    assert (copies / path.name).read_bytes() == before
    assert set(read_acls(tmp_path)) == {acl_id(2), acl_id(3), acl_id(4)}
    assert check(tmp_path, "--repair")[0] == 0
    assert check(tmp_path)[0] == 0


def test_log_beyond_repair_is_left_untouched(tmp_path: Path) -> None:
    write_sound_log(tmp_path)
    (tmp_path / METADATA_TOPIC_DIRECTORY / segment_name(0)).unlink()
    code, text = check(tmp_path, "--repair")
    assert code == 2
    assert text.startswith("cannot be repaired: ")
    assert text.endswith("; nothing was changed\n")
    assert not list(tmp_path.glob("repair-*"))


def test_log_in_use_is_checked_but_not_repaired(tmp_path: Path) -> None:
    write_sound_log(tmp_path)
    with held(tmp_path):
        in_use = (
            f"{tmp_path}: in use by a daemon or a broker. The end of the log may look faulty "
            "while it is being written: if there is a fault, check again\n"
        )
        summary = SUMMARY.replace("shutdown not clean", "in use")
        assert check(tmp_path) == (0, in_use + summary)
        with pytest.raises(LogLockedError):
            check(tmp_path, "--repair")
    with locked(tmp_path):
        pass
    assert check(tmp_path) == (0, SUMMARY)


def test_file_name_that_is_not_utf_8_is_printed(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    write_sound_log(tmp_path)
    (tmp_path / METADATA_TOPIC_DIRECTORY / os.fsdecode(b"\xb0.log")).touch()
    command = [sys.executable, "-m", "authorizerd.cli.main", "check-log", str(tmp_path)]
    assert subprocess.run(command, env={"LC_ALL": "C.UTF-8"}, check=False).returncode == 2
    assert b"\\udcb0.log: the name resembles a log file" in capfdbinary.readouterr().out


def test_missing_log_and_invalid_arguments_exit_with_1(tmp_path: Path) -> None:
    assert "no metadata log found" in run_main("check-log", tmp_path, code=1).err
    write_sound_log(tmp_path)
    printed = run_main("check-log", tmp_path / METADATA_TOPIC_DIRECTORY, code=1)
    assert f"Name the directory that contains it: {tmp_path}\n" in printed.err
    for words in ([], [str(tmp_path), "--repai", "x"]):
        assert "Run 'authorizerd check-log --help' for" in run_main("check-log", *words, code=1).err


def test_copy_is_inspected_as_a_copy(tmp_path: Path) -> None:
    """An empty one is valid. Of a damaged one, the daemon keeps what it can."""
    copy = open_copy(tmp_path)
    assert check(tmp_path) == (0, f"{tmp_path}: an empty copy of a followed cluster\nvalid\n")
    copy.close()
    path = write_copy(tmp_path)
    code, text = check(tmp_path)
    assert code == 0
    assert f"the log is a copy of cluster {CLUSTER_ID} (authorizerd.source=quorum)" in text
    path.write_bytes(flipped(path.read_bytes(), 100))
    code, text = check(tmp_path)
    assert code == 2
    assert text.splitlines()[-1].startswith("the log is a copy: at its next start, the daemon")


def test_copy_whose_cluster_has_no_known_id_is_valid(tmp_path: Path) -> None:
    """Controllers tell the id only to those who may alter the cluster."""
    write_copy(tmp_path)
    path = tmp_path / "meta.properties"
    path.write_text(path.read_text().replace(CLUSTER_ID, ""))
    code, text = check(tmp_path)
    assert code == 0
    assert "a copy of a cluster (" in text


def test_copy_is_never_repaired(tmp_path: Path) -> None:
    path = write_copy(tmp_path)
    damaged = flipped(path.read_bytes(), 100)
    path.write_bytes(damaged)
    assert "authorizerd reset-copy" in run_main("check-log", tmp_path, "--repair", code=1).err
    assert path.read_bytes() == damaged
