"""A decision stream server for one test: it gives one answer, and can stop."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from authorizerd.protocol.decisions import stream
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.support.sockets import accepting


@dataclass
class Target:
    """The server's address, and what it has received.

    ``asked`` has the connection and the principal of each question.
    """

    address: str = ""
    asked: list[tuple[int, str]] = field(default_factory=list)
    frames: int = 0
    hellos: int = 0


@contextmanager
def target_server(
    *, tls: ssl.SSLContext | None = None, dies_after: int | None = None
) -> Iterator[Target]:
    """Run a server.

    Args:
        dies_after: number of frames, over all connections, after which every connection ends.
        tls: encrypts all connections; None for a server without TLS.
    """
    target, lock = Target(), threading.Lock()

    def serve(accepted: socket.socket) -> None:
        connected = tls.wrap_socket(accepted, server_side=True) if tls else accepted
        connection = stream.StreamServerConnection(1 << 20)
        with connected:
            while data := connected.recv(65536):
                connection.receive_data(data)
                while (asked := connection.next_frame()) is not None:
                    connected.sendall(reply(id(connection), asked))

    def reply(connection: int, asked: object) -> bytes:
        if isinstance(asked, stream.Hello):
            target.hellos += 1
            return stream.encode_hello(ErrorCode.NONE, 7)
        assert isinstance(asked, stream.Ask)
        return answer(connection, asked)

    def answer(connection: int, asked: stream.Ask) -> bytes:
        with lock:
            if asked.questions[0][0] != "User:ANONYMOUS":  # the probe
                target.frames += 1
                target.asked += [(connection, question[0]) for question in asked.questions]
                if dies_after is not None and target.frames > dies_after:
                    raise ConnectionError
        return stream.encode_answer(asked.correlation_id, 0, 7, b"\1" * len(asked.questions))

    with accepting(serve) as target.address:
        yield target
