"""Read a log directory or a checkpoint for the metadata shell. Nothing is locked or changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from authorizerd.acl.as_of import AsOf
from authorizerd.cli.shell.log_contents import LogContents
from authorizerd.metadata.log import LogBatch, MetadataLog
from authorizerd.metadata.past import read_past
from authorizerd.metadata.storage import DISK, Storage


def read_contents(path: Path, as_of: AsOf | None = None, *, storage: Storage = DISK) -> LogContents:
    """Return the contents of a log directory, or of a checkpoint file. Blocks.

    Offsets in a checkpoint file are those of the file, which begin at 0, as in Kafka's shell.

    Args:
        as_of: the moment of the contents; None for the end of the log.

    Raises:
        MetadataLogError: there is no log, it is damaged, or it does not reach the moment.
    """
    if as_of is not None:
        return read_past(path, lambda log: _read(log.batches_until(as_of)), storage=storage)
    batches = MetadataLog.open(path, storage).batches()
    return _read(batches, counts_as_file=storage.is_file(path))


def _read(batches: Iterator[LogBatch], *, counts_as_file: bool = False) -> LogContents:
    contents = LogContents()
    for each in batches:
        last_offset = each.placed.batch.last_offset if counts_as_file else each.last_offset
        contents.feed(each, last_offset)
    return contents
