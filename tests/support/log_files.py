"""Write metadata logs byte by byte, so that tests can damage them.

``write_log`` is the short form; the other functions write single batches, segments and checkpoints.
"""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from crc32c import crc32c

from authorizerd.acl.index.builder import SnapshotBuilder
from authorizerd.acl.model import Acl, AclAdded, AclRemoved
from authorizerd.image.changes import FeatureLevel
from authorizerd.image.cluster import EMPTY_IMAGE, ClusterImage, apply_cluster_changes
from authorizerd.image.features import METADATA_VERSION_FEATURE
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY, checkpoint_name, segment_name
from authorizerd.metadata.replay import read_changes
from authorizerd.protocol.records.batch import ControlType, encode_batch
from authorizerd.protocol.records.control import (
    Record,
    leader_change,
    snapshot_footer,
    snapshot_header,
)
from authorizerd.protocol.records.metadata import MetadataRecord, encode_value
from tests.support.acls import acl as new_acl

EPOCH = 1
TIME_MS = 1_792_000_000_000
METADATA_VERSION = FeatureLevel(METADATA_VERSION_FEATURE, 30)
"""4.3-IV0: Kafka 4.3 reads the files as well."""

_CONTROL_RECORDS = {
    ControlType.LEADER_CHANGE: leader_change(1),
    ControlType.SNAPSHOT_HEADER: snapshot_header(TIME_MS),
    ControlType.SNAPSHOT_FOOTER: snapshot_footer(),
}


def acl_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def added(number: int, acl: Acl | None = None) -> AclAdded:
    """Return the record that adds ``acl``; by default, User:a may read topic-``number``."""
    return AclAdded(acl_id(number), new_acl(topic=f"topic-{number}") if acl is None else acl)


def removed(number: int) -> AclRemoved:
    return AclRemoved(acl_id(number))


def data_batch(
    base_offset: int,
    records: Sequence[MetadataRecord | bytes],
    *,
    epoch: int = EPOCH,
    time_ms: int = TIME_MS,
) -> bytes:
    """Return a batch of records; a record given as bytes is written as is."""
    values = [each if isinstance(each, bytes) else encode_value(each) for each in records]
    return encode_batch(base_offset, epoch, time_ms, [(None, value) for value in values])


def control_batch(base_offset: int, control_type: ControlType, *, epoch: int = EPOCH) -> bytes:
    """Return a LeaderChange of node 1, or a checkpoint's header or footer."""
    record = _CONTROL_RECORDS[control_type]
    return encode_batch(base_offset, epoch, TIME_MS, [record], is_control=True)


def checkpoint_batches(
    records: Sequence[MetadataRecord | bytes],
    *,
    epoch: int = EPOCH,
    end_offset: int | None = None,
    time_ms: int = TIME_MS,
    controls: Sequence[Record] = (),
) -> tuple[bytes, ...]:
    """Return the header, one batch of ``records`` if there are any, and the footer.

    Args:
        end_offset: the end offset in the header. None omits it, as Kafka does.
        time_ms: the header's time.
        controls: control records that follow the header in its batch, as in Kafka.
    """
    controls = [snapshot_header(time_ms, end_offset=end_offset), *controls]
    return (
        encode_batch(0, epoch, TIME_MS, controls, is_control=True),
        *([data_batch(len(controls), records, epoch=epoch)] if records else []),
        control_batch(len(controls) + len(records), ControlType.SNAPSHOT_FOOTER, epoch=epoch),
    )


def resealed(batch: bytes) -> bytes:
    """Return ``batch`` with its length and CRC corrected."""
    length = (len(batch) - 12).to_bytes(4, "big")
    crc = crc32c(batch[21:]).to_bytes(4, "big")
    return batch[:8] + length + batch[12:17] + crc + batch[21:]


def flipped(data: bytes, position: int, mask: int = 0x01) -> bytes:
    return data[:position] + bytes((data[position] ^ mask,)) + data[position + 1 :]


def write_file(log_dir: Path, name: str, *pieces: bytes) -> Path:
    """Write one file of the log below ``log_dir``, which is created if necessary."""
    path = log_dir / METADATA_TOPIC_DIRECTORY / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(pieces))
    return path


def write_segment(log_dir: Path, base_offset: int, *batches: bytes) -> Path:
    return write_file(log_dir, segment_name(base_offset), *batches)


def write_checkpoint(
    log_dir: Path, end_offset: int, records: Sequence[MetadataRecord | bytes], *, epoch: int = EPOCH
) -> Path:
    name = checkpoint_name(end_offset, epoch)
    pieces = checkpoint_batches(records, epoch=epoch, end_offset=end_offset)
    return write_file(log_dir, name, *pieces)


def write_kafka_checkpoint(
    log_dir: Path,
    end_offset: int,
    records: Sequence[MetadataRecord | bytes],
    *,
    epoch: int = EPOCH,
    time_ms: int = TIME_MS,
) -> Path:
    """Write a checkpoint as Kafka does, without its end offset in the header."""
    name = checkpoint_name(end_offset, epoch)
    return write_file(log_dir, name, *checkpoint_batches(records, epoch=epoch, time_ms=time_ms))


def write_log(log_dir: Path, *batches: Sequence[MetadataRecord | bytes]) -> Path:
    """Write one segment: LeaderChange at 0, metadata.version at 1, ``batches``; return its path.

    Batches without a record are left out.
    """
    pieces = [control_batch(0, ControlType.LEADER_CHANGE)]
    offset = 1
    for records in ([METADATA_VERSION], *filter(None, batches)):
        pieces.append(data_batch(offset, records))
        offset += len(records)
    return write_segment(log_dir, 0, *pieces)


def read_acls(path: Path) -> dict[bytes, Acl]:
    """Return the ACLs by id at the end of a log directory, or of a checkpoint."""
    builder = SnapshotBuilder()
    for batch in read_changes(path):
        builder.apply_changes(batch.changes)
    return dict(builder.freeze(0).acls.items())


def read_cluster(path: Path) -> ClusterImage:
    """Return the cluster image at the end of a log directory or a checkpoint."""
    image = EMPTY_IMAGE
    for batch in read_changes(path):
        image = apply_cluster_changes(image, batch.cluster_changes)
    return image


@contextmanager
def held(log_dir: Path) -> Iterator[None]:
    """Hold the lock of a log directory in another process, as a daemon does."""
    code = (
        "import sys; from pathlib import Path; from authorizerd.metadata.lock import locked\n"
        "with locked(Path(sys.argv[1])): print(flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(log_dir)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        yield
        holder.communicate()
