"""Restore a backup: build a new log next to the old one, verify it, and swap the two.

Everything happens inside the log directory, because it may be the mount point of a volume, and
because its lock must hold throughout. The new log is built in ``restore-TIME``, a log directory of
its own. It is exchanged with the old log in one step, and the directory, which then has the old
log, is renamed to ``replaced-TIME``. Nothing of the old log is ever removed.

**Invariant:** after a crash at any point, the log is either the old or the new one, whole. On a
file system that cannot exchange two names, there may be neither: then the daemon refuses to start,
and the next restore first puts the old log back. Offsets and epochs never go back.

Source: KIP-630; KIP-595.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec.structs import replace

from authorizerd.metadata.backups.backup import Backup, count_contents
from authorizerd.metadata.backups.restore_target import RestoreTarget
from authorizerd.metadata.checkpoint_writer import CheckpointState, write_checkpoint
from authorizerd.metadata.directory import (
    METADATA_TOPIC_DIRECTORY,
    REPLACED_PREFIX,
    RESTORE_PREFIX,
)
from authorizerd.metadata.errors import BackupError
from authorizerd.metadata.inspection.findings import Fault
from authorizerd.metadata.inspection.inspection import Inspection
from authorizerd.metadata.log_state import read_state
from authorizerd.metadata.meta_properties import (
    NAME,
    write_meta_properties,
)
from authorizerd.metadata.storage import DISK, NO_EXCHANGE, Storage, find_unused

_OLD_NAME = "replaced"
"""The old log's temporary name, on a file system that cannot exchange two names."""


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a restore.

    Attributes:
        end_offset: the offset at which the log continues.
        epoch: that of the restored checkpoint. The next start begins a later epoch.
        replaced: the directory that has the old log; None if there was none, or nothing was
            replaced.
    """

    end_offset: int
    epoch: int
    replaced: Path | None


def recover(log_dir: Path, storage: Storage = DISK) -> Path | None:
    """Clean up after a restore that was interrupted between two renames.

    Returns: the directory from which the old log was put back, None if the log was in place.

    Raises:
        OSError: a rename failed. The call can be repeated.
    """
    log = log_dir / METADATA_TOPIC_DIRECTORY
    for name in sorted(storage.names(log_dir), reverse=True):
        old = log_dir / name / _OLD_NAME
        if name.startswith(RESTORE_PREFIX) and storage.exists(old):
            is_missing = not storage.exists(log)
            storage.rename(old, log if is_missing else old.with_name(METADATA_TOPIC_DIRECTORY))
            storage.sync_directory(log_dir)
            storage.sync_directory(old.parent)
            return old.parent if is_missing else None
    return None


def restore(
    backup: Backup,
    target: RestoreTarget,
    now: datetime,
    storage: Storage = DISK,
    *,
    is_dry_run: bool = False,
) -> Restored:
    """Put the state of a backup in place of the target's log. The caller holds its lock.

    Args:
        now: the time of the restore, from which on the state is in force.
        is_dry_run: prove that the backup can be restored, and remove what was built.

    Raises:
        BackupError: the new log differs from the backup. Nothing was replaced.
        MetadataLogError: a file cannot be read back. Nothing was replaced.
        OSError: a file operation failed.
    """
    log_dir = target.log_dir
    time = f"{now.astimezone(UTC):%Y%m%dT%H%M%SZ}"
    part = find_unused(log_dir / f"{RESTORE_PREFIX}{time}", storage)
    state = replace(
        backup.state,
        end_offset=target.end_offset,
        epoch=target.epoch,
        # Do not use the backup's time: before the restore, a different state was in force.
        timestamp_ms=int(now.timestamp() * 1000),
    )
    storage.make_directory(part, log_dir / METADATA_TOPIC_DIRECTORY)
    try:
        _build(part, state, target, storage)
        _prove(part, state, backup, storage)
    except Exception:
        with suppress(OSError):
            _remove(part, storage)
        raise
    if is_dry_run:
        _remove(part, storage)
        return Restored(end_offset=state.end_offset, epoch=state.epoch, replaced=None)
    if not target.has_properties:
        # Write this before the log: a log without properties would get a new cluster's id.
        write_meta_properties(log_dir, target.properties, storage)
    replaced = None
    if target.has_log:
        replaced = find_unused(log_dir / f"{REPLACED_PREFIX}{time}", storage)
        _exchange(part, log_dir, storage)
        storage.rename(part, replaced)
        storage.sync_directory(log_dir)
    else:
        storage.rename(part / METADATA_TOPIC_DIRECTORY, log_dir / METADATA_TOPIC_DIRECTORY)
        storage.sync_directory(log_dir)
        storage.sync_directory(part)
        _remove(part, storage)
    return Restored(end_offset=state.end_offset, epoch=state.epoch, replaced=replaced)


def _build(part: Path, state: CheckpointState, target: RestoreTarget, storage: Storage) -> None:
    """Write a whole log directory, durably, with the permissions of the directory that it
    replaces."""
    replaced = target.log_dir / METADATA_TOPIC_DIRECTORY
    names = storage.names(replaced) if target.has_log else []
    storage.sync_directory(part.parent)
    write_meta_properties(part, target.properties, storage)
    storage.make_directory(part / METADATA_TOPIC_DIRECTORY, replaced)
    storage.sync_directory(part)
    like = replaced / max(names) if names else None
    write_checkpoint(part, state, storage, like=like)


def _prove(part: Path, state: CheckpointState, backup: Backup, storage: Storage) -> None:
    """Raise BackupError if the log in ``part`` is invalid, or differs from the backup."""
    for found in Inspection(part, storage).findings():
        if isinstance(found, Fault):
            raise BackupError(f"the restored log has a fault, nothing was replaced: {found}")
    read = read_state(part, storage)
    counted = count_contents(read.content.cluster, read.content.acls)
    # Records and places, then the backup's own facts: neither may differ.
    if read.content != state or counted != backup.facts.contents:
        raise BackupError(
            f"the restored log differs from the backup, nothing was replaced: expected "
            f"{backup.facts.contents}, found {counted}"
        )


def _exchange(part: Path, log_dir: Path, storage: Storage) -> None:
    """Put the log in ``part`` into the log directory, and the old one into ``part``."""
    new, log = part / METADATA_TOPIC_DIRECTORY, log_dir / METADATA_TOPIC_DIRECTORY
    try:
        storage.exchange(new, log)
    except OSError as error:
        if error.errno not in NO_EXCHANGE:
            raise
        _exchange_by_renames(part, log_dir, storage)
    storage.sync_directory(log_dir)
    storage.sync_directory(part)


def _exchange_by_renames(part: Path, log_dir: Path, storage: Storage) -> None:
    """Like ``_exchange``, but in three steps. Between the first two, the directory has no log."""
    new, log = part / METADATA_TOPIC_DIRECTORY, log_dir / METADATA_TOPIC_DIRECTORY
    steps: tuple[tuple[Path, Path], ...] = (
        (log, part / _OLD_NAME),
        (new, log),
        (part / _OLD_NAME, new),
    )
    for source, renamed in steps:
        storage.rename(source, renamed)
        for directory in (log_dir, part):
            storage.sync_directory(directory)


def _remove(part: Path, storage: Storage) -> None:
    """Remove a directory that this restore has created, and nothing else."""
    log = part / METADATA_TOPIC_DIRECTORY
    if storage.exists(log):
        for name in storage.names(log):
            storage.remove(log / name)
        storage.remove_directory(log)
    for name in (NAME, f"{NAME}.part"):
        with suppress(FileNotFoundError):
            storage.remove(part / name)
    storage.remove_directory(part)
    storage.sync_directory(part.parent)
