"""A backup: one checkpoint in Kafka's format, with facts about it and checksums.

The facts are in the checkpoint's footer, in a field that Kafka's readers skip. They include the
SHA-256 of everything before the footer, which itself has a CRC. So the facts cannot be separated
from the state. A file next to the backup has the SHA-256 of the whole, for ``sha256sum -c``.

**Invariant:** a backup gets its name only once the backup and the checksum file are durable.

Source: KIP-630; KIP-482 (readers skip the tagged fields that they do not know).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from authorizerd.acl.as_of import format_time
from authorizerd.acl.listing import derive_id
from authorizerd.acl.model import Acl
from authorizerd.acl.state_version import combine_ids
from authorizerd.image.cluster import ClusterImage
from authorizerd.metadata.checkpoint_writer import (
    PART_SUFFIX,
    CheckpointState,
    encode_checkpoint,
    removed_on_error,
)
from authorizerd.metadata.errors import BackupError
from authorizerd.metadata.log_state import LogState
from authorizerd.metadata.meta_properties import write_whole
from authorizerd.metadata.storage import PRIVATE_NEW_DISK, Storage
from authorizerd.protocol.records.record_names import name_record_types

FORMAT: Final = "authorizerd-backup"
VERSION: Final = 1
CHECKSUM_SUFFIX: Final = ".sha256"
OWN_LOG: Final = "own log"


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """How much a state contains.

    Attributes:
        acls_digest: tells sets of ACLs apart, regardless of their ids.
        configs: the number of dynamic configs, each a key of a resource.
    """

    acls: int
    acls_digest: str
    topics: int
    partitions: int
    configs: int
    scram_credentials: int
    features: Mapping[str, int]


class BackupFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts in the footer of a backup.

    Attributes:
        cluster_id: empty if it is not known.
        source: ``OWN_LOG``, or how the copy's daemon follows the cluster (``authorizerd.source``).
        offset: the last offset that the state includes.
        time: the time of the record at that offset.
        written: when the backup was made.
        sha256: of all bytes before the footer.
    """

    format: str = FORMAT
    version: int = VERSION
    cluster_id: str
    node_id: int
    directory_id: str
    source: str
    offset: int
    epoch: int
    time: str
    written: str
    contents: Contents
    sha256: str = ""


class Backup(msgspec.Struct, frozen=True, kw_only=True):
    """A backup that was written, or read and verified.

    ``sha256`` covers the whole file.
    """

    path: Path
    facts: BackupFacts
    state: CheckpointState
    sha256: str


def count_contents(cluster: ClusterImage, acls: Mapping[bytes, Acl]) -> Contents:
    """Return how much a state contains."""
    return Contents(
        acls=len(acls),
        acls_digest=combine_ids(map(derive_id, acls.values())).hex(),
        topics=len(cluster.topics),
        partitions=sum(len(topic.partitions) for topic in cluster.topics.values()),
        configs=sum(map(len, cluster.configs.values())),
        scram_credentials=len(cluster.credentials),
        features=dict(sorted(cluster.features.items())),
    )


def write_backup(
    state: LogState, path: Path, now_ms: int, storage: Storage = PRIVATE_NEW_DISK
) -> Backup:
    """Write the state of a log to ``path``, which must not exist, and the checksum next to it.

    Raises:
        BackupError: the log has records that the backup would lose, or there is such a file.
        OSError: the backup could not be written. No file has its name.
    """
    check_complete(state)
    if storage.exists(path):
        raise BackupError(f"{path}: already exists, nothing was written: name another file")
    content, properties = state.content, state.properties
    facts = BackupFacts(
        cluster_id=properties.cluster_id if properties else "",
        node_id=properties.node_id if properties else -1,
        directory_id=properties.directory_id if properties else "",
        source=state.mark.source if state.mark else OWN_LOG,
        offset=content.end_offset - 1,
        epoch=content.epoch,
        time=format_time(content.timestamp_ms),
        written=format_time(now_ms),
        contents=count_contents(content.cluster, content.acls),
    )
    part = path.with_name(path.name + PART_SUFFIX)
    checksum = sha256()

    def complete_facts() -> bytes:
        nonlocal facts
        facts = replace(facts, sha256=checksum.hexdigest())
        return msgspec.json.encode(facts)

    with suppress(FileNotFoundError):
        storage.remove(part)
    beside = checksum_path(path)
    with removed_on_error(part, storage):
        with closing(storage.append_to(part)) as file:
            for batch in encode_checkpoint(content, complete_facts):
                file.append([batch])
                checksum.update(batch)
            file.sync()
        digest = checksum.hexdigest()
        beside_part = beside.with_name(beside.name + PART_SUFFIX)
        with removed_on_error(beside_part, storage), removed_on_error(beside, storage):
            line = f"{digest}  {path.name}\n".encode("utf-8", "surrogateescape")
            write_whole(beside, line, storage)
            storage.rename(part, path)
    storage.sync_directory(path.parent)
    return Backup(path=path, facts=facts, state=content, sha256=digest)


def check_complete(state: LogState) -> None:
    """Reject a daemon's own log with records that our checkpoint would lose.

    A copy is accepted: it has only the records that its daemon uses.

    Raises:
        BackupError: there are such records. The text names them and the remedy.
    """
    if state.mark is None and state.foreign_types:
        raise BackupError(
            "the log has records that this daemon does not keep, and a backup would lose: "
            f"{name_record_types(state.foreign_types)}. Back up the whole log directory instead "
            "(`authorizerd docs backup`), or only the ACLs with `authorizerd acls export`"
        )


def checksum_path(path: Path) -> Path:
    """Return the name of the file with the checksum of the backup at ``path``."""
    return path.with_name(path.name + CHECKSUM_SUFFIX)
