"""Write the example's log: a few ACLs in Kafka's format."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from authorizerd.acl.model import AclAdded
from authorizerd.image.changes import FeatureLevel
from authorizerd.image.features import METADATA_VERSION_FEATURE, METADATA_VERSION_KNOWN
from authorizerd.management.formats.document import read_yaml
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY, segment_name
from authorizerd.protocol.records.batch import encode_batch
from authorizerd.protocol.records.control import leader_change
from authorizerd.protocol.records.metadata import encode_value

NODE_ID: Final = 1
EPOCH: Final = 1
WRITTEN_MS: Final = 1_767_225_600_000
"""2026-01-01, so that the log has the same bytes every time."""
ACLS: Final = read_yaml(Path(__file__).with_name("acls.yaml").read_text()).acls


def write_log(log_dir: Path, metadata_version: int = METADATA_VERSION_KNOWN) -> None:
    """Write the log to ``log_dir``; overwrite an existing one."""
    directory = log_dir / METADATA_TOPIC_DIRECTORY
    directory.mkdir(parents=True, exist_ok=True)
    version = FeatureLevel(METADATA_VERSION_FEATURE, metadata_version)
    added = [AclAdded(number.to_bytes(16, "big"), acl) for number, acl in enumerate(ACLS, 1)]
    batches = (
        encode_batch(0, EPOCH, WRITTEN_MS, [leader_change(NODE_ID)], is_control=True),
        encode_batch(1, EPOCH, WRITTEN_MS, [(None, encode_value(version))]),
        encode_batch(2, EPOCH, WRITTEN_MS, [(None, encode_value(change)) for change in added]),
    )
    (directory / segment_name(0)).write_bytes(b"".join(batches))
