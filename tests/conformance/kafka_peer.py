"""One connection to a broker or a daemon, frame by frame.

**Invariant:** if the peer closes the connection, the answer is CLOSED.
"""

import socket
import struct
from typing import Final

from authorizerd.protocol.framing import SIZE_BYTES, frame
from authorizerd.protocol.kafka.api import APIS, ApiKey, has_response_tags
from authorizerd.protocol.kafka.codec import NO_TAGS

SECONDS_MAX = 10.0
CORRELATION_ID: Final = 7
CLOSED: Final = "closed"

_HEAD: Final = struct.Struct(">hhih")
_NO_CLIENT_ID: Final = -1
_TOKENS_IN_REQUESTS: Final = 1


class Peer:
    """A connection to ``address``."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=SECONDS_MAX)

    def log_in(self, user: str, password: str) -> None:
        self.ask(ApiKey.SASL_HANDSHAKE, _TOKENS_IN_REQUESTS, b"\0\5PLAIN")
        token = b"\0".join((b"", user.encode(), password.encode()))
        answer = self.ask(ApiKey.SASL_AUTHENTICATE, 0, len(token).to_bytes(4, "big") + token)
        assert answer != CLOSED
        assert answer[:2] == b"\0\0", answer

    def ask(self, api_key: ApiKey, version: int, body: bytes) -> bytes | str:
        """Send a request; return the response body, or CLOSED."""
        return self.ask_frame(request_frame(api_key, version, body), api_key, version)

    def ask_frame(self, data: bytes, api_key: ApiKey, version: int) -> bytes | str:
        """Send bytes that may be an incomplete request; return the response body, or CLOSED."""
        answer = self.exchange(data)
        if isinstance(answer, str):
            return answer
        header = 4 + has_response_tags(api_key, version)
        expected = CORRELATION_ID.to_bytes(4, "big") + NO_TAGS
        assert answer[:header] == expected[:header], answer
        return answer[header:]

    def exchange(self, data: bytes) -> bytes | str:
        """Send bytes; return the content of the next frame, or CLOSED."""
        try:
            self.socket.sendall(data)
            size = self._receive(SIZE_BYTES)
            return self._receive(int.from_bytes(size, "big"))
        except (ConnectionError, EOFError):
            return CLOSED

    def _receive(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            data = self.socket.recv(size - len(received))
            if not data:
                raise EOFError
            received += data
        return bytes(received)

    def close(self) -> None:
        self.socket.close()


def request_frame(api_key: int, version: int, body: bytes) -> bytes:
    """Return a request's frame; the version need not be served."""
    api = APIS.get(ApiKey(api_key)) if api_key in {*ApiKey} else None
    tags = NO_TAGS if api is not None and api.is_flexible(version) else b""
    return frame(_HEAD.pack(api_key, version, CORRELATION_ID, _NO_CLIENT_ID), tags, body)
