"""Read a backup, and verify all of it.

**Invariant:** the returned state is exactly the one that was backed up, or there is an error: every
checksum, every record and every fact is compared.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import asdict

from authorizerd.acl.index.builder import SnapshotBuilder
from authorizerd.acl.model import Acl
from authorizerd.image.cluster import EMPTY_IMAGE, ClusterImage, apply_cluster_changes
from authorizerd.image.errors import ChangeError
from authorizerd.metadata.backups.backup import (
    FORMAT,
    VERSION,
    Backup,
    BackupFacts,
    Contents,
    checksum_path,
    count_contents,
)
from authorizerd.metadata.checkpoint import CheckpointReader, corrupt, locate_checkpoint
from authorizerd.metadata.checkpoint_writer import CheckpointState
from authorizerd.metadata.directory import Checkpoint
from authorizerd.metadata.errors import BackupError, CorruptLogError, LogDirectoryError
from authorizerd.metadata.log import LogBatch
from authorizerd.metadata.replay import Replay
from authorizerd.metadata.storage import PRIVATE_DISK, Storage, read_small
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.json_faults import JSON_ERRORS, describe_json_fault
from authorizerd.protocol.records.control import decode_snapshot_footer
from authorizerd.protocol.records.record_names import name_record_types

_CHECKSUM: Final = re.compile(rb"([0-9a-f]{64})  [^\n]+\n?")
_BYTES_PER_READ: Final = 1024 * 1024
_ANOTHER: Final = "use another copy"


class _Kind(msgspec.Struct, frozen=True):
    """The facts that every version of the format has."""

    format: str = FORMAT
    version: int = VERSION


def read_backup(path: Path, storage: Storage = PRIVATE_DISK) -> Backup:
    """Return a backup once all of it is verified: checksums, records, and the facts about them.

    Raises:
        BackupError: the file is not a backup, is damaged, or cannot be read.
    """
    digest = _check_file(path, storage)
    try:
        return _read_checkpoint(path, digest, storage)
    except CorruptLogError as error:
        raise BackupError(
            f"{path}: the file is damaged, cut, or not a backup: {_ANOTHER}. At byte "
            f"{error.position}, log offset {error.offset}: {error.reason}"
        ) from error


def _read_checkpoint(path: Path, digest: str, storage: Storage) -> Backup:
    checkpoint = _locate(path, storage)
    reader = CheckpointReader(checkpoint, storage)
    try:
        cluster, acls = _replay(path, reader, checkpoint)
    except ChangeError as error:
        raise BackupError(
            f"{path}: the file is damaged, {_ANOTHER}: its records contradict each other: {error}"
        ) from error
    facts = _read_facts(path, reader)
    assert reader.footer is not None, "read to the end"
    _check_facts(path, facts, checkpoint, count_contents(cluster, acls))
    before_footer = _hash_file(path, storage, reader.footer.position)
    if before_footer != facts.sha256:
        raise BackupError(_describe_checksum(path, facts.sha256, before_footer))
    state = CheckpointState(
        end_offset=checkpoint.end_offset,
        epoch=checkpoint.epoch,
        timestamp_ms=reader.header.last_timestamp_ms if reader.header else 0,
        cluster=cluster,
        acls=acls,
    )
    return Backup(path=path, facts=facts, state=state, sha256=digest)


def _locate(path: Path, storage: Storage) -> Checkpoint:
    try:
        return locate_checkpoint(path, storage)
    except LogDirectoryError as error:
        raise BackupError(
            f"{path}: expected a file that `authorizerd backup` wrote, found a damaged or another "
            f"file: {_ANOTHER}"
        ) from error


def _check_file(path: Path, storage: Storage) -> str:
    """Return the file's SHA-256, once it agrees with the checksum file, if there is one."""
    beside = checksum_path(path)
    try:
        if not storage.size(path):
            raise BackupError(f"{path}: expected a backup, found an empty file: {_ANOTHER}")
        digest = _hash_file(path, storage)
        if not storage.exists(beside):
            return digest
        found = _CHECKSUM.fullmatch(read_small(storage, beside))
    except OSError as error:
        raise BackupError(f"{error.filename or path}: {error.strerror or error}") from error
    if found is None:
        raise BackupError(
            f"{beside}: expected one line of `sha256sum`: 64 hex digits and a file name"
        )
    if (expected := found[1].decode()) != digest:
        raise BackupError(_describe_checksum(path, expected, digest))
    return digest


def _hash_file(path: Path, storage: Storage, size: int | None = None) -> str:
    """Return the SHA-256 of the file's first ``size`` bytes, or of all."""
    checksum = sha256()
    left = storage.size(path) if size is None else size
    with storage.open(path) as file:
        while data := file.read(min(left, _BYTES_PER_READ)):
            checksum.update(data)
            left -= len(data)
    return checksum.hexdigest()


def _describe_checksum(path: Path, expected: str, found: str) -> str:
    return f"{path}: the file is damaged, {_ANOTHER}: expected SHA-256 {expected}, found {found}"


def _replay(
    path: Path, reader: CheckpointReader, checkpoint: Checkpoint
) -> tuple[ClusterImage, Mapping[bytes, Acl]]:
    """Return the state in a checkpoint.

    Raises:
        MetadataLogError: it is damaged, or has records that this version does not keep.
        ChangeError: its records contradict each other.
    """
    builder, cluster, replay = SnapshotBuilder(), EMPTY_IMAGE, Replay()
    for placed in reader.batches():
        log_batch = LogBatch(placed, checkpoint.end_offset - 1, is_checkpoint=True)
        for step in replay.steps(log_batch):
            if step is not None:
                builder.apply_changes(step.changes)
                cluster = apply_cluster_changes(cluster, step.cluster_changes)
    if replay.foreign_types:
        raise BackupError(
            f"{path}: has records that this version of the daemon does not keep: "
            f"{name_record_types(replay.foreign_types)}. Restore it with the version that wrote it"
        )
    return cluster, builder.freeze(checkpoint.end_offset - 1).acls


def _read_facts(path: Path, reader: CheckpointReader) -> BackupFacts:
    assert reader.footer is not None, "read to the end"
    try:
        data = decode_snapshot_footer(reader.footer.batch)
        if data is None:
            raise BackupError(
                f"{path}: expected a file that `authorizerd backup` wrote, found a checkpoint of a "
                "log: to restore it, copy the whole log directory that it belongs to"
            )
        kind = msgspec.json.decode(data, type=_Kind)
        if kind != _Kind():
            raise BackupError(
                f"{path}: expected {FORMAT} of version {VERSION}, found {kind.format} of version "
                f"{kind.version}: restore it with the version of the daemon that wrote it"
            )
        return msgspec.json.decode(data, type=BackupFacts)
    except DecodeError as error:
        raise corrupt(reader.footer, 0, error.reason, position=error.position) from error
    except JSON_ERRORS as error:
        raise BackupError(f"{path}: its facts: {describe_json_fault(error)}") from error


def _check_facts(path: Path, facts: BackupFacts, checkpoint: Checkpoint, found: Contents) -> None:
    """Raise BackupError if a fact contradicts the contents."""
    expected = {
        "offset": facts.offset,
        "epoch": facts.epoch,
        **asdict(facts.contents),
    }
    actual = {
        "offset": checkpoint.end_offset - 1,
        "epoch": checkpoint.epoch,
        **asdict(found),
    }
    for name, value in expected.items():
        if value != actual[name]:
            raise BackupError(
                f"{path}: the file is damaged, {_ANOTHER}: expected {name} {value}, as the backup "
                f"says, found {actual[name]}"
            )
