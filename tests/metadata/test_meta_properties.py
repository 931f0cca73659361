from contextlib import suppress
from pathlib import Path

import pytest

from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY
from authorizerd.metadata.errors import LogDirectoryError
from authorizerd.metadata.meta_properties import (
    NAME,
    MetaProperties,
    check_format_is_finished,
    format_directory,
    read_meta_properties,
    write_meta_properties,
)
from authorizerd.metadata.storage import Storage
from tests.support.recording_storage import PowerFailure, RecordingStorage

PROPERTIES = MetaProperties("AAAAAAAAQACAAAAAAAAAAQ", 1, "RMHudr8a9rrGxQEf6k-QdA")


def test_properties_read_back(tmp_path: Path) -> None:
    write_meta_properties(tmp_path, PROPERTIES, Storage())
    assert read_meta_properties(tmp_path) == PROPERTIES
    assert [each.name for each in tmp_path.iterdir()] == [NAME]


def test_kafkas_file_is_read(real_log_dir: Path) -> None:
    assert read_meta_properties(real_log_dir) == PROPERTIES


def test_javas_escapes_are_read(tmp_path: Path) -> None:
    text = "! a comment\n\nversion = 1\ncluster.id=a\\=b\\:c\nnode.id=1\n"
    (tmp_path / NAME).write_text(text)
    assert read_meta_properties(tmp_path) == MetaProperties("a=b:c", 1, "")


def test_file_may_be_missing(tmp_path: Path) -> None:
    assert read_meta_properties(tmp_path) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "expected version=1, found ''"),
        ("version=0\nbroker.id=1\ncluster.id=c\n", "expected version=1, found '0'"),
        ("version=\x1b[31m\n", r"expected version=1, found '\x1b[31m'"),
        ("version=1\nnode.id=1\n", "the key cluster.id is missing"),
        ("version=1\ncluster.id=c\n", "the key node.id is missing"),
        ("version=1\ncluster.id=c\nnode.id=one\n", "invalid node.id: expected a number"),
    ],
)
def test_invalid_text_is_rejected(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / NAME).write_text(text)
    with pytest.raises(LogDirectoryError) as refused:
        read_meta_properties(tmp_path)
    assert str(refused.value) == f"{tmp_path / NAME}: {reason}"


def test_unreadable_file_is_rejected(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    with pytest.raises(LogDirectoryError, match="Is a directory"):
        read_meta_properties(tmp_path)


def test_directory_is_formatted_once(tmp_path: Path) -> None:
    """A second format might give the log to another cluster."""
    log_dir = tmp_path / "log"
    format_directory(log_dir, PROPERTIES, Storage())
    assert (log_dir / METADATA_TOPIC_DIRECTORY).is_dir()
    assert read_meta_properties(log_dir) == PROPERTIES
    other = MetaProperties("other", 2, "")
    with pytest.raises(LogDirectoryError, match="already formatted; nothing was changed"):
        format_directory(log_dir, other, Storage())
    (log_dir / NAME).unlink()
    with pytest.raises(LogDirectoryError, match="already formatted; nothing was changed"):
        format_directory(log_dir, other, Storage())


def test_new_directories_are_durable(tmp_path: Path) -> None:
    storage = RecordingStorage()
    format_directory(tmp_path / "outer" / "log", PROPERTIES, storage)
    made = {name for _, name in storage.named("sync_directory")}
    assert made == {tmp_path.parent.name, tmp_path.name, "outer", "log"}


@pytest.mark.parametrize("what", ["make_directory", "sync_directory"])
@pytest.mark.parametrize("skip", range(4))
def test_directory_of_a_killed_attempt_becomes_durable(
    tmp_path: Path, what: str, skip: int
) -> None:
    """It exists, but its name may never have been synced."""
    log_dir = tmp_path / "outer" / "log"
    made = {"outer": tmp_path, "log": tmp_path / "outer", METADATA_TOPIC_DIRECTORY: log_dir}
    first = RecordingStorage(what, skip=skip, is_crash=True)
    with suppress(PowerFailure):
        format_directory(log_dir, PROPERTIES, first)
    durable = _durable(first, made)
    second = RecordingStorage()
    if read_meta_properties(log_dir) is None:
        format_directory(log_dir, PROPERTIES, second)
        assert durable | _durable(second, made) == made.keys()


def _durable(storage: RecordingStorage, made: dict[str, Path]) -> set[str]:
    """Return the directories whose names were synced while they existed."""
    there = {name for name, parent in made.items() if (parent / name).is_dir()}
    synced = {name for _, name in storage.named("sync_directory")}
    return {name for name in there if made[name].name in synced}


def test_interrupted_format_is_recognized(tmp_path: Path) -> None:
    """The last step finishes it."""
    log_dir = tmp_path / "log"
    with pytest.raises(PowerFailure):
        format_directory(log_dir, PROPERTIES, RecordingStorage("rename", skip=1, is_crash=True))
    assert read_meta_properties(log_dir) is None
    with pytest.raises(LogDirectoryError, match=r"interrupted .*Run `authorizerd format` again"):
        check_format_is_finished(log_dir, Storage())
    format_directory(log_dir, PROPERTIES, Storage())
    check_format_is_finished(log_dir, Storage())
    assert read_meta_properties(log_dir) == PROPERTIES


def test_interrupted_format_starts_again(tmp_path: Path) -> None:

    def fail() -> None:
        (tmp_path / METADATA_TOPIC_DIRECTORY / "half.log").write_bytes(b"half")
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        format_directory(tmp_path, PROPERTIES, Storage(), fail)
    other = MetaProperties("other", 2, "")
    format_directory(tmp_path, other, Storage())
    assert read_meta_properties(tmp_path) == other
    assert list((tmp_path / METADATA_TOPIC_DIRECTORY).iterdir()) == []
    assert {each.name for each in tmp_path.iterdir()} == {NAME, METADATA_TOPIC_DIRECTORY}


@pytest.mark.parametrize("what", ["append", "sync", "rename"])
def test_file_is_written_atomically(tmp_path: Path, what: str) -> None:
    with pytest.raises(PowerFailure):
        write_meta_properties(tmp_path, PROPERTIES, RecordingStorage(what, is_crash=True))
    assert read_meta_properties(tmp_path) is None
    write_meta_properties(tmp_path, PROPERTIES, Storage())
    assert read_meta_properties(tmp_path) == PROPERTIES


def test_file_is_synced_before_it_is_renamed(tmp_path: Path) -> None:
    storage = RecordingStorage()
    write_meta_properties(tmp_path, PROPERTIES, storage)
    assert [what for what, _ in storage.calls][-4:] == [
        "append",
        "sync",
        "rename",
        "sync_directory",
    ]


def test_failing_disk_gives_a_named_error(tmp_path: Path) -> None:
    with pytest.raises(LogDirectoryError, match=r"meta\.properties: Input/output error"):
        write_meta_properties(tmp_path, PROPERTIES, RecordingStorage("sync"))
    (tmp_path / "file").touch()
    with pytest.raises(LogDirectoryError, match="Not a directory"):
        format_directory(tmp_path / "file" / "log", PROPERTIES, Storage())
