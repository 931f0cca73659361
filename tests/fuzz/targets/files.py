"""Files that a disk may have damaged: record batches, logs, checkpoints, backups, small files."""

import tarfile
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

from authorizerd.acl.errors import PastMismatchError
from authorizerd.cli.shell.commands import Shell
from authorizerd.cli.shell.log_tree import log_tree, read_contents
from authorizerd.image.errors import ChangeError
from authorizerd.metadata.backups.backup_reader import read_backup
from authorizerd.metadata.copy_directory import read_mark
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY, check_names
from authorizerd.metadata.errors import LogDirectoryError, MetadataLogError
from authorizerd.metadata.inspection.repair import plan_repair
from authorizerd.metadata.log_end import LogEnd
from authorizerd.metadata.log_state import read_state
from authorizerd.metadata.meta_properties import is_cluster_id, read_meta_properties
from authorizerd.metadata.past.history import read_history
from authorizerd.metadata.past.past_log import read_past
from authorizerd.metadata.quorum_state import check_sole_voter
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.records.batch import (
    HEADER_SIZE,
    control_types,
    decode_batch,
    read_record,
    sealed_size,
)
from authorizerd.protocol.records.control import decode_snapshot_footer, decode_snapshot_header
from authorizerd.protocol.records.foreign import decode_foreign
from authorizerd.protocol.records.leader_change import decode_leader_change
from authorizerd.protocol.records.metadata import MetadataRecord, decode_value, encode_value
from authorizerd.protocol.records.voters import decode_voters
from tests.conftest import REAL_LOG
from tests.fuzz.target import (
    OWN_CHARACTERS_MAX,
    in_thread,
    reader,
    rejected_with,
)
from tests.metadata.sound_logs import SEGMENTS, write_sound_log
from tests.metadata.stored_files import StoredFiles, acls_read, faults_of
from tests.support import foreign_records
from tests.support.backups import new_backup
from tests.support.log_files import added, resealed
from tests.support.record_readers import read_fast, read_general
from tests.support.sasl import credential_of

PLACE: Final = Path("/log")
SEED_BYTES_MAX: Final = 4_000
_LENGTH_AT: Final = 8


@cache
def _real_files() -> dict[str, bytes]:
    with tarfile.open(REAL_LOG) as archive:
        members = [each for each in archive if each.isfile()]
        read = {each.name: archive.extractfile(each) for each in members}
        return {Path(name).name: file.read() for name, file in read.items() if file is not None}


def _split(segment: bytes) -> Iterator[bytes]:
    """Yield the batches of a segment, as their lengths say."""
    place = 0
    while place + _LENGTH_AT + 4 <= len(segment):
        size = 12 + int.from_bytes(segment[place + _LENGTH_AT : place + 12], signed=True)
        yield segment[place : place + max(size, 12)]
        place += max(size, 12)


def _batches() -> Iterator[bytes]:
    """Yield batches of every kind: our own, and those of a real log."""
    for batches in SEGMENTS.values():
        yield from batches
    sizes: set[int] = set()
    for name, data in _real_files().items():
        if name.endswith((".log", ".checkpoint")):
            for batch in _split(data):
                if len(batch) < SEED_BYTES_MAX and len(batch) not in sizes:
                    sizes.add(len(batch))
                    yield batch


def _check_batch(data: bytes) -> None:
    """Without its checksum, no batch is read; with it, both readers read the same records."""
    sealed_size(data)
    with rejected_with(DecodeError):
        decode_batch(data)
    with rejected_with(DecodeError):
        batch = decode_batch(resealed(data.ljust(HEADER_SIZE, b"\0")))
        assert read_fast(batch) == read_general(batch)
        for decode in (
            decode_snapshot_header,
            decode_snapshot_footer,
            decode_leader_change,
            decode_voters,
        ):
            with rejected_with(DecodeError):
                decode(batch)
        if batch.is_control:
            list(control_types(batch))


def _values() -> Iterator[bytes]:
    """Yield the values of records of every type."""
    types: dict[bytes, int] = {}
    for data in _batches():
        with rejected_with(DecodeError):
            batch, position = decode_batch(data), HEADER_SIZE
            for _ in range(0 if batch.is_control else batch.count):
                place = read_record(data, position)
                value, position = data[place.value_start : place.value_end], place.next
                types[value[:3]] = types.get(value[:3], 0) + 1
                if types[value[:3]] <= 3:
                    yield value
    yield encode_value(credential_of("alice", "wonder"))
    yield from (foreign_records.broker(version) for version in range(5))
    yield from (foreign_records.controller(), foreign_records.changed(), foreign_records.token("t"))
    yield foreign_records.quota("producer_byte_rate", 1.5, user="a", client_id=None)


def _check_value(data: bytes) -> None:
    """A record that was read is written and read again."""
    with rejected_with(DecodeError):
        decode_foreign(data, 0, len(data))
    with rejected_with(DecodeError):
        record = decode_value(data, 0, len(data))
        if record is not None:
            written = encode_value(record)
            assert decode_value(written, 0, len(written)) == record


@cache
def _sound_log() -> dict[Path, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        write_sound_log(Path(folder), checkpoints=True)
        (Path(folder) / METADATA_TOPIC_DIRECTORY / "quorum-state").write_bytes(_QUORUM_STATE)
        (Path(folder) / "copy.properties").write_bytes(b"version=1\nsource=quorum\n")
        stored = StoredFiles.of(Path(folder))
        return {PLACE / path.relative_to(folder): data for path, data in stored.files.items()}


_QUORUM_STATE: Final = (
    b'{"leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,'
    b'"currentVoters":[{"voterId":1}],"data_version":0}'
)


def _log_seeds() -> Iterator[bytes]:
    for number, data in enumerate(_sound_log().values()):
        yield bytes((number,)) + data


def _damaged_log(data: bytes) -> StoredFiles:
    """Return the log in which one file has these bytes, with valid checksums, or the old ones."""
    files = dict(_sound_log())
    path = [*files][data[0] % len(files)] if data else next(iter(files))
    content = data[1:]
    if path.suffix in (".log", ".checkpoint") and len(data) % 4:
        content = b"".join(
            resealed(each) if len(each) >= HEADER_SIZE else each for each in _split(content)
        )
    files[path] = content
    return StoredFiles(files)


def _check_log(data: bytes) -> None:
    """A start reads the log or names the fault, and check-log and a repair never crash."""
    storage = _damaged_log(data)
    without_mark = StoredFiles(
        {path: each for path, each in storage.files.items() if path.name != "copy.properties"}
    )
    readers: tuple[Callable[[StoredFiles], object], ...] = (
        lambda storage: acls_read(PLACE, storage),
        lambda storage: faults_of(PLACE, storage),
        lambda storage: plan_repair(PLACE, storage),
        lambda storage: read_state(PLACE, storage),
        lambda storage: LogEnd.recover(PLACE, storage),
    )
    for number, read in enumerate(readers):
        with rejected_with(MetadataLogError, ChangeError):
            read(storage if number == len(readers) - 1 else without_mark)


def _check_past(data: bytes) -> None:
    """The history of a damaged log and its metadata shell are read, or its fault is named.

    Each removal of the history is that of an ACL which was in force. Its end may be another state
    than that of a start, which does not read what a checkpoint covers.
    """
    storage = _damaged_log(data)
    with rejected_with(MetadataLogError, ChangeError, PastMismatchError):
        past = read_past(PLACE, lambda log: read_history(log, lambda _: True), storage=storage)
        state = dict(past.acls)
        for change in past.changes:
            if change.is_added:
                assert change.id not in state
                state[change.id] = change.acl
            else:
                assert state.pop(change.id) == change.acl
    with rejected_with(MetadataLogError):
        contents = read_contents(PLACE, storage=storage)
        printed: list[str] = []
        shell = Shell(log_tree(contents), printed.append, is_interactive=False)
        for words in (
            ["tree", "/"],
            ["cat", "/image/provenance"],
            ["cat", "/image/acls/byId/*"],
            ["find"],
        ):
            assert shell.run(words) in (0, 1)
        assert all(line[:-1].isprintable() for line in printed)
        assert contents.acls == acls_read(PLACE, storage)


def _check_small_file(data: bytes) -> None:
    for name, read in (
        ("meta.properties", lambda storage: read_meta_properties(PLACE, storage)),
        ("copy.properties", lambda storage: read_mark(PLACE, storage)),
        (
            f"{METADATA_TOPIC_DIRECTORY}/quorum-state",
            lambda storage: check_sole_voter(PLACE, 1, storage),
        ),
    ):
        with rejected_with(LogDirectoryError):
            read(StoredFiles({PLACE / name: data}))
    is_cluster_id(data.decode("latin-1"))


def _check_name(data: bytes) -> None:
    """A file with any name beside the log is reported, or is not ours."""
    name = data.decode("utf-8", "surrogateescape").replace("/", "").replace("\0", "") or "x"
    files = _sound_log() | {PLACE / METADATA_TOPIC_DIRECTORY / name: b""}
    with rejected_with(MetadataLogError, characters=OWN_CHARACTERS_MAX):
        check_names(PLACE, StoredFiles(files))


@cache
def _backup() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        records: list[MetadataRecord] = [added(1), added(2), credential_of("alice", "wonder")]
        return new_backup(Path(folder), records).path.read_bytes()


def _check_backup(data: bytes) -> None:
    """Nothing but the state that was backed up is accepted."""
    path = PLACE / "nightly.checkpoint"
    for content in (data, b"".join(map(_resealed_or_not, _split(data)))):
        with rejected_with(MetadataLogError, characters=OWN_CHARACTERS_MAX):
            read = read_backup(path, StoredFiles({path: content}))
            whole = read_backup(path, StoredFiles({path: _backup()}))
            assert read.state == whole.state  # with valid checksums, the facts may be others


def _resealed_or_not(batch: bytes) -> bytes:
    return resealed(batch) if len(batch) >= HEADER_SIZE else batch


_SMALL: Final = ("meta.properties", "copy.properties")

FILE_TARGETS: Final = (
    reader("record-batches", _check_batch, _batches, weight=60),
    reader("metadata-records", _check_value, _values, weight=80),
    in_thread("log-files", _check_log, _log_seeds, weight=3),
    in_thread("log-past", _check_past, _log_seeds, weight=3),
    in_thread("backups", _check_backup, lambda: (_backup(),), weight=8),
    in_thread(
        "log-properties",
        _check_small_file,
        lambda: (_QUORUM_STATE, *(_sound_log()[PLACE / name] for name in _SMALL)),
        words=(b"version=1", b"node.id=", b"cluster.id=", b"source=quorum\n", b'"data_version":0'),
        weight=20
    ),
    in_thread("log-names", _check_name,
              lambda: (b"00000000000000000010.log", b"00000000000000000010-0000000002.checkpoint"),
              words=(b".deleted", b".checkpoint", b".log", b".part", b".corrupt", b".index", b"-")),
)  # fmt: skip
