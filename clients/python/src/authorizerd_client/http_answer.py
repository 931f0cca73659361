"""Parse one HTTP/1.1 answer, without a socket, into a status and the parts of a body.

**Invariant:** a body counts as complete only if its end has arrived.
"""

from __future__ import annotations

import re
from typing import Final

from authorizerd_client.errors import ProtocolError

HEAD_BYTES_MAX: Final = 64 * 1024
CHUNK_BYTES_MAX: Final = 64 * 1024 * 1024

_HEAD_END: Final = b"\r\n\r\n"
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[01] (\d{3})(?: [^\r\n]*)?\r\n")
_CHUNK_LINE: Final = re.compile(rb"([0-9A-Fa-f]{1,8})(?:;[^\r\n]*)?\r\n")
_CHUNK_LINE_BYTES_MAX: Final = 256


class HttpAnswer:
    """Read one answer.

    Attributes:
        status: 0 until the head has arrived.
        headers: by their names in lower case.
        is_complete: True once the end of the body has arrived.
    """

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.is_complete = False
        self._buffer = bytearray()
        self._left: int | None = None

    def receive_data(self, data: bytes) -> bytes:
        """Add bytes; return the part of the body that they complete, which may be empty.

        Raises:
            ProtocolError: it is not an HTTP answer.
        """
        self._buffer += data
        if not self.status and not self._read_head():
            return b""
        if self._left is None:
            return self._read_chunks()
        body = bytes(self._buffer[: self._left])
        del self._buffer[: self._left]
        self._left -= len(body)
        self.is_complete = not self._left
        return body

    def _read_head(self) -> bool:
        buffer = self._buffer
        end = buffer.find(_HEAD_END)
        if end < 0:
            if len(buffer) > HEAD_BYTES_MAX or not buffer.startswith(b"HTTP/1"[: len(buffer)]):
                raise ProtocolError("expected an HTTP answer: check the address")
            return False
        found = _STATUS_LINE.match(buffer)
        if found is None:
            raise ProtocolError("expected an HTTP answer: check the address")
        self.status = int(found[1])
        for line in bytes(buffer[found.end() : end]).decode("latin-1").split("\r\n"):
            name, _, value = line.partition(":")
            self.headers[name.strip().lower()] = value.strip()
        del buffer[: end + len(_HEAD_END)]
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            return True
        length = self.headers.get("content-length", "")
        if not length.isascii() or not length.isdigit() or len(length) > 9:
            raise ProtocolError("expected an HTTP answer with a length or in chunks")
        self._left = int(length)
        return True

    def _read_chunks(self) -> bytes:
        buffer, body, position = self._buffer, bytearray(), 0
        while not self.is_complete and (line := _CHUNK_LINE.match(buffer, position)) is not None:
            size, start = int(line[1], 16), line.end()
            end = start + size
            if size > CHUNK_BYTES_MAX:
                raise ProtocolError(f"expected at most {CHUNK_BYTES_MAX} bytes in a chunk")
            if len(buffer) < end + 2:
                break
            if buffer[end : end + 2] != b"\r\n":
                raise ProtocolError("expected the end of a chunk")
            body += buffer[start:end]
            position = end + 2
            self.is_complete = not size
        else:
            if not self.is_complete and len(buffer) - position > _CHUNK_LINE_BYTES_MAX:
                raise ProtocolError("expected the size of a chunk")
        del buffer[:position]
        return bytes(body)
