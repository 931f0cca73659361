"""Flip every byte of a log in turn. A start must then fail or serve the right ACLs, and check-log
must report the flip.
"""

import os
from collections.abc import Collection, Iterator
from itertools import product
from pathlib import Path
from typing import Literal

import pytest

from authorizerd.image.errors import ChangeError
from authorizerd.metadata.batch_file import SECTOR_SIZE
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY, checkpoint_name, find_files
from authorizerd.metadata.errors import CorruptLogError, LogDirectoryError
from authorizerd.metadata.log import MetadataLog
from authorizerd.protocol.records.batch import ControlType
from tests.metadata.sound_logs import PROPERTIES, SEGMENTS, write_sound_log
from tests.metadata.stored_files import StoredFiles, acls_read, faults_of
from tests.support.log_files import (
    METADATA_VERSION,
    acl_id,
    added,
    control_batch,
    data_batch,
    flipped,
    write_segment,
)
from tests.support.sizes import size

BITS = tuple(1 << bit for bit in range(0, 8, size(8, 1)))
RIGHT = {acl_id(number) for number in (2, 3, 6)}

Outcome = Literal["right", "wrong", "refused"]

UNDETECTABLE_BY_CONTENT = {
    "meta.properties": "the ids are any text; node.id is held against the configuration's",
    ".kafka_cleanshutdown": "that it is there is all that it says",
}
"""By file, why even check-log cannot find a changed byte in it. No ACL depends on these files."""


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return tmp_path / "log"


def outcome(log_dir: Path, storage: StoredFiles, right: Collection[bytes] = RIGHT) -> Outcome:
    """Return what a start does. An error for a corrupt log must name file, byte and offset."""
    try:
        return "right" if set(acls_read(log_dir, storage)) == right else "wrong"
    except CorruptLogError as error:
        is_placed = error.path in storage.files and error.position >= 0 <= error.offset
        return "refused" if is_placed else "wrong"
    except (ChangeError, LogDirectoryError):
        return "refused"


def flips(storage: StoredFiles, path: Path, masks: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Flip each byte of a file in turn, by each mask."""
    whole = storage.files[path]
    for position, mask in product(range(len(whole)), masks):
        storage.files[path] = flipped(whole, position, mask)
        yield position, mask
    storage.files[path] = whole


def check_flips(log_dir: Path, masks: tuple[int, ...]) -> None:
    """Check the invariant for each file of a valid log."""
    storage = StoredFiles.of(log_dir)
    assert outcome(log_dir, storage) == "right"
    assert not faults_of(log_dir, storage)
    for path in tuple(storage.files):
        for place in flips(storage, path, masks):
            assert outcome(log_dir, storage) != "wrong", (path.name, place)
            if path.name not in UNDETECTABLE_BY_CONTENT:
                assert faults_of(log_dir, storage), (path.name, place)


def test_every_flipped_bit_of_a_log_is_found(log_dir: Path) -> None:
    """This includes the last batch: no flip makes it look like an unfinished write."""
    write_sound_log(log_dir)
    check_flips(log_dir, BITS)


def test_every_flipped_byte_of_a_log_with_checkpoints_is_found(log_dir: Path) -> None:
    """check-log reads older segments and checkpoints as well."""
    write_sound_log(log_dir, checkpoints=True, clean=True)
    check_flips(log_dir, (0x01,))


def test_every_flipped_byte_of_a_trimmed_log_is_found(log_dir: Path) -> None:
    """A checkpoint that nothing else covers is rejected, never skipped."""
    write_sound_log(log_dir, checkpoints=True)
    directory = log_dir / METADATA_TOPIC_DIRECTORY
    for name in ("00000000000000000000.log", "00000000000000000006.log"):
        (directory / name).unlink()
    (directory / "00000000000000000004-0000000001.checkpoint").unlink()
    check_flips(log_dir, (0x40,))


def test_only_known_bytes_of_other_files_can_change_unnoticed(log_dir: Path) -> None:
    """For example the ids in meta.properties."""
    write_sound_log(log_dir)
    storage = StoredFiles.of(log_dir)
    unnoticed = set()
    for position, _ in flips(storage, log_dir / "meta.properties", BITS):
        if not faults_of(log_dir, storage):
            unnoticed.add(position)
    text = PROPERTIES.decode()
    last_line = text.index("directory.id")
    ids = {*range(text.index("abc"), text.index("abc") + 3), text.index("node.id=") + 8}
    line_ends = {position for position, character in enumerate(text) if character == "\n"}
    assert unnoticed <= ids | line_ends | {*range(last_line, len(text))}


def test_only_a_higher_epoch_of_a_last_leader_change_is_unnoticed(log_dir: Path) -> None:
    """Nothing that follows could contradict it, and ACLs do not depend on it."""
    first = (control_batch(0, ControlType.LEADER_CHANGE), data_batch(1, [METADATA_VERSION]))
    for epoch in (2, 2**31 - 2):
        last = control_batch(2, ControlType.LEADER_CHANGE, epoch=epoch)
        path = write_segment(log_dir, 0, *first, last)
        storage = StoredFiles.of(log_dir)
        start = sum(map(len, first))
        unnoticed = {
            (position - start, mask)
            for position, mask in flips(storage, path, BITS)
            if not faults_of(log_dir, storage)
        }
        assert unnoticed == {
            (position, mask)
            for position, mask in product(range(12, 16), BITS)
            if (epoch ^ mask << 8 * (15 - position)) in range(2, 2**31 - 1)
        }


@pytest.mark.parametrize("checkpoints", [False, True], ids=["segments", "checkpoints"])
def test_every_changed_name_is_found(log_dir: Path, checkpoints: bool) -> None:
    write_sound_log(log_dir, checkpoints=checkpoints)
    storage = StoredFiles.of(log_dir)
    directory = log_dir / METADATA_TOPIC_DIRECTORY
    for path in [each for each in storage.files if each.parent == directory]:
        whole = storage.files.pop(path)
        for position, mask in product(range(len(path.name)), BITS):
            name = os.fsdecode(flipped(path.name.encode(), position, mask))
            if not {*name} & {*"/\0"} and directory / name not in storage.files:
                storage.files[directory / name] = whole
                assert faults_of(log_dir, storage), name
                assert outcome(log_dir, storage) != "wrong", name
                del storage.files[directory / name]
        storage.files[path] = whole


def test_renamed_checkpoint_of_a_broker_gives_no_wrong_acls(real_log_dir: Path) -> None:
    """The file does not contain its end offset, so only the log can contradict a wrong name."""
    storage = StoredFiles.of(real_log_dir)
    right = set(acls_read(real_log_dir, storage))
    checkpoints = find_files(real_log_dir).checkpoints
    alone = StoredFiles(
        {path: data for path, data in storage.files.items() if "-" not in path.name}
    )
    ends = [each.last_offset + 1 for each in MetadataLog.open(real_log_dir, alone).batches()]
    some = ends[:: size(100, 20)]
    others = [*some, *(each.end_offset for each in checkpoints), ends[-1], ends[-1] + 1]
    outcomes = set()
    for checkpoint, end in product(checkpoints, others):
        moved = checkpoint.path.with_name(checkpoint_name(end, checkpoint.epoch))
        files = {**alone.files, moved: storage.files[checkpoint.path]}
        found = outcome(real_log_dir, StoredFiles(files), right)
        assert found != "wrong", (checkpoint, end)
        outcomes.add(found)
    assert outcomes == {"right", "refused"}


def test_length_that_includes_the_next_batches_is_rejected(log_dir: Path) -> None:
    write_sound_log(log_dir)
    storage = StoredFiles.of(log_dir)
    for base_offset, batches in SEGMENTS.items():
        path = log_dir / METADATA_TOPIC_DIRECTORY / f"{base_offset:020d}.log"
        whole = storage.files[path]
        start = 0
        for batch in batches:
            for end in range(start + 61, len(whole) + 70):
                if end != start + len(batch):
                    length = (end - start - 12).to_bytes(4, "big")
                    storage.files[path] = whole[: start + 8] + length + whole[start + 12 :]
                    assert outcome(log_dir, storage) == "refused", (base_offset, start, end)
            start += len(batch)
        storage.files[path] = whole


def test_damaged_last_batch_with_its_own_sector_of_zeros_looks_torn(log_dir: Path) -> None:
    """A bad CRC and 1,000 NULs are taken for an unfinished write, except after a clean shutdown."""
    acl = added(9).acl
    odd = data_batch(15, [added(9, type(acl)(2, "\0" * 1200, 3, "User:a", "*", 3, 2))], epoch=2)
    write_sound_log(log_dir)
    path = write_segment(log_dir, 10, *SEGMENTS[10], odd)
    storage = StoredFiles.of(log_dir)
    assert len(odd) > 2 * SECTOR_SIZE
    storage.files[path] = flipped(storage.files[path], len(storage.files[path]) - 3)
    assert outcome(log_dir, storage) == "right"
    assert not faults_of(log_dir, storage)
    storage.files[log_dir / ".kafka_cleanshutdown"] = b""
    assert outcome(log_dir, storage) == "refused"
    assert faults_of(log_dir, storage)
