"""Judge whether recovery may refuse a log, from the written bytes and those that the disk kept.

This restates the rules of recovery from the writer's side and shares no code with the reader.
"""

import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from authorizerd.metadata.directory import Checkpoint, Segment
from tests.faults.contents import SECTOR_SIZE
from tests.faults.disk import FaultDisk

OFFSET_SIZE: Final = 8
LENGTH_END: Final = 12
COUNT_AT: Final = 57
PIECE_MIN: Final = 64


def batch_starts(data: bytes) -> list[int]:
    """Return the positions of the batches in ``data``, including an incomplete last one."""
    starts, position = [], 0
    while position < len(data):
        starts.append(position)
        if len(data) - position < LENGTH_END:
            break
        position += LENGTH_END + int(struct.unpack_from(">i", data, position + OFFSET_SIZE)[0])
    return starts


def whole_size(content: bytes, written: bytes) -> int:
    """Return the size of the complete batches of ``written`` that ``content`` starts with."""
    whole = 0
    for start, end in pairwise([*batch_starts(written), len(written)]):
        if end - start < LENGTH_END or content[start:end] != written[start:end]:
            break
        whole = end
    return whole


def next_offset(data: bytes) -> int:
    """Return the offset after the last complete batch in ``data``; all batches must be valid."""
    offset = 0
    for start, end in pairwise([*batch_starts(data), len(data)]):
        if end - start > COUNT_AT + 4:
            offset = struct.unpack_from(">q", data, start)[0]
            offset += struct.unpack_from(">i", data, start + COUNT_AT)[0]
    return offset


def may_stop(content: bytes, written: bytes) -> bool:
    """Return True if recovery may refuse ``content``, which a crash left of ``written``.

    It may if the disk reordered sectors of one unsynced write, and the result looks like damage:

    - a later batch follows the missing bytes;
    - the length of a batch is missing, and the batch begins at the start of a sector or in its last
      11 bytes; or
    - fewer than 64 bytes are missing.
    """
    starts = batch_starts(written)
    for start, end in pairwise([*starts, len(written)]):
        if content[start:end] != written[start:end]:
            break
    else:
        return False
    piece = -start % SECTOR_SIZE
    is_stale = piece >= LENGTH_END and not any(content[start : start + piece])
    if is_stale or not any(content[start:]):
        return False
    if content[start : start + LENGTH_END] != written[start : start + LENGTH_END]:
        return len(content) - start >= LENGTH_END
    if len(content) < end or len(written) - start < LENGTH_END:
        return False
    size = LENGTH_END + int(struct.unpack_from(">i", written, start + OFFSET_SIZE)[0])
    if start + size > len(content):
        return False
    return any(content[end:]) or not _lacks_a_sector(content, start, end)


def _lacks_a_sector(content: bytes, start: int, end: int) -> bool:
    """Return True if a sector between ``start`` and ``end`` is zero; the last may be partial."""
    first = start + -start % SECTOR_SIZE
    return any(
        not any(content[sector : min(sector + SECTOR_SIZE, end)])
        and min(sector + SECTOR_SIZE, end) - sector >= PIECE_MIN
        for sector in range(first, end, SECTOR_SIZE)
    )


def reaches_back(
    disk: FaultDisk, segments: Sequence[Segment], older: Checkpoint | None, needed: int
) -> bool:
    """Return True if segments and checkpoint ``older`` cover every offset below ``needed``."""
    end = older.end_offset if older is not None else 0
    left = list(segments)
    while len(left) > 1 and left[1].base_offset <= end:
        left.pop(0)
    if not left or left[0].base_offset > end:
        return False
    for segment, following in pairwise(left):
        if next_offset(bytes(disk.content(segment.path).seen)) != following.base_offset:
            return False
    last = left[-1]
    return max(next_offset(bytes(disk.content(last.path).seen)), last.base_offset) >= needed
