"""Generate load on the decision stream: one connection with several frames in flight.

It runs in a separate process and sends frames that were encoded before, so that it takes little CPU
time from the daemon. For the same reason it uses the protocol directly instead of the client
library.

    python -m tools.bench.stream_load HOST:PORT FRAMES IN_FLIGHT SECONDS [TOKEN]

``FRAMES`` is a file of complete frames, all with the same number of questions. ``TOKEN`` is a file
that contains the caller's token.
"""

from __future__ import annotations

import socket
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.protocol.decisions.stream import StreamClientConnection
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.framing import SIZE_BYTES
from tools.bench.closed_loop import LoadError, LoadReport, Stopwatch
from tools.bench.http_load import STALLED_SECONDS

_RECEIVE_BYTES: Final = 256 * 1024
_FRAME_BYTES_MAX: Final = 16 * 1024 * 1024


class StreamLink:
    """A blocking connection that the server has greeted.

    Raises:
        LoadError, DecodeError, OSError: the server does not answer as it should.
    """

    def __init__(self, address: str, token: str | None, timeout_seconds: float) -> None:
        host, _, port = address.rpartition(":")
        self._connection = StreamClientConnection(_FRAME_BYTES_MAX)
        self._socket = socket.create_connection((host, int(port)), timeout_seconds)
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.send(self._connection.hello(token))
            while (greeting := self._connection.next_greeting()) is None:
                self._receive()
            if greeting.error_code:
                raise LoadError(f"the hello was answered with error {greeting.error_code}")
        # The caller gets no object that it could close.
        except BaseException:
            self.close()
            raise

    def send(self, frames: bytes) -> None:
        """Send frames of questions; block until the kernel has accepted them."""
        self._socket.sendall(frames)

    def receive_answers(self) -> Iterator[bytes]:
        """Receive once, and yield the decisions of each answer that is complete.

        Raises:
            LoadError: an answer is an error, or the server closed the connection.
        """
        self._receive()
        while (answer := self._connection.next_answer()) is not None:
            if answer.error_code:
                raise LoadError(f"a frame was answered with error {answer.error_code}")
            yield answer.decisions

    def close(self) -> None:
        self._socket.close()

    def _receive(self) -> None:
        data = self._socket.recv(_RECEIVE_BYTES)
        if not data:
            raise LoadError("the server closed the connection")
        self._connection.receive_data(data)


def drive(
    address: str,
    frames: Sequence[bytes],
    in_flight: int,
    seconds: float,
    token: str | None = None,
) -> LoadReport:
    """Ask for ``seconds``; every frame must be answered, in order and without an error.

    Raises:
        LoadError, DecodeError, OSError: the server does not answer as it should.
    """
    asked_ns: deque[int] = deque()
    sent = 0
    with closing(StreamLink(address, token, STALLED_SECONDS)) as link:
        stopwatch = Stopwatch(seconds)
        while stopwatch.is_running:
            wanted = in_flight - len(asked_ns)
            if wanted:
                link.send(b"".join(frames[(sent + n) % len(frames)] for n in range(wanted)))
                asked_ns.extend([stopwatch.now_ns] * wanted)
                sent += wanted
            answers = len([*link.receive_answers()])
            stopwatch.tick()
            for _ in range(answers):
                stopwatch.record(asked_ns.popleft())
    return stopwatch.report()


def split(data: bytes) -> list[bytes]:
    """Return the frames of ``data`` as a list."""
    frames: list[bytes] = []
    position = 0
    while position < len(data):
        size = int.from_bytes(data[position : position + SIZE_BYTES], "big")
        end = position + SIZE_BYTES + size
        frames.append(data[position:end])
        position = end
    return frames


def main() -> None:
    address, path, in_flight, seconds, *token_file = sys.argv[1:]
    token = Path(token_file[0]).read_text().strip() if token_file else None
    frames = split(Path(path).read_bytes())
    try:
        report = drive(address, frames, int(in_flight), float(seconds), token)
    except (LoadError, DecodeError, OSError) as error:
        sys.exit(f"{type(error).__name__}: {error}")
    sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")


if __name__ == "__main__":
    main()
