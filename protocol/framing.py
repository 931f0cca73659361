"""The frames of Kafka connections and decision streams: a 4-byte size, then that many bytes.

After an invalid frame, the rest of the connection's data is ignored.

Source: Kafka 4.3 NetworkReceive.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

from authorizerd.protocol.errors import DecodeError

SIZE_BYTES: Final = 4
HTTP_FOUND: Final = "the text HTTP: this is an HTTP port"
_HTTP: Final = int.from_bytes(b"HTTP")
"""The size that an HTTP server's answer seems to announce."""
_SIZE: Final = Struct(">i")
_read_size, _to_size = _SIZE.unpack_from, _SIZE.pack  # in a third of the time of int's methods
_JOINED_BYTES_MAX: Final = 65536


class Frames:
    """Split received data into frames."""

    __slots__ = ("_broken", "_buffer", "_start")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._start = 0  # of the next frame; what is before it was returned
        self._broken = False

    @property
    def bytes_held(self) -> int:
        return len(self._buffer) - self._start

    def receive_data(self, data: bytes | bytearray) -> None:
        """Add data from the peer. After an invalid frame, data is dropped."""
        if not self._broken:
            self._buffer += data

    def next(self, bytes_max: int) -> bytearray | None:
        """Return the bytes of the next frame, or None until it is complete.

        Raises:
            DecodeError: the size is negative or above ``bytes_max``.
        """
        buffer, start = self._buffer, self._start
        held = len(buffer)
        if held - start >= SIZE_BYTES:
            (size,) = _read_size(buffer, start)
            # Check before the data arrives: otherwise a peer could fill the buffer to any announced
            # size.
            if not 0 <= size <= bytes_max:
                reason = f"expected a frame size from 0 to {bytes_max}, found {size}"
                if size == _HTTP:
                    reason += f", which is {HTTP_FOUND}"
                raise self.refuse(reason, 0)
            first = start + SIZE_BYTES
            end = first + size
            # Copying a large frame takes milliseconds: copy whichever is smaller, the frame or the
            # rest.
            if size <= held - end:
                self._start = end
                return buffer[first:end]
            if end <= held:
                self._buffer, self._start = buffer[end:], 0
                del buffer[end:]
                del buffer[:first]
                return buffer
        if start:  # a connection must not hold these bytes while it waits
            del buffer[:start]
            self._start = 0
        return None

    def refuse(self, reason: str, position: int) -> DecodeError:
        """Return the error for the caller to raise. No frame is returned from then on."""
        self._broken = True
        self._buffer, self._start = bytearray(), 0
        return DecodeError(reason, position)


def holds_frame(opening: bytes) -> bool:
    """Return True if ``opening`` contains a whole frame, or announces a negative size."""
    size = int.from_bytes(opening[:SIZE_BYTES], "big", signed=True)
    return len(opening) >= SIZE_BYTES + size


def is_frame(data: bytes) -> bool:
    """Return True if ``data`` is one whole frame, and nothing else."""
    return len(data) >= SIZE_BYTES and _read_size(data)[0] == len(data) - SIZE_BYTES


def frame(*content: bytes | bytearray) -> bytes:
    """Return one frame with all content."""
    joined = b"".join(content)
    return _to_size(len(joined)) + joined


def frame_chunks(head: bytes, body: Sequence[bytes | bytearray]) -> list[bytes | bytearray]:
    """Return one frame in chunks, to be sent one after the other. A small frame is a single chunk.

    The chunks of a large frame are not joined, since that would take too long in one step.
    """
    size = len(head) + sum(map(len, body))
    if size <= _JOINED_BYTES_MAX:
        return [frame(head, *body)]
    return [_to_size(size) + head, *body]
