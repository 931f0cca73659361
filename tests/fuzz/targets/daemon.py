"""A whole daemon in this process, over real sockets: every port, with and without TLS.

The meters of ``tests.loop`` measure each input: no stretch of the event loop may be longer than
its limit. Clients have no credentials, or those of a user without rights.
"""

import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import trio
from trio.testing import wait_all_tasks_blocked

from authorizerd.daemon.endpoints import ADMIN_HTTP, DECISION_HTTP, DECISION_STREAM
from authorizerd.protocol.decisions.stream import StreamClientConnection
from tests.fuzz.target import Check, Target
from tests.fuzz.targets.certificates import client_hello
from tests.fuzz.targets.http import console_seeds, decision_seeds
from tests.fuzz.targets.kafka import request_frames
from tests.loop.acl_sets import ACL_SETS
from tests.loop.http_requests import ADMIN_PATHS, any_port
from tests.loop.limits import LIMITS
from tests.loop.meter import CollectionMeter, LineMeter, SlowCallMeter
from tests.loop.players import log_in
from tests.loop.running import (
    ALICE,
    CONTROLLER,
    PLAINTEXT,
    SASL,
    Running,
    running,
    tls_settings,
    write_folder,
)

ENOUGH_S: Final = 60
ACLS: Final = 200
ENDPOINTS: Final = (DECISION_HTTP, ADMIN_HTTP, DECISION_STREAM, PLAINTEXT, SASL, CONTROLLER)
HTTP: Final = (DECISION_HTTP, ADMIN_HTTP)
LOGGED_IN: Final = len(ENDPOINTS)
"""Added to the number of a Kafka endpoint: the client logs in first."""


@asynccontextmanager
async def _daemon(
    new_settings: Callable[[Path], Mapping[str, str]], *, logs_in: bool
) -> AsyncIterator[Check]:
    meters = (LineMeter(LIMITS["lines"]), CollectionMeter(), SlowCallMeter())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_folder(folder, ACL_SETS["literals"](ACLS))
        async with AsyncExitStack() as stack:
            for meter in meters:
                trio.lowlevel.add_instrument(meter)
                stack.callback(trio.lowlevel.remove_instrument, meter)
            place = await stack.enter_async_context(running(folder, new_settings(folder)))

            async def check(data: bytes) -> None:
                await wait_all_tasks_blocked()
                for meter in meters:
                    meter.start()
                try:
                    with trio.fail_after(ENOUGH_S):
                        answer, endpoint = await _converse(place, data, logs_in=logs_in)
                        await wait_all_tasks_blocked()
                finally:
                    for meter in meters:
                        meter.stop()
                for meter in meters:
                    longest = meter.longest
                    assert longest.amount <= LIMITS[meter.unit], f"{longest} {meter.unit}"
                if endpoint in HTTP:
                    assert b"HTTP/1.1 500" not in answer, answer[:300]

            yield check


async def _converse(place: Running, data: bytes, *, logs_in: bool) -> tuple[bytes, str]:
    """Send an input to its endpoint, and return everything that comes back."""
    number = data[0] if data else 0
    endpoint = ENDPOINTS[number % len(ENDPOINTS)]
    stream = await place.connect_plain(endpoint)
    answer = bytearray()
    async with stream:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError, OSError):
            if logs_in and number >= LOGGED_IN and endpoint in (SASL, CONTROLLER):
                await log_in(stream, ALICE)
            await stream.send_all(data[1:])
            await stream.send_eof()
            async for piece in stream:
                answer += piece
    return bytes(answer), endpoint


def _seeds() -> Iterator[bytes]:
    def to(endpoint: str, data: bytes, more: int = 0) -> bytes:
        return bytes((ENDPOINTS.index(endpoint) + more,)) + data

    yield from (to(DECISION_HTTP, data) for data in [*decision_seeds()][::3])
    yield from (to(ADMIN_HTTP, data) for data in [*console_seeds()][::3])
    for path in ADMIN_PATHS:
        yield to(ADMIN_HTTP, next(any_port(ADMIN_HTTP, path)).data)
    client = StreamClientConnection(1 << 16)
    asked = client.ask(1, [("User:alice", None, 3, 2, "t")] * 20)
    yield to(DECISION_STREAM, client.hello("alice.alice") + asked * 3)
    for number, data in enumerate(request_frames()):
        if number % 40 == 0:
            yield to(PLAINTEXT, data)
            yield to(SASL, data, LOGGED_IN)
            yield to(CONTROLLER, data, LOGGED_IN)


def _tls_seeds() -> Iterator[bytes]:
    for number in range(len(ENDPOINTS)):
        yield bytes((number,)) + client_hello()
        yield bytes((number,)) + b"GET / HTTP/1.1\r\n\r\n"


DAEMON_TARGETS: Final = tuple(
    Target(
        name=name,
        place=partial(_daemon, new_settings, logs_in=new_settings is not tls_settings),
        seeds=seeds,
        weight=weight,
        is_traced=False,
    )
    for name, new_settings, seeds, weight in (
        ("daemon", lambda folder: {"authorizerd.console": "true"}, _seeds, 2),
        ("daemon-tls", tls_settings, _tls_seeds, 1),
    )
)
