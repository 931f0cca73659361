"""An HTTP server over memory or loopback, and requests for tests."""

import math
from collections.abc import Callable

import trio
import trio.testing

from authorizerd.daemon.http.server import HttpServer
from authorizerd.daemon.net.connection_limits import ConnectionLimits
from authorizerd.protocol.http.messages import LOOPBACK_HOSTS, Request, Response
from authorizerd.protocol.http.request_head import HttpLimits
from authorizerd.protocol.http.streamed import Handler

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
LOGIN_TIMEOUT_S = 100
HEADER_TIMEOUT_S = 10
ROOM_BYTES = 1 << 20
IDLE_TIMEOUT_S = 60
DRAIN_TIMEOUT_S = 5
TICK_S = 0.5


async def echo(request: Request) -> Response:
    """Answer with the request's path."""
    return Response(status=200, body=request.path.encode())


def new_server(
    handler: Handler = echo,
    *,
    max_connections: int = 10,
    body_bytes_max: int = 1000,
    memory_bytes_max: int = ROOM_BYTES,
    turn_ms_max: float = math.inf,
) -> HttpServer:
    return HttpServer(
        name="decision HTTP",
        handler=handler,
        limits=ConnectionLimits(
            connections_max=max_connections,
            login_timeout_s=LOGIN_TIMEOUT_S,
            request_timeout_s=HEADER_TIMEOUT_S,
            idle_timeout_s=IDLE_TIMEOUT_S,
            drain_timeout_s=DRAIN_TIMEOUT_S,
        ),
        http_limits=HttpLimits(body_bytes_max=body_bytes_max),
        memory_bytes_max=memory_bytes_max,
        turn_ms_max=turn_ms_max,
        allowed_hosts=LOOPBACK_HOSTS,
        authenticates=lambda: True,
    )


async def connect(port: int) -> trio.SocketStream:
    return await trio.open_tcp_stream("127.0.0.1", port)


async def receive_until(stream: trio.abc.ReceiveStream, ending: bytes) -> bytes:
    data = b""
    with trio.fail_after(1000):
        while not data.endswith(ending):
            piece = await stream.receive_some()
            assert piece, f"ended after {data!r}"
            data += piece
    return data


async def receive_all(stream: trio.abc.ReceiveStream) -> bytes:
    with trio.fail_after(1000):
        return b"".join([piece async for piece in stream])


async def ask(stream: trio.abc.Stream, path: str) -> bytes:
    await stream.send_all(GET.replace(b"/", path.encode(), 1))
    return await receive_until(stream, b"\r\n\r\n" + path.encode())


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(1000):
        while not condition():
            await trio.testing.wait_all_tasks_blocked(0.001)
