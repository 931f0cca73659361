"""Decide whether a backup may be restored to a directory, and where its log continues.

**Invariant:** a copy, or a log of other nodes or of another cluster, is never replaced. The
restored log continues after the end of the old one, in a later epoch. Otherwise, a client that
knows an offset of the old log would confuse its changes with the restored ones.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.acl.model import Acl
from authorizerd.image.errors import ChangeError
from authorizerd.metadata.backups.backup import Backup
from authorizerd.metadata.batch_file import BatchFile
from authorizerd.metadata.copy_directory import MARK_NAME, read_mark
from authorizerd.metadata.directory import (
    METADATA_TOPIC_DIRECTORY,
    RESTORE_PREFIX,
    LogFiles,
    sort_files,
)
from authorizerd.metadata.epochs import EPOCH_MAX
from authorizerd.metadata.errors import BackupError, LogDirectoryError, MetadataLogError
from authorizerd.metadata.lock import LOCK_NAME
from authorizerd.metadata.log_state import read_state
from authorizerd.metadata.meta_properties import NAME as PROPERTIES_NAME
from authorizerd.metadata.meta_properties import (
    MetaProperties,
    check_format_is_finished,
    read_meta_properties,
)
from authorizerd.metadata.quorum_state import check_sole_voter
from authorizerd.metadata.storage import DISK, Storage
from authorizerd.protocol.records.batch import HEADER_SIZE

EPOCHS_LEFT_MIN: Final = 1_000_000
OFFSET_MAX: Final = 2**62

_NAMES_IN_EMPTY: Final = frozenset((LOCK_NAME, "lost+found"))
"""Names that a directory may have before its first log: a new volume has ``lost+found``."""


class OldLog(msgspec.Struct, frozen=True, kw_only=True):
    """The log that a restore replaces.

    Attributes:
        next_offset: the offset after its last record, or a later one if it is damaged.
        last_epoch: that of its last record, or a later one if it is damaged.
        fault: why it cannot be read, empty if it can.
        acls: by id; None if it cannot be read.
    """

    next_offset: int
    last_epoch: int
    fault: str = ""
    acls: frozenset[Acl] | None = None


class RestoreTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A directory that may be given a restored log.

    Attributes:
        properties: of the restored log.
        has_properties: True if the directory has them already.
        old: the log that is replaced, None if there is none.
        end_offset, epoch: where the restored log begins.
    """

    log_dir: Path
    properties: MetaProperties
    has_properties: bool
    old: OldLog | None
    end_offset: int
    epoch: int

    @property
    def has_log(self) -> bool:
        return self.old is not None


def check_place(log_dir: Path, storage: Storage = DISK) -> bool:
    """Return True if the directory exists; reject one that has other files than those of a log.

    It may be missing or empty: then a restore creates the log. Nothing is written.

    Raises:
        BackupError: it has other files, and no log.
        LogDirectoryError: it cannot be read.
    """
    try:
        names = set(storage.names(log_dir))
    except FileNotFoundError:
        return False
    except OSError as error:
        raise LogDirectoryError(f"{log_dir}: {error.strerror or error}") from error
    of_a_log = (PROPERTIES_NAME, METADATA_TOPIC_DIRECTORY, MARK_NAME, RESTORE_PREFIX)
    others = sorted(names - _NAMES_IN_EMPTY)
    if others and not any(name.startswith(of_a_log) for name in others):
        raise BackupError(
            f"{log_dir}: expected a log directory or an empty one, found {others[0]!r} and no "
            f"{PROPERTIES_NAME}: name the log directory, or a new one"
        )
    return True


def examine_target(
    log_dir: Path,
    backup: Backup,
    *,
    node_id: int | None,
    new_id: Callable[[], str],
    is_other_cluster: bool = False,
    next_offset: int = 0,
    storage: Storage = DISK,
) -> RestoreTarget:
    """Return the target, once it is certain that the backup may be restored there.

    Args:
        node_id: the node of the restored log; None to keep the directory's or the backup's node.
        new_id: returns a new id for a directory or a cluster that has none.
        is_other_cluster: accept a backup of another cluster. The directory's id stays.
        next_offset: the log continues at this offset or later.

    Raises:
        BackupError: the directory belongs to another cluster or node, or is a copy.
        MetadataLogError: the log belongs to other nodes, or a file cannot be read.
    """
    mark = read_mark(log_dir, storage)
    if mark is not None:
        raise BackupError(
            f"{log_dir}: expected a log of its own, found a copy of a followed cluster "
            f"({MARK_NAME}): restore the cluster, then run `authorizerd reset-copy`"
        )
    check_format_is_finished(log_dir, storage)
    found = read_meta_properties(log_dir, storage)
    properties = _choose_properties(log_dir, backup, found, node_id, new_id)
    cluster_id = backup.facts.cluster_id
    is_another = found is not None and found.cluster_id != cluster_id
    if is_another and not is_other_cluster:
        raise BackupError(
            f"{log_dir}: expected a directory of cluster {cluster_id or 'unknown'}, as the backup, "
            f"found cluster {properties.cluster_id}: name the right directory, or pass "
            "--other-cluster to restore the ACLs of one cluster into another"
        )
    check_sole_voter(log_dir, properties.node_id, storage)
    old = _read_old(log_dir, storage)
    end_offset = max(backup.state.end_offset, next_offset)
    epoch = backup.state.epoch
    if old is not None:
        # Skip one offset, so that a client at the end of the old log notices the change.
        end_offset = max(end_offset, old.next_offset + 1)
        epoch = max(epoch, old.last_epoch + 1)
    if epoch > EPOCH_MAX - EPOCHS_LEFT_MIN or end_offset > OFFSET_MAX:
        raise BackupError(
            f"{log_dir}: the restored log would begin at offset {end_offset} in epoch {epoch}, "
            "which leaves too few: move the old log away, and restore into an empty directory"
        )
    return RestoreTarget(
        log_dir=log_dir,
        properties=properties,
        has_properties=found is not None,
        old=old,
        end_offset=end_offset,
        epoch=epoch,
    )


def _choose_properties(
    log_dir: Path,
    backup: Backup,
    found: MetaProperties | None,
    node_id: int | None,
    new_id: Callable[[], str],
) -> MetaProperties:
    """Return the properties of the restored log: those of the directory, if it has any."""
    if found is None:
        node_id = backup.facts.node_id if node_id is None else node_id
        if node_id < 0:
            raise BackupError(
                f"{log_dir}: the backup does not say which node it is of: pass --config, whose "
                "node.id is used"
            )
        return MetaProperties(backup.facts.cluster_id or new_id(), node_id, new_id())
    if node_id not in (None, found.node_id):
        raise BackupError(
            f"node.id: {node_id}, but {log_dir} belongs to node {found.node_id} "
            "(meta.properties): correct node.id, or name the right directory"
        )
    return found


def _read_old(log_dir: Path, storage: Storage) -> OldLog | None:
    """Return the log of the directory, None if there is none.

    Raises:
        LogDirectoryError: its files cannot be listed.
    """
    directory = log_dir / METADATA_TOPIC_DIRECTORY
    try:
        if not storage.exists(directory):
            return None
        files = sort_files(directory / name for name in storage.names(directory))
        try:
            state = read_state(log_dir, storage)
        except (MetadataLogError, ChangeError) as error:
            return _bound_damaged(files, storage, str(error))
    except OSError as error:
        raise LogDirectoryError(f"{directory}: {error.strerror or error}") from error
    # What looks like an unfinished write may also be damage.
    return OldLog(
        next_offset=state.next_offset + state.torn_bytes,
        last_epoch=state.last_epoch + state.torn_bytes // HEADER_SIZE,
        acls=frozenset(state.content.acls.values()),
    )


def _bound_damaged(files: LogFiles, storage: Storage, fault: str) -> OldLog:
    """Return an offset and an epoch that a damaged log has not exceeded.

    A record takes more than one byte, and an epoch begins with a batch. So what cannot be read has
    at most as many records as bytes, and one epoch for each header that would fit.
    """
    next_offset = epoch = unread = 0
    for checkpoint in files.checkpoints:
        next_offset = max(next_offset, checkpoint.end_offset)
        epoch = max(epoch, checkpoint.epoch)
    for segment in files.segments:
        size = storage.size(segment.path)
        next_offset = max(next_offset, segment.base_offset + size)
        position = 0
        try:
            with BatchFile(segment.path, segment.base_offset, storage) as file:
                while (placed := file.read(may_be_torn=True)) is not None:
                    epoch = max(epoch, placed.batch.leader_epoch)
                    position = file.position
        except MetadataLogError:
            pass
        unread += size - position
    return OldLog(next_offset=next_offset, last_epoch=epoch + unread // HEADER_SIZE, fault=fault)
