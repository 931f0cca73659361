"""Check at the start that the log directory belongs to this node.

**Invariant:** nothing is written until it is certain that no other node uses the directory.
"""

from __future__ import annotations

import base64
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.daemon.errors import StartError
from authorizerd.daemon.process.utc_time import now_ms
from authorizerd.daemon.sources.copy_directory import refuse_copy
from authorizerd.image.changes import CredentialAdded
from authorizerd.image.features import METADATA_VERSION_KNOWN
from authorizerd.metadata.directory import (
    FORMAT_NEW_NODE,
    METADATA_TOPIC_DIRECTORY,
    describe_missing_log,
    find_files,
)
from authorizerd.metadata.errors import LogDirectoryError, naming
from authorizerd.metadata.log import Progress
from authorizerd.metadata.meta_properties import (
    MetaProperties,
    check_format_is_finished,
    format_directory,
    is_cluster_id,
    read_meta_properties,
    write_meta_properties,
)
from authorizerd.metadata.quorum_state import check_sole_voter
from authorizerd.metadata.replay import Replay
from authorizerd.metadata.storage import DISK, Storage
from authorizerd.metadata.writer import LogWriter
from authorizerd.protocol.records.metadata import MetadataRecord

UUID_BYTES: Final = 16

_logger = logging.getLogger(__name__)


def new_uuid(random_bytes: Callable[[int], bytes] = os.urandom) -> str:
    """Return a random id in Kafka's form: 22 base64 characters, the first not a hyphen."""
    while True:
        data = bytearray(random_bytes(UUID_BYTES))
        # Set version 4 and the RFC 4122 variant, as in Kafka's Uuid.randomUuid.
        data[6] = data[6] & 0x0F | 0x40
        data[8] = data[8] & 0x3F | 0x80
        text = base64.urlsafe_b64encode(data).decode().rstrip("=")
        if not text.startswith("-"):  # otherwise a shell command would read it as an option
            return text


def format_log_directory(
    log_dir: Path,
    *,
    cluster_id: str | None,
    node_id: int,
    storage: Storage,
    credentials: Sequence[CredentialAdded] = (),
    batches: Sequence[Sequence[MetadataRecord]] = (),
    metadata_version: int = METADATA_VERSION_KNOWN,
) -> MetaProperties:
    """Create a log directory for this node, with its log; return its properties.

    The log is created here and not at the first start, so that a start never mistakes a lost log
    for an empty one. An interrupted or failed call can be repeated.

    Args:
        credentials: the first users' credentials, written after the features in one batch.
        batches: records to write last, for example ACLs; each item is one batch.
        metadata_version: the level that the log gets.

    Raises:
        LogDirectoryError: the directory is already formatted, or cannot be written.
        StartError: the cluster id is invalid, or the directory is a copy of a followed cluster.
    """
    refuse_copy(log_dir, storage)
    if cluster_id is None:
        cluster_id = new_uuid()
    if not is_cluster_id(cluster_id):
        raise StartError(
            "--cluster-id: expected at most 255 printable ASCII characters without spaces and "
            f"backslashes, found {cluster_id!r}"
        )
    properties = MetaProperties(cluster_id, node_id, new_uuid())

    def begin_log() -> None:
        writer = LogWriter(log_dir, storage=storage, segment_bytes_max=2**31, now_ms=now_ms)
        try:
            writer.start(Progress(), Replay(), node_id=node_id, metadata_version=metadata_version)
            if credentials:
                writer.append([credentials])
            if batches:
                writer.append(batches)
        finally:
            writer.close()

    with naming(log_dir):
        not_done = _describe_not_added(credentials)
        format_directory(log_dir, properties, storage, begin_log, not_done=not_done)
    return properties


def _describe_not_added(credentials: Sequence[CredentialAdded]) -> str:
    """Return what to do about credentials that were not written, empty if there are none."""
    users = ", ".join(
        dict.fromkeys(escape_unprintable(credential.user) for credential in credentials)
    )
    return users and (
        f": no credential was added for {users}. Start the daemon, and add it with `kafka-configs"
        " --alter --entity-type users --entity-name USER --add-config 'MECHANISM=[password=...]'`"
    )


def check_log_is_there(log_dir: Path) -> None:
    """Raise an error if the directory is missing or empty, before anything is written to it.

    Raises:
        LogDirectoryError: there is no log.
        StartError: it is a copy of a followed cluster.
    """
    refuse_copy(log_dir, DISK)
    try:
        os.stat(log_dir / METADATA_TOPIC_DIRECTORY)
    except FileNotFoundError as error:
        raise LogDirectoryError(describe_missing_log(log_dir, FORMAT_NEW_NODE)) from error
    except OSError as error:
        raise LogDirectoryError(f"{log_dir}: {error.strerror or error}") from error


def claim_log_directory(log_dir: Path, *, node_id: int, storage: Storage) -> MetaProperties:
    """Return the directory's properties, once it is certain that this node may write to it.

    A log without properties is given a new cluster id.

    Raises:
        LogDirectoryError: there is no log, it is only partly formatted, other nodes vote on it, or
            files cannot be read.
        StartError: it belongs to another node, or is a copy of a followed cluster.
    """
    refuse_copy(log_dir, storage)
    check_format_is_finished(log_dir, storage)
    # Before any write: a write makes a directory look formatted.
    find_files(log_dir, storage, remedy=FORMAT_NEW_NODE)
    check_sole_voter(log_dir, node_id, storage)
    properties = read_meta_properties(log_dir, storage)
    if properties is None:
        properties = MetaProperties(new_uuid(), node_id, new_uuid())
        write_meta_properties(log_dir, properties, storage)
        _logger.info("%s: given cluster id %s", log_dir, properties.cluster_id)
    if properties.node_id != node_id:
        raise StartError(
            f"node.id: {node_id}, but {log_dir} belongs to node {properties.node_id} "
            "(meta.properties): correct node.id, or name the right directory"
        )
    return properties
