from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from authorizerd.cli.main import main
from authorizerd.daemon.errors import StartError
from authorizerd.daemon.sources.own_log_directory import (
    UUID_BYTES,
    claim_log_directory,
    format_log_directory,
    new_uuid,
)
from authorizerd.metadata.directory import CLEAN_SHUTDOWN_NAME, METADATA_TOPIC_DIRECTORY
from authorizerd.metadata.errors import LogDirectoryError
from authorizerd.metadata.meta_properties import NAME, MetaProperties, read_meta_properties
from authorizerd.metadata.storage import DiskStorage
from tests.support.daemon_process import write_config
from tests.support.log_files import added, read_acls, write_file, write_log
from tests.support.recording_storage import PowerFailure, RecordingStorage

ID = re.compile(r"[A-Za-z0-9_-]{22}")


def formatted(
    log_dir: Path, *, cluster_id: str | None = None, storage: RecordingStorage | None = None
) -> MetaProperties:
    return format_log_directory(
        log_dir, cluster_id=cluster_id, node_id=1, storage=storage or DiskStorage()
    )


def claimed(log_dir: Path, *, node_id: int = 1) -> MetaProperties:
    return claim_log_directory(log_dir, node_id=node_id, storage=DiskStorage())


def test_a_formatted_directory_is_claimed_by_its_node(tmp_path: Path) -> None:
    """It holds a log without ACLs."""
    log_dir = tmp_path / "log"
    properties = formatted(log_dir, cluster_id="my-cluster")
    assert claimed(log_dir) == properties
    assert properties.cluster_id == "my-cluster"
    assert read_acls(log_dir) == {}


def test_a_start_says_how_a_log_is_made_and_makes_none(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """In a missing or empty one nothing is written, not even a lock; the error names the cures."""
    log_dir = tmp_path / "log"
    config = write_config(tmp_path, log_dir)
    for _ in ("missing", "empty"):
        assert main(["serve", "--config", str(config)]) == 1
        said = capfd.readouterr().err
        assert said == (
            f"authorizerd: {log_dir}: no metadata log found (expected __cluster_metadata-0 in it). "
            "Run `authorizerd format` for a new node, or check that the volume is mounted\n"
        )
        log_dir.mkdir(exist_ok=True)
    assert list(log_dir.iterdir()) == []


def test_a_file_that_keeps_the_log_from_being_written_is_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The file is named, not only the directory, whose permissions may be right."""
    formatted(tmp_path / "log")
    obstacle = tmp_path / "log" / CLEAN_SHUTDOWN_NAME
    obstacle.unlink()
    obstacle.mkdir()
    assert main(["serve", "--config", str(write_config(tmp_path, tmp_path / "log"))]) == 1
    assert f"{obstacle}: Is a directory\n" in capfd.readouterr().err


def test_another_nodes_directory_is_refused(tmp_path: Path) -> None:
    """Two nodes must not share a log."""
    formatted(tmp_path / "log")
    with pytest.raises(StartError, match=r"node\.id: 2, but .* belongs to node 1"):
        claimed(tmp_path / "log", node_id=2)


def test_a_quorums_log_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    """The other voters' log stays unchanged."""
    write_log(tmp_path, [added(1)])
    voters = b'{"leaderId":1,"currentVoters":[{"voterId":1},{"voterId":2}],"data_version":0}'
    write_file(tmp_path, "quorum-state", voters)
    with pytest.raises(LogDirectoryError, match=r"a quorum with node 2\."):
        claimed(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == [METADATA_TOPIC_DIRECTORY]


def test_kafkas_own_directory_is_claimed(real_log_dir: Path, tmp_path: Path) -> None:
    """It is that of a cluster's only node, and keeps its ids."""
    log_dir = tmp_path / "log"
    shutil.copytree(real_log_dir, log_dir)
    assert claimed(log_dir).cluster_id == "AAAAAAAAQACAAAAAAAAAAQ"


def test_a_log_that_says_nothing_gets_a_cluster(tmp_path: Path) -> None:
    """The id is the same at each start."""
    write_log(tmp_path, [added(1)])
    properties = claimed(tmp_path)
    assert ID.fullmatch(properties.cluster_id)
    assert claimed(tmp_path) == read_meta_properties(tmp_path) == properties


def test_a_directory_without_a_log_is_not_claimed(tmp_path: Path) -> None:
    """It may still be formatted: the refusal leaves nothing in it."""
    with pytest.raises(LogDirectoryError, match=METADATA_TOPIC_DIRECTORY):
        claimed(tmp_path)
    assert list(tmp_path.iterdir()) == []
    formatted(tmp_path)
    claimed(tmp_path)


def test_what_is_formatted_is_not_formatted_again(tmp_path: Path) -> None:
    """Its log and its properties are kept."""
    properties = formatted(tmp_path / "log")
    with pytest.raises(LogDirectoryError, match="already formatted; nothing was changed"):
        formatted(tmp_path / "log")
    assert claimed(tmp_path / "log") == properties


def test_a_log_that_lacks_its_properties_is_not_formatted(tmp_path: Path) -> None:
    """It may be somebody's log."""
    write_log(tmp_path, [added(1)])
    with pytest.raises(LogDirectoryError, match="already formatted; nothing was changed"):
        formatted(tmp_path)
    assert len(read_acls(tmp_path)) == 1


@pytest.mark.parametrize("cluster_id", ["", "a b", "a\nnode.id=2", "back\\slash", "é", "日"])
def test_a_cluster_id_that_would_be_read_otherwise_is_refused(
    tmp_path: Path, cluster_id: str
) -> None:
    """Nothing is created then."""
    with pytest.raises(StartError, match="--cluster-id: "):
        formatted(tmp_path / "log", cluster_id=cluster_id)
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize("cluster_id", ["a=b:c#!", "x"])
def test_a_cluster_id_is_read_as_it_was_written(tmp_path: Path, cluster_id: str) -> None:
    """Characters with a meaning in properties files are preserved."""
    formatted(tmp_path / "log", cluster_id=cluster_id)
    assert claimed(tmp_path / "log").cluster_id == cluster_id


@pytest.mark.parametrize("failing", ["append", "sync", "sync_directory", "append_to"])
@pytest.mark.parametrize("skip", [0, 1])
def test_a_failing_disk_is_named(tmp_path: Path, failing: str, skip: int) -> None:
    """The error is not a traceback, whichever file fails."""
    with pytest.raises(LogDirectoryError, match="Input/output error"):
        formatted(tmp_path / "log", storage=RecordingStorage(failing, skip=skip))


@pytest.mark.parametrize(
    "failing",
    ["append", "sync", "sync_directory", "append_to", "rename", "make_directory"],
)
@pytest.mark.parametrize("skip", range(6))
@pytest.mark.parametrize("is_crash", [False, True])
def test_a_formatting_that_fails_can_be_tried_again(
    tmp_path: Path, failing: str, skip: int, is_crash: bool
) -> None:
    """At any call: until it is done the directory is refused, and then it is as new."""
    log_dir = tmp_path / "log"
    storage = RecordingStorage(failing, skip=skip, is_crash=is_crash)
    try:
        formatted(log_dir, cluster_id="first", storage=storage)
    except (LogDirectoryError, PowerFailure):
        if read_meta_properties(log_dir) is None:
            with pytest.raises(LogDirectoryError):
                claimed(log_dir)
            formatted(log_dir, cluster_id="second")
    assert claimed(log_dir).cluster_id in ("first", "second")
    assert read_acls(log_dir) == {}
    names = {each.name for each in log_dir.iterdir()}
    assert names == {NAME, METADATA_TOPIC_DIRECTORY, ".kafka_cleanshutdown"}


def test_ids_are_kafkas() -> None:
    """A random UUID of version 4 in 22 letters, without a leading hyphen, as tools expect."""
    first_tries = iter([b"\xf8" + bytes(15), b"\xfb" * UUID_BYTES, b"\x01" * UUID_BYTES])
    assert new_uuid(lambda _: next(first_tries)) == "AQEBAQEBQQGBAQEBAQEBAQ"
    made = {new_uuid() for _ in range(500)}
    assert len(made) == 500
    assert all(ID.fullmatch(each) and not each.startswith("-") for each in made)


def test_nothing_else_stands_in_a_formatted_directory(tmp_path: Path) -> None:
    """No partial file is left."""
    formatted(tmp_path / "log")
    names = {each.name for each in (tmp_path / "log").iterdir()}
    assert names == {NAME, METADATA_TOPIC_DIRECTORY, ".kafka_cleanshutdown"}
