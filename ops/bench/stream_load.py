"""Generate load on the decision stream: one connection with several frames in flight.

It is a process of its own, and sends frames that were encoded before, so that it takes as little as
can be from what it measures.

    python -m ops.bench.stream_load HOST:PORT FRAMES IN_FLIGHT SECONDS [TOKEN]

``FRAMES`` is a file of whole frames, one behind the other, each of equally many questions;
``TOKEN`` one that contains the caller's token.
"""

from __future__ import annotations

import socket
import sys
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.protocol.decisions.stream import StreamClientConnection
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.framing import SIZE_BYTES
from ops.bench.figures import percentile
from ops.bench.http_load import STALLED_SECONDS, WARM_UP_SHARE, LoadError, LoadReport

_RECEIVE_BYTES: Final = 256 * 1024
_FRAME_BYTES_MAX: Final = 16 * 1024 * 1024


def drive(
    address: tuple[str, int],
    frames: Sequence[bytes],
    in_flight: int,
    seconds: float,
    token: str | None = None,
) -> LoadReport:
    """Ask for so many seconds; every frame must be answered, in order and without an error.

    Raises:
        LoadError, DecodeError, OSError: the server does not answer as it should.
    """
    connection = StreamClientConnection(_FRAME_BYTES_MAX)
    latencies_ns: list[int] = []
    asked_ns: deque[int] = deque()
    sent = answered = 0
    with socket.create_connection(address, STALLED_SECONDS) as stream:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream.sendall(connection.hello(token))
        while (greeting := connection.next_greeting()) is None:
            connection.receive_data(_received(stream))
        if greeting.error_code:
            raise LoadError(f"the hello was answered with error {greeting.error_code}")
        start_ns = now_ns = time.perf_counter_ns()
        timed_from_ns = start_ns + int(seconds * WARM_UP_SHARE * 1e9)
        end_ns = start_ns + int(seconds * 1e9)
        while now_ns < end_ns or not latencies_ns:
            wanted = in_flight - len(asked_ns)
            if wanted:
                stream.sendall(b"".join(frames[(sent + n) % len(frames)] for n in range(wanted)))
                asked_ns.extend([now_ns] * wanted)
                sent += wanted
            connection.receive_data(_received(stream))
            now_ns = time.perf_counter_ns()
            while (answer := connection.next_answer()) is not None:
                if answer.error_code:
                    raise LoadError(f"a frame was answered with error {answer.error_code}")
                answered += 1
                asked = asked_ns.popleft()
                if asked >= timed_from_ns:
                    latencies_ns.append(now_ns - asked)
    latencies_ns.sort()
    return LoadReport(
        requests=answered,
        requests_per_second=len(latencies_ns) / ((now_ns - timed_from_ns) / 1e9),
        p50_ms=percentile(latencies_ns, 50) / 1e6,
        p99_ms=percentile(latencies_ns, 99) / 1e6,
        max_ms=latencies_ns[-1] / 1e6,
    )


def _received(stream: socket.socket) -> bytes:
    data = stream.recv(_RECEIVE_BYTES)
    if not data:
        raise LoadError("the server closed the connection")
    return data


def split(data: bytes) -> list[bytes]:
    """Return the frames that stand one behind the other in ``data``."""
    frames: list[bytes] = []
    position = 0
    while position < len(data):
        size = int.from_bytes(data[position : position + SIZE_BYTES], "big")
        end = position + SIZE_BYTES + size
        frames.append(data[position:end])
        position = end
    return frames


def main() -> None:
    host, path, in_flight, seconds, *token_file = sys.argv[1:]
    token = Path(token_file[0]).read_text().strip() if token_file else None
    name, _, port = host.rpartition(":")
    frames = split(Path(path).read_bytes())
    try:
        report = drive((name, int(port)), frames, int(in_flight), float(seconds), token)
    except (LoadError, DecodeError, OSError) as error:
        sys.exit(f"{type(error).__name__}: {error}")
    sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")


if __name__ == "__main__":
    main()
