"""A blocking client of the decision stream that returns every answer as it was sent."""

import select
from collections.abc import Iterator
from ssl import SSLContext

from authorizerd.protocol.decisions.stream import Answer, StreamClientConnection, StreamQuestion
from tests.support.certificates import connect_tls
from tests.support.daemon_process import SECONDS_MAX, connect

FRAME_BYTES_MAX = 1 << 20


class StreamConnection:
    """Connect to ``address`` and exchange greetings.

    Args:
        context: for a port with TLS.
        seconds_max: time limit of each call.
    """

    def __init__(
        self,
        address: str,
        token: str | None = None,
        context: SSLContext | None = None,
        seconds_max: float = SECONDS_MAX,
    ) -> None:
        self.socket = (
            connect(address, seconds_max)
            if context is None
            else connect_tls(address, context, seconds_max)
        )
        self.connection = StreamClientConnection(FRAME_BYTES_MAX)
        try:
            self.socket.sendall(self.connection.hello(token))
            while (greeting := self.connection.next_greeting()) is None:
                self._receive()
        except BaseException:
            self.close()
            raise
        self.greeting = greeting

    def close(self) -> None:
        self.socket.close()

    def _receive(self) -> None:
        data = self.socket.recv(65536)
        assert data, "the daemon has closed the connection"
        self.connection.receive_data(data)

    def answer(self) -> Answer:
        while (answer := self.connection.next_answer()) is None:
            self._receive()
        return answer

    def answers(self) -> Iterator[Answer]:
        """Yield the answers that have arrived; do not wait for others."""
        if select.select([self.socket], [], [], 0)[0]:
            self._receive()
        while (answer := self.connection.next_answer()) is not None:
            yield answer

    def ask(self, *questions: StreamQuestion, number: int = 1, min_offset: int = -1) -> Answer:
        self.send(*questions, number=number, min_offset=min_offset)
        return self.answer()

    def send(self, *questions: StreamQuestion, number: int = 1, min_offset: int = -1) -> None:
        self.socket.sendall(self.connection.ask(number, list(questions), min_offset))
