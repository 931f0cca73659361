"""The files of a log directory, recognized by their names."""

import re
from pathlib import Path

import pytest

from authorizerd.metadata.directory import (
    METADATA_TOPIC_DIRECTORY,
    Checkpoint,
    Segment,
    check_names,
    checkpoint_name,
    find_files,
    parse_checkpoint_name,
    segment_name,
)
from authorizerd.metadata.errors import LogDirectoryError
from authorizerd.metadata.storage import DISK
from tests.support.log_files import write_file

OTHERS = [
    "00000000000000000007.log.deleted",
    "00000000000000000007.index",
    "00000000000000000007.timeindex",
    "00000000000000000007.snapshot",
    "00000000000000000009-0000000001.checkpoint.part",
    "00000000000000000009-0000000001.checkpoint.deleted",
    "00000000000000000009-0000000001.checkpoint~",
    "0000000000000000009-0000000001.checkpoint",
    "00000000000000000009-000000001.checkpoint",
    "00000000000000000009_0000000001.checkpoint",
    "٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٧.log",
    "7.log",
    "000000000000000000007.log",
    "leader-epoch-checkpoint",
    "partition.metadata",
    "quorum-state",
    ".lock",
]


def test_names_are_kafkas() -> None:
    assert segment_name(0) == "00000000000000000000.log"
    assert segment_name(2**63 - 1) == "09223372036854775807.log"
    assert checkpoint_name(925, 1) == "00000000000000000925-0000000001.checkpoint"
    assert checkpoint_name(0, 2**31 - 1) == "00000000000000000000-2147483647.checkpoint"


def test_checkpoint_name_has_end_offset_and_epoch(tmp_path: Path) -> None:
    """The end offset is exclusive."""
    path = tmp_path / checkpoint_name(925, 3)
    assert parse_checkpoint_name(path) == Checkpoint(end_offset=925, epoch=3, path=path)


@pytest.mark.parametrize("name", [*OTHERS, segment_name(0)])
def test_other_name_is_not_a_checkpoint(name: str) -> None:
    with pytest.raises(LogDirectoryError, match="expected a log directory, or a checkpoint"):
        parse_checkpoint_name(Path(name))


def test_segments_and_checkpoints_are_sorted(tmp_path: Path) -> None:
    """By offset, then by epoch."""
    segments = [write_file(tmp_path, segment_name(offset)) for offset in (900, 0, 30)]
    places = [(40, 2), (7, 1), (40, 1), (1000, 1)]
    checkpoints = {place: write_file(tmp_path, checkpoint_name(*place)) for place in places}
    found = find_files(tmp_path)
    assert found.segments == (
        Segment(0, segments[1]), Segment(30, segments[2]), Segment(900, segments[0])
    )  # fmt: skip
    assert found.checkpoints == tuple(
        Checkpoint(*place, checkpoints[place]) for place in [(7, 1), (40, 1), (40, 2), (1000, 1)]
    )


def test_unfinished_deleted_and_other_files_are_skipped(tmp_path: Path) -> None:
    segment = write_file(tmp_path, segment_name(7))
    for name in OTHERS:
        write_file(tmp_path, name)
    found = find_files(tmp_path)
    assert found.segments == (Segment(7, segment),)
    assert found.checkpoints == ()


def test_clean_shutdown_is_marked_by_kafkas_file(tmp_path: Path) -> None:
    write_file(tmp_path, segment_name(0))
    assert not find_files(tmp_path).was_shut_down_cleanly
    (tmp_path / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":9}')
    assert find_files(tmp_path).was_shut_down_cleanly


def test_directory_without_a_metadata_log_is_rejected(tmp_path: Path) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    with pytest.raises(LogDirectoryError) as missing:
        find_files(tmp_path)
    assert str(missing.value) == (
        f"{tmp_path}: no metadata log found (expected __cluster_metadata-0 in it). Name the log "
        "directory, or check that the volume is mounted"
    )
    write_file(tmp_path, "quorum-state")
    with pytest.raises(LogDirectoryError) as empty:
        find_files(tmp_path)
    assert str(empty.value) == f"{directory}: expected a log segment or a checkpoint, found neither"
    with pytest.raises(LogDirectoryError) as inner:
        find_files(directory)
    assert str(inner.value) == (
        f"{directory}: this is the log itself. Name the directory that contains it: {tmp_path}"
    )
    with pytest.raises(LogDirectoryError, match="expected a log directory, found a file"):
        find_files(directory / "quorum-state")


@pytest.mark.parametrize(
    "name",
    [
        "00000000000000000010.lo",
        "0000000000000000001.log",
        "00000000000000000010-000000001.checkpoint",
        "x.log",
        "99999999999999999999.log",
    ],
)
def test_name_that_resembles_a_log_file_is_rejected(tmp_path: Path, name: str) -> None:
    """If the file were ignored, an older state of the log would be served."""
    directory = tmp_path / METADATA_TOPIC_DIRECTORY
    directory.mkdir()
    for sound in (
        segment_name(0),
        "00000000000000000000.index",
        "leader-epoch-checkpoint",
        "notes",
    ):
        (directory / sound).touch()
    check_names(tmp_path, DISK)
    (directory / name).touch()
    with pytest.raises(LogDirectoryError, match=f"{re.escape(name)}: the name "):
        check_names(tmp_path, DISK)
