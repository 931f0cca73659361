"""Read the lines of files as Arrow arrays: of a part of a plain file, or of an archive.

**Invariant:** consecutive parts of a file give each of its lines once, in order. Memory is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow
import pyarrow.compute as compute

from authorizerd.replay.ingest.parse.archives import BYTE_ORDER_MARK, BinaryFile, unpack_lines
from authorizerd.replay.ingest.parse.columns import set_aside
from authorizerd.replay.ingest.parse.event import LINE_BYTES_MAX

PIECE_BYTES: Final = 32 * 1024 * 1024
"""More than a line. The more lines an array has, the more repeat a text, which is parsed once."""

_SEARCHED_BYTES: Final = 64 * 1024


def read_part(file: BinaryFile, begin: int, end: int) -> Iterator[pyarrow.BinaryArray]:
    """Yield the lines that begin in the bytes from ``begin`` to ``end``, without line feeds.

    Of a line that is too long, only the beginning is kept, since it is set aside anyway.
    """
    at, last = _find_line(file, begin), _find_line(file, end)
    while at < last:
        file.seek(at)
        data = file.read(min(PIECE_BYTES, last - at))
        complete = data.rfind(b"\n") + 1
        if complete:
            yield _split(data, complete)
            at += complete
        elif data:  # the last line lacks its line feed, or a line is longer than the piece
            yield pyarrow.array([data[: LINE_BYTES_MAX + 1]], pyarrow.binary())
            at = _find_line(file, at + len(data))
        else:
            return  # the file has become shorter meanwhile


def read_archive(
    name: str, packed: BinaryFile
) -> Iterator[pyarrow.BinaryArray | pyarrow.RecordBatch]:
    """Yield the lines of the archive ``name``.

    If it is damaged, the last item is the row of the unfinished line, which is set aside.
    """
    arrays: list[pyarrow.BinaryArray] = []
    gathered = 0
    for lines, fault in unpack_lines(name, packed):
        if arrays and (fault or gathered >= PIECE_BYTES):
            yield pyarrow.concat_arrays(arrays)
            arrays, gathered = [], 0
        if fault:
            yield set_aside(lines[0], fault)
            return
        arrays.append(pyarrow.array(lines, pyarrow.binary()))
        gathered += arrays[-1].nbytes
    if arrays:
        yield pyarrow.concat_arrays(arrays)


def _split(data: bytes, end: int) -> pyarrow.BinaryArray:
    """Return the lines in the first ``end`` bytes, of which the last is a line feed."""
    # Here, because executors of a cluster read archives without numpy.
    import numpy

    feeds = numpy.flatnonzero(numpy.frombuffer(data, numpy.uint8, end) == ord("\n"))
    offsets = numpy.zeros(len(feeds) + 1, numpy.int32)
    offsets[1:] = feeds + 1
    buffers = [None, pyarrow.py_buffer(offsets), pyarrow.py_buffer(data)]
    lines = pyarrow.Array.from_buffers(pyarrow.binary(), len(feeds), buffers)
    without_feed = compute.binary_slice(lines, 0, -1)
    if compute.max(compute.binary_length(without_feed)).as_py() <= LINE_BYTES_MAX:
        return without_feed
    return compute.binary_slice(without_feed, 0, LINE_BYTES_MAX + 1)


def _find_line(file: BinaryFile, at: int) -> int:
    """Return the place of the first line that begins at ``at`` or later, or the end of the file."""
    if not at:
        file.seek(0)
        # Hadoop, and so Spark, skips a byte order mark.
        return len(BYTE_ORDER_MARK) if file.read(len(BYTE_ORDER_MARK)) == BYTE_ORDER_MARK else 0
    place = at - 1
    file.seek(place)
    while piece := file.read(_SEARCHED_BYTES):
        found = piece.find(b"\n")
        if found >= 0:
            return place + found + 1
        place += len(piece)
    return place
