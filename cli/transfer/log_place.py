"""Log directories and checkpoints: read at a moment, created, or appended to.

**Invariant:** all ACLs of an import become visible together, or none of them. A log that a daemon
or a broker uses is never written to. ACL ids are kept when copying from log to log.

Source: KIP-801 (records), KIP-868 (transactions), KIP-630 (checkpoints).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from immutables import Map
from msgspec.structs import replace

from authorizerd.acl.as_of import AsOf
from authorizerd.acl.grants.model import make_grant_note
from authorizerd.acl.grants.reading import read_grants
from authorizerd.acl.listing import ID_BYTES, derive_id
from authorizerd.acl.model import Acl, AclAdded
from authorizerd.acl.notes import is_note
from authorizerd.cli.errors import CommandError
from authorizerd.cli.log.stopped_log import SEGMENT_BYTES_MAX, StoppedLog
from authorizerd.cli.offline import read_log
from authorizerd.cli.program.ending import saying
from authorizerd.cli.transfer import model
from authorizerd.cli.transfer.text_place import find_writable, new_error
from authorizerd.daemon.process.utc_time import now_ms
from authorizerd.daemon.sources.own_log_directory import claim_log_directory, format_log_directory
from authorizerd.image.cluster import ClusterImage
from authorizerd.management.batches import split_batches
from authorizerd.management.formats.values import keep_writable
from authorizerd.metadata import checkpoint_writer
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY, parse_checkpoint_name
from authorizerd.metadata.errors import LogDirectoryError
from authorizerd.metadata.lock import locked
from authorizerd.metadata.meta_properties import NAME, UNFINISHED_NAME, read_meta_properties
from authorizerd.metadata.storage import DISK, Storage
from authorizerd.metadata.writer import FEATURES_WRITTEN
from authorizerd.protocol.records.metadata import BeginTransaction, EndTransaction, MetadataRecord

TRANSACTION: Final = "authorizerd acls import"
_UNKNOWN: Final = (
    "it is not known whether all ACLs or none were written: run the command again, which adds what "
    "is missing"
)


class LogSource:
    """A log directory or a checkpoint file, at its end or at an earlier moment."""

    def __init__(self, path: Path, as_of: AsOf | None = None) -> None:
        self._path = path
        self._as_of = as_of
        self.name = str(path)

    def read(self) -> model.AclsFound:
        acls = read_log(self._path, self._as_of).snapshot.acls
        ids = {acl: acl_id for acl_id, acl in acls.items()}
        return model.AclsFound(tuple(ids), ids)


class LogTarget:
    """A log directory, to be created, or with a stopped daemon.

    Args:
        node_id: the node's id; None to keep an existing directory's. cluster_id: the id for a new
            directory; None for a random one.
    """

    kind = "log directory"
    is_standard_output = False

    def __init__(
        self,
        log_dir: Path,
        *,
        node_id: int | None = None,
        cluster_id: str | None = None,
        segment_bytes_max: int = SEGMENT_BYTES_MAX,
        storage: Storage = DISK,
    ) -> None:
        self._log_dir = log_dir
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._segment_bytes_max = segment_bytes_max
        self._storage = storage
        self.name = str(log_dir)
        self.is_complete = self._is_new()

    def _is_new(self) -> bool:
        """Return True if there is no log, or only one whose formatting was interrupted."""
        directory, storage = self._log_dir, self._storage
        try:
            if storage.exists(directory / NAME):
                return False
            has_log = storage.exists(directory / METADATA_TOPIC_DIRECTORY)
            return not has_log or storage.exists(directory / UNFINISHED_NAME)
        except OSError as error:
            raise LogDirectoryError(f"{directory}: {error.strerror or error}") from error

    @contextmanager
    def open(self) -> Iterator[_NewLog | _StoppedLog]:
        if self.is_complete:
            if self._node_id is None:
                expected = "expected --config FILE or --node-id ID for a new log directory"
                raise CommandError(f"{self._log_dir}: {expected}")
            yield _NewLog(self._log_dir, self._node_id, self._cluster_id, self._storage)
            return
        if self._cluster_id is not None:
            raise CommandError(f"--cluster-id: {self._log_dir} already has a cluster id")
        with locked(self._log_dir):
            yield _StoppedLog(self._log_dir, self._claim(), self._segment_bytes_max, self._storage)

    def _claim(self) -> int:
        """Return the node's id, once it is certain that the log may be written to."""
        node_id = self._node_id
        if node_id is None:
            properties = read_meta_properties(self._log_dir, self._storage)
            if properties is None:
                raise CommandError(
                    f"{self._log_dir}: expected --config FILE or --node-id ID: the directory has "
                    f"no {NAME}"
                )
            node_id = properties.node_id
        claim_log_directory(self._log_dir, node_id=node_id, storage=self._storage)
        return node_id


class _NewLog:
    """A log directory that does not exist yet."""

    def __init__(
        self, log_dir: Path, node_id: int, cluster_id: str | None, storage: Storage
    ) -> None:
        self._log_dir = log_dir
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._storage = storage

    def draft(self, found: model.AclsFound) -> model.Draft:
        return _draft(found, {})

    def write(self, draft: model.Draft, found: model.AclsFound) -> model.Written:
        """Format the directory, with the ACLs. It is valid only once all are durable."""
        added = [AclAdded(found.ids.get(acl) or derive_id(acl), acl) for acl in draft.new]
        with saying(lambda: f"{self._log_dir}: {_UNKNOWN}"):
            properties = format_log_directory(
                self._log_dir,
                cluster_id=self._cluster_id,
                node_id=self._node_id,
                storage=self._storage,
                batches=frame_batches(added),
            )
        return model.Written(
            count=len(added),
            cluster_id=properties.cluster_id,
            notes=(
                f"formatted {self._log_dir}: cluster {properties.cluster_id}, node {self._node_id}",
            ),
        )


class _StoppedLog:
    """A log whose lock is held."""

    def __init__(
        self, log_dir: Path, node_id: int, segment_bytes_max: int, storage: Storage
    ) -> None:
        self._log = StoppedLog(log_dir, node_id, segment_bytes_max, storage)

    def draft(self, found: model.AclsFound) -> model.Draft:
        ids = {acl: acl_id for acl_id, acl in self._log.snapshot.acls.items()}
        return _draft(found, ids)

    def write(self, draft: model.Draft, found: model.AclsFound) -> model.Written:
        """Append the ACLs as a daemon would after its start. Without ACLs, nothing is written."""
        if not draft.new:
            return model.Written(count=0, offset=self._log.snapshot.offset)
        batches = frame_batches([AclAdded(self._new_id(acl, found), acl) for acl in draft.new])
        place = self._log.log_dir
        offset = self._log.append(
            batches, f"{place}: {_UNKNOWN}", nothing="no ACL was written", unknown=_UNKNOWN
        )
        return model.Written(count=len(draft.new), offset=offset)

    def _new_id(self, acl: Acl, found: model.AclsFound) -> bytes:
        """Return the ACL's id in the source, unless another ACL here has that id."""
        acl_id = found.ids.get(acl)
        if acl_id is not None and acl_id not in self._log.snapshot.acls:
            return acl_id
        return os.urandom(ID_BYTES)


class CheckpointTarget:
    """A checkpoint file. Its name states the end offset and the epoch."""

    kind = "checkpoint"
    is_complete = True
    is_standard_output = False

    def __init__(self, path: Path, *, overwrite: bool = False, storage: Storage = DISK) -> None:
        self._path = path
        self._overwrite = overwrite
        self._storage = storage
        self.name = str(path)

    @contextmanager
    def open(self) -> Iterator[CheckpointTarget]:
        try:
            parse_checkpoint_name(self._path)
        except LogDirectoryError:
            raise CommandError(
                f"{self._path}: expected a name such as 00000000000000000001-0000000001.checkpoint:"
                " 20 digits of the end offset, and 10 of the epoch"
            ) from None
        self._path, _ = find_writable(self._path, overwrite=self._overwrite)
        yield self

    def draft(self, found: model.AclsFound) -> model.Draft:
        return _draft(found, {})

    def write(self, draft: model.Draft, found: model.AclsFound) -> model.Written:
        path, storage = self._path, self._storage
        named = parse_checkpoint_name(path)
        state = checkpoint_writer.CheckpointState(
            end_offset=named.end_offset,
            epoch=named.epoch,
            timestamp_ms=now_ms(),
            cluster=ClusterImage(features=Map(FEATURES_WRITTEN)),
            acls={found.ids.get(acl) or derive_id(acl): acl for acl in draft.new},
        )
        part = path.with_name(path.name + checkpoint_writer.PART_SUFFIX)
        try:
            if storage.exists(part):  # left by an interrupted command; opening appends
                storage.remove(part)
            with checkpoint_writer.removed_on_error(part, storage):
                checkpoint_writer.write_part(part, state, storage, like=path)
                storage.rename(part, path)
            storage.sync_directory(path.parent)
        except OSError as error:
            raise new_error(path, error) from error
        return model.Written(count=len(draft.new), offset=named.end_offset - 1)


def _draft(found: model.AclsFound, present: Mapping[Acl, bytes]) -> model.Draft:
    if present:
        return model.draft_missing(found, present, model.find_log_fault)
    acls = (_adapt_note(acl, found.ids) if is_note(acl) else acl for acl in found.acls)
    kept, losses = keep_writable(acls, model.find_log_fault)
    return model.Draft(model.order_for_writing(tuple(kept)), losses=losses)


def _adapt_note(note: Acl, ids: Mapping[Acl, bytes]) -> Acl:
    """Return the note of a grant without its ACL's id, unless the ACL keeps that id here.

    With another id, the ACL would count as one that somebody made again, without an end.
    """
    for grant in read_grants([note]).grants:
        if grant.acl_id not in (None, ids.get(grant.acl)):
            return make_grant_note(replace(grant, acl_id=None))
    return note


def frame_batches(added: Sequence[AclAdded]) -> list[list[MetadataRecord]]:
    """Return the batches of these records; several batches form one transaction.

    A daemon limits a batch to what one request may change. Records of a transaction that a crash
    interrupted never become visible.
    """
    batches: list[list[MetadataRecord]] = [
        list(batch) for batch in split_batches(added, lambda record: record.acl)
    ]
    if len(batches) > 1:
        batches[0].insert(0, BeginTransaction(TRANSACTION))
        batches[-1].append(EndTransaction())
    return batches
