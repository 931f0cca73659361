"""The body of a request that arrives in chunks, and its trailers.

**Invariant:** a body ends at the same place for every reader: anything but an exact chunk is
rejected. A chunk that would exceed the limit is refused before it arrives.

Source: RFC 9112, section 7.1.
"""

from __future__ import annotations

import re
from typing import Final

from authorizerd.protocol.http.request_head import HEAD_END, HttpLimits, RefusedError

# No control characters in extensions: two readers must not disagree where a body ends.
_CHUNK_LINE: Final = re.compile(
    rb"([0-9A-Fa-f]{1,15})[ \t]{0,8}(?:;[\t\x20-\x7e\x80-\xff]{0,128})?\r\n"
)
_CHUNK_LINE_BYTES_MAX: Final = 256
# Chunks may be tiny, so reading all that have arrived in one step could take too long.
_CHUNKS_AT_ONCE_MAX: Final = 512
_TRAILERS: Final = re.compile(rb"(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*\r\n)*\r\n")
_LINE_END: Final = b"\r\n"


class ChunkedBody:
    """A body, as far as it has been read.

    Attributes:
        is_paused: True if ``read`` returned only to end a long step.
    """

    __slots__ = ("_limits", "chunks", "is_paused")

    def __init__(self, limits: HttpLimits) -> None:
        self._limits: Final = limits
        self.chunks: Final = bytearray()
        self.is_paused = False

    def read(self, buffer: bytearray) -> bytes | None:
        """Take complete chunks from ``buffer``. Return the body once it is complete.

        Raises:
            RefusedError: it is malformed or too large.
        """
        chunks = self.chunks
        position = count = 0
        self.is_paused = False
        while (line := _CHUNK_LINE.match(buffer, position)) is not None:
            start = line.end()
            size = int(line[1], 16)
            # The announced size counts, so a chunk that is too large is refused before it arrives.
            if len(chunks) + size > self._limits.body_bytes_max:
                raise RefusedError(413, "request body too large")
            if size == 0:
                del buffer[:position]
                return self._read_trailers(buffer, start - position)
            end = start + size
            if len(buffer) < end + len(_LINE_END):
                break
            if not buffer.startswith(_LINE_END, end):
                raise RefusedError(400, "malformed chunk")
            chunks += buffer[start:end]
            position = end + len(_LINE_END)
            count += 1
            if count == _CHUNKS_AT_ONCE_MAX:
                self.is_paused = True
                break
        else:
            # An incomplete line may still become valid. A complete or too long one cannot.
            line_bytes = len(buffer) - position
            if line_bytes >= _CHUNK_LINE_BYTES_MAX or buffer.find(b"\n", position) >= 0:
                raise RefusedError(400, "malformed chunk")
        del buffer[:position]
        return None

    def _read_trailers(self, buffer: bytearray, start: int) -> bytes | None:
        """End the body. Valid trailers are dropped, as RFC 9112 section 7.1.2 allows."""
        # Without trailers, the line end after the last chunk is the first half of HEAD_END.
        found = buffer.find(HEAD_END, start - len(_LINE_END))
        end = len(buffer) if found < 0 else found + len(HEAD_END)
        if end - start > self._limits.header_bytes_max:
            raise RefusedError(431, "trailers too large")
        if found < 0:
            return None
        # The empty line at the end also counts.
        if buffer.count(_LINE_END, start, end) > self._limits.headers_max + 1:
            raise RefusedError(431, "too many trailers")
        if not _TRAILERS.fullmatch(buffer, start, end):
            raise RefusedError(400, "malformed trailers")
        del buffer[:end]
        return bytes(self.chunks)
