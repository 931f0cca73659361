"""Send inputs to a daemon, and keep the longest stretch of each."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

import trio
from trio.testing import wait_all_tasks_blocked

from authorizerd.daemon.endpoints import DECISION_STREAM
from authorizerd.protocol.decisions.stream import StreamClientConnection
from authorizerd.protocol.kafka.api import ApiKey
from tests.loop.http_requests import HttpRequest
from tests.loop.kafka_requests import Request
from tests.loop.log_ins import Handshake, ScramLogIn, log_in_with_scram, shake_hands
from tests.loop.meter import Longest, Meter
from tests.loop.running import ANONYMOUS, CONTROLLER, NOBODY, PLAINTEXT, SASL, Running, token_of
from tests.loop.stream_frames import StreamFrames

RECEIVE_BYTES = 1 << 20
ENOUGH_S = 600

Input: TypeAlias = Request | HttpRequest | StreamFrames | Handshake | ScramLogIn


@dataclass(frozen=True)
class Played:
    """One input with its sizes in bytes; ``longest`` has a stretch of each meter."""

    input: str
    sent: int
    answered: int
    longest: Mapping[str, Longest]


class Player:
    """One caller, which keeps its Kafka connections open."""

    def __init__(self, running: Running, meters: Sequence[Meter], user: str) -> None:
        self._running = running
        self._meters = meters
        self._user = user
        self._token = token_of(user)
        self._kafka: dict[str, trio.abc.Stream] = {}

    async def play(self, played: Input, repeats: int = 1) -> Played:
        """Send an input ``repeats`` times; keep the shortest of the runs' longest stretches."""
        size, data = 0, _data_of(played)
        shortest: dict[str, Longest] = {}
        for _ in range(repeats):
            size = await self._play_once(played, data)
            for meter in self._meters:
                longest, before = meter.longest, shortest.get(meter.unit)
                if before is None or longest.amount < before.amount:
                    shortest[meter.unit] = longest
        return Played(f"{self._user}: {played}", len(data), size, shortest)

    async def _play_once(self, played: Input, data: bytes) -> int:
        """Send an input; return the number of received bytes."""
        stream: trio.abc.Stream
        match played:
            case Handshake():
                plain = await self._running.connect_plain(played.endpoint)
                return await self._measure(plain, shake_hands(self._running, plain, played))
            case ScramLogIn():
                stream = await self._running.connect(SASL)
                return await self._measure(stream, log_in_with_scram(stream, played))
            case Request():
                stream, answers = await self._kafka_stream(played), 1
            case StreamFrames():
                stream, answers = await self._running.connect(DECISION_STREAM), played.answers
                hello = StreamClientConnection(1024).hello(self._token or None)
                await exchange(stream, hello, 1)
            case HttpRequest():
                stream, answers = await self._running.connect(played.endpoint), 0
        await wait_all_tasks_blocked()
        for meter in self._meters:
            meter.start()
        with trio.fail_after(ENOUGH_S):
            size, is_open = await exchange(stream, data, answers)
        if not (is_open and isinstance(played, Request)) or self._user == NOBODY:
            self._kafka = {k: kept for k, kept in self._kafka.items() if kept is not stream}
            await stream.aclose()
        await wait_all_tasks_blocked()
        for meter in self._meters:
            meter.stop()
        return size

    async def _measure(self, stream: trio.abc.Stream, conversation: Awaitable[int]) -> int:
        """Measure a conversation and the end of its connection; return its result."""
        await wait_all_tasks_blocked()
        for meter in self._meters:
            meter.start()
        with trio.fail_after(ENOUGH_S):
            size = await conversation
        await stream.aclose()
        await wait_all_tasks_blocked()
        for meter in self._meters:
            meter.stop()
        return size

    async def _kafka_stream(self, request: Request) -> trio.abc.Stream:
        name = CONTROLLER if request.api_key is ApiKey.ENVELOPE else SASL
        if self._user == ANONYMOUS:
            name = PLAINTEXT
        if name not in self._kafka:
            self._kafka[name] = stream = await self._running.connect(name)
            if self._user not in (ANONYMOUS, NOBODY):
                await log_in(stream, self._user)
        return self._kafka[name]

    async def close(self) -> None:
        for stream in self._kafka.values():
            await stream.aclose()


def _data_of(played: Input) -> bytes:
    match played:
        case Request():
            return played.frame()
        case ScramLogIn():
            return played.first + played.final
        case _:
            return played.data


async def log_in(stream: trio.abc.Stream, user: str) -> None:
    """Log in with PLAIN; the password is the user's name."""
    handshake = b"\0\x11\0\1\0\0\0\1\xff\xff\0\5PLAIN"
    await exchange(stream, len(handshake).to_bytes(4, "big") + handshake, 1)
    token = f"\0{user}\0{user}".encode()
    body = b"\0\x24\0\0\0\0\0\1\xff\xff" + len(token).to_bytes(4, "big") + token
    _, is_open = await exchange(stream, len(body).to_bytes(4, "big") + body, 1)
    assert is_open, "log-in failed"


async def exchange(stream: trio.abc.Stream, data: bytes, frames: int) -> tuple[int, bool]:
    """Send ``data`` and read ``frames`` frames; 0: read to the end.

    Returns: the number of received bytes, and whether the connection is still open.
    """
    size, left = 0, frames
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_send, stream, data)
        held = bytearray()
        while left or not frames:
            try:
                piece = await stream.receive_some(RECEIVE_BYTES)
            except trio.BrokenResourceError:
                piece = b""
            if not piece:
                nursery.cancel_scope.cancel()
                return size, False
            size += len(piece)
            if frames:
                held += piece
            while len(held) >= 4 and len(held) >= (end := 4 + int.from_bytes(held[:4], "big")):
                del held[:end]
                left -= 1
    return size, True


async def _send(stream: trio.abc.Stream, data: bytes) -> None:
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        await stream.send_all(data)
