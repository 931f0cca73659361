"""A small log with everything that a log may contain. The ACLs 2, 3 and 6 are in force at its
end, 1 and 2 at offset 4, and 2, 3 and 4 at offset 10.
"""

from itertools import accumulate
from pathlib import Path

from authorizerd.metadata.writer import CLEAN_SHUTDOWN_MARK
from authorizerd.protocol.records.batch import ControlType
from authorizerd.protocol.records.metadata import AbortTransaction, BeginTransaction, EndTransaction
from tests.support.log_files import (
    METADATA_VERSION,
    added,
    control_batch,
    data_batch,
    removed,
    write_checkpoint,
    write_segment,
)

SEGMENTS: dict[int, tuple[bytes, ...]] = {
    0: (
        control_batch(0, ControlType.LEADER_CHANGE),
        data_batch(1, [METADATA_VERSION]),
        data_batch(2, [added(1), added(2)]),
        data_batch(4, [BeginTransaction("a"), removed(1)]),
    ),
    6: (
        data_batch(6, [added(3), EndTransaction()]),
        control_batch(8, ControlType.LEADER_CHANGE, epoch=2),
        data_batch(9, [added(4)], epoch=2),
    ),
    10: (
        data_batch(10, [BeginTransaction(), added(5), AbortTransaction("no")], epoch=2),
        data_batch(13, [added(6)], epoch=2),
        data_batch(14, [removed(4)], epoch=2),
    ),
}
END = 15
PROPERTIES = b"version=1\ncluster.id=abc\nnode.id=1\ndirectory.id=AAAAAAAAQACAAAAAAAAAAQ\n"


def start_of(base_offset: int, number: int) -> int:
    """Return the position at which batch ``number`` of a segment begins."""
    return [0, *accumulate(map(len, SEGMENTS[base_offset]))][number]


def write_sound_log(log_dir: Path, *, checkpoints: bool = False, clean: bool = False) -> None:
    for base_offset, batches in SEGMENTS.items():
        write_segment(log_dir, base_offset, *batches)
    (log_dir / "meta.properties").write_bytes(PROPERTIES)
    if checkpoints:
        write_checkpoint(log_dir, 4, [METADATA_VERSION, added(1), added(2)])
        write_checkpoint(log_dir, 10, [METADATA_VERSION, added(2), added(3), added(4)], epoch=2)
    if clean:
        (log_dir / ".kafka_cleanshutdown").write_bytes(CLEAN_SHUTDOWN_MARK)
