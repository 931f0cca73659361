"""A server of no protocol in particular, and its clients, for tests."""

import trio

from authorizerd.daemon.net.connection import Connection, Phase
from authorizerd.daemon.net.connection_limits import ConnectionLimits
from authorizerd.daemon.net.connection_server import ConnectionServer
from authorizerd.daemon.net.connection_statistics import ConnectionStatistics
from authorizerd.tls.server import TlsServer

LOGIN_S, IDLE_S = 30.0, 600.0
HELLO, PING, FAULT, WAIT, PART = b"hello", b"ping", b"fault", b"wait", b"part"

Stream = trio.abc.HalfCloseableStream


def new_limits(
    connections_max: int = 5,
    *,
    per_address: int = 2**31 - 1,
    overrides: dict[str, int] | None = None,
) -> ConnectionLimits:
    return ConnectionLimits(
        connections_max=connections_max,
        login_timeout_s=LOGIN_S,
        request_timeout_s=IDLE_S,
        idle_timeout_s=IDLE_S,
        drain_timeout_s=1,
        connections_per_address_max=per_address,
        overrides=overrides or {},
    )


class Server(ConnectionServer):
    """Echo requests; HELLO logs in, PING only establishes a connection.

    FAULT raises ``fault``, and WAIT waits. PART is a part of a request.
    """

    def __init__(
        self, connections_max: int = 2, memory_bytes_max: int = 1000, tls: TlsServer | None = None
    ) -> None:
        super().__init__(
            name="TEST",
            limits=new_limits(connections_max),
            memory_bytes_max=memory_bytes_max,
            too_many=b"too many",
            tls=tls,
        )
        self.statistics = ConnectionStatistics()
        self.fault: BaseException = RuntimeError("fault")
        self.goes_on = trio.Event()
        self.newest: Connection | None = None

    def holds_request(self, opening: bytes) -> bool:
        return opening != PART

    async def converse(self, connection: Connection) -> None:
        held = b""
        while data := await connection.receive(len(held)):
            self.newest = connection
            held += data
            if held.startswith(b"large"):
                continue
            connection.phase = Phase.ANSWERING
            if held == FAULT:
                raise self.fault
            if held in (HELLO, PING):
                self.establish(connection, is_known=held == HELLO)
            if held == WAIT:
                await self.goes_on.wait()
            await connection.send(held)
            held = b""


async def ask(client: Stream, data: bytes = HELLO) -> bytes:
    await client.send_all(data)
    with trio.fail_after(1000):
        return bytes(await client.receive_some())


async def is_closed(client: Stream) -> bool:
    with trio.fail_after(1000):
        try:
            return await client.receive_some() == b""
        except trio.BrokenResourceError:
            return True
