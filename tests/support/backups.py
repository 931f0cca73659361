"""Backups of small logs."""

from collections.abc import Sequence
from pathlib import Path

from authorizerd.metadata.backups.backup import Backup, write_backup
from authorizerd.metadata.backups.backup_reader import read_backup
from authorizerd.metadata.log_state import read_state
from authorizerd.metadata.meta_properties import NAME, MetaProperties, write_meta_properties
from authorizerd.metadata.storage import DISK
from authorizerd.protocol.records.metadata import MetadataRecord
from tests.support.log_files import TIME_MS, write_log

PROPERTIES = MetaProperties("some-cluster", 1, "some-directory")


def write_own_log(
    log_dir: Path, records: Sequence[MetadataRecord], properties: MetaProperties | None = PROPERTIES
) -> None:
    """Write a log directory with one batch after metadata.version, which is at offset 1."""
    write_log(log_dir, *([records] if records else []))
    (log_dir / NAME).unlink(missing_ok=True)
    if properties is not None:
        write_meta_properties(log_dir, properties, DISK)


def new_backup(
    folder: Path, records: Sequence[MetadataRecord], properties: MetaProperties | None = PROPERTIES
) -> Backup:
    """Return a backup, in ``folder``, of a log with these records."""
    write_own_log(folder / "source", records, properties)
    path = folder / "nightly.checkpoint"
    write_backup(read_state(folder / "source"), path, TIME_MS)
    return read_backup(path)
