"""Damage to checkpoints, and whether a start may fail because of it."""

from contextlib import suppress
from random import Random

from authorizerd.metadata.directory import LogFiles
from authorizerd.metadata.errors import CorruptLogError
from authorizerd.metadata.log import MetadataLog
from tests.faults.disk import FaultDisk
from tests.faults.verdicts import reaches_back


def damaged(data: bytes, chance: Random) -> bytes:
    """Return ``data`` cut, zeroed in part, longer, empty, or with one bit flipped."""
    if not data:
        return b"\0"
    position = chance.randrange(len(data))
    match chance.randrange(5):
        case 0:
            return data[:position]
        case 1:
            return data[:position] + bytes(len(data) - position - 1) + b"\1"
        case 2:
            return data + bytes(1)
        case 3:
            return b""
    flipped = data[position] ^ 1 << chance.randrange(8)
    return data[:position] + bytes((flipped,)) + data[position + 1 :]


def is_out_of_reach(disk: FaultDisk, files: LogFiles) -> bool:
    """Return True if a damaged checkpoint covers offsets that nothing intact covers."""
    whole, needed = None, 0
    for checkpoint in files.checkpoints:
        needed = checkpoint.end_offset
        with suppress(CorruptLogError):
            list(MetadataLog(LogFiles((), (checkpoint,)), disk).batches())
            whole, needed = checkpoint, 0
    return needed > 0 and not reaches_back(disk, files.segments, whole, needed)
