"""The recording for the demonstration: a broker's metadata log and audit log.

**Invariant:** the recording is only read. The daemon gets its own log, with the ACLs of one moment.
"""

from __future__ import annotations

import lzma
import shutil
import tarfile
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from immutables import Map
from pyarrow import parquet

from authorizerd.image.cluster import ClusterImage
from authorizerd.image.features import METADATA_VERSION_FEATURE, METADATA_VERSION_KNOWN
from authorizerd.metadata.checkpoint_writer import CheckpointState, write_checkpoint
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY
from authorizerd.metadata.storage import DISK
from authorizerd.replay.acl_set import AclSet

ARCHIVE: Final = Path(__file__).parents[2] / "tests" / "data" / "kafka-4.3.1.tar.xz"
SUPER_USER: Final = "User:admin"
"""The broker's principal; all others are clients."""

_LOG_DIR: Final = "kafka-4.3.1"
_AUDIT_LOG: Final = "kafka-authorizer.log"
_EPOCH: Final = 1


@dataclass(frozen=True, kw_only=True)
class Recording:
    """The paths of the unpacked recording; ``log_dir`` contains ``__cluster_metadata-0``."""

    log_dir: Path
    audit_log: Path


@dataclass(frozen=True, kw_only=True)
class ClientTimes:
    """The times of the first and last client request, and of the last request overall, in UTC."""

    first: datetime
    last: datetime
    end: datetime

    @property
    def last_text(self) -> str:
        return self.last.isoformat(timespec="milliseconds")


def unpack_recording(folder: Path) -> Recording:
    """Unpack the recording below ``folder``.

    Raises:
        OSError, tarfile.TarError, lzma.LZMAError: the archive is missing or damaged.
    """
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    log_dir, audit_log = folder / _LOG_DIR, folder / _AUDIT_LOG
    with lzma.open(log_dir / f"{_AUDIT_LOG}.xz") as packed, audit_log.open("wb") as file:
        shutil.copyfileobj(packed, file)
    return Recording(log_dir=log_dir, audit_log=audit_log)


def client_times(events: Path) -> ClientTimes:
    """Return the times of the events that an ingest wrote below ``events``.

    Raises:
        OSError, ValueError: there are no events, or no client caused any.
    """
    rows = parquet.read_table(events / "events", columns=["at", "principal"]).to_pylist()
    of_clients = [row["at"] for row in rows if row["principal"] != SUPER_USER]
    return ClientTimes(
        first=min(of_clients), last=max(of_clients), end=max(row["at"] for row in rows)
    )


def write_log(log_dir: Path, acl_set: AclSet) -> None:
    """Write a log with one checkpoint: ``acl_set``, at its offset and time.

    Raises:
        OSError: the log cannot be written.
    """
    (log_dir / METADATA_TOPIC_DIRECTORY).mkdir(parents=True)
    state = CheckpointState(
        end_offset=(acl_set.offset or 0) + 1,
        epoch=_EPOCH,
        timestamp_ms=acl_set.stamped_ms or 0,
        cluster=ClusterImage(features=Map({METADATA_VERSION_FEATURE: METADATA_VERSION_KNOWN})),
        acls={number.to_bytes(16, "big"): each.acl for number, each in enumerate(acl_set.acls, 1)},
    )
    write_checkpoint(log_dir, state, DISK)
