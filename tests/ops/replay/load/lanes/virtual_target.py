"""A target with a virtual clock, and runs of a lane on it: no sockets, no waiting."""

from collections import deque
from collections.abc import Sequence
from typing import cast

from authorizerd.protocol.decisions.stream import (
    Ask,
    StreamServerConnection,
    encode_answer,
    encode_hello,
)
from authorizerd.protocol.kafka.error_codes import ErrorCode
from authorizerd.replay.errors import LoadError
from authorizerd.replay.load.lanes.connection import SocketLine
from authorizerd.replay.load.lanes.lane import Lane
from authorizerd.replay.load.lanes.tally import LaneResult, Tally
from authorizerd.replay.load.plan.frames import Frame, LaneDigest, TimedQuestion, frames_of
from authorizerd.replay.load.surfaces import STREAM, RecordedQuestion, StreamSurface, Surface
from authorizerd.replay.plans import LoadPlan

MS = 1_000_000
S = 1_000_000_000
_HELLO = b"\0\0\0\x08\x92\xa5hello\x01"


class VirtualTarget:
    """Stands in for ``connection.SocketLine``.

    Args:
        stalls: (from, until): answers due in this time are sent at its end.
        dies_at: time at which it closes the connection, without further answers.
        returns_at: time from which it accepts a new connection; None for never.
        send_fails_at: time from which the next send fails.
        dies_again_at: time at which it closes that one; it accepts the next one at once.
        pauses: (from, for): the generator's first send after ``from`` takes ``for``.
        room: maximum number of bytes per send, refilled by each wait; None for no limit.
    """

    def __init__(
        self, *, service_ns: int = MS // 10, stalls: tuple[tuple[int, int], ...] = (),
        dies_at: int | None = None, returns_at: int | None = None,
        dies_again_at: int | None = None, send_fails_at: int | None = None,
        pauses: tuple[tuple[int, int], ...] = (), room: int | None = None,
        answers: dict[int, bytes] | None = None,
    ) -> None:  # fmt: skip
        self.came: list[tuple[int, int]] = []
        self._now_ns = 0
        self._service_ns = service_ns
        self._stalls = stalls
        self._dies_at = dies_at
        self._returns_at = returns_at
        self._dies_again_at = dies_again_at
        self._send_fails_at = send_fails_at
        self.attempts = 0
        self._pauses = deque(pauses)
        self._room = room
        self._left = room
        self._given = answers or {}
        self._accept()

    def _accept(self) -> None:
        self._connection = StreamServerConnection(1 << 20)
        self._connection.receive_data(_HELLO)
        self._connection.next_frame()
        self._answers: deque[tuple[int, bytes]] = deque()
        self._busy_until_ns = 0

    def reopen(self, seconds: float) -> Surface:
        self.attempts += 1
        self._now_ns += MS
        if self._returns_at is None or self._now_ns < self._returns_at:
            raise LoadError("Connection refused")
        self._dies_at, self._dies_again_at = self._dies_again_at, None
        self._accept()
        return new_surface()

    def pause(self, span_ns: int) -> None:
        self._now_ns += span_ns

    def now_ns(self) -> int:
        return self._now_ns

    def send(self, data: bytes | memoryview) -> int:
        if self._pauses and self._now_ns >= self._pauses[0][0]:
            self._now_ns += self._pauses.popleft()[1]
        if self._send_fails_at is not None and self._now_ns >= self._send_fails_at:
            self._send_fails_at = None
            raise ConnectionResetError("Connection reset by peer")
        taken = len(data) if self._left is None else min(len(data), self._left)
        if self._left is not None:
            self._left -= taken
        self._connection.receive_data(bytes(data[:taken]))
        while (asked := self._connection.next_frame()) is not None:
            assert isinstance(asked, Ask)
            self._take(asked)
        return taken

    def receive(self) -> bytes | None:
        data = b""
        while self._answers and self._answers[0][0] <= self._now_ns:
            data += self._answers.popleft()[1]
        if data:
            return data
        return b"" if self._is_dead_at(self._now_ns) else None

    def wait(self, until_ns: int, *, to_send: bool) -> bool:
        moments = [at for at, _ in list(self._answers)[:1] if not self._is_dead_at(at)]
        if self._dies_at is not None:
            moments.append(self._dies_at)
        readable_ns = min(moments, default=None)
        if to_send:
            self._left = self._room
            until_ns = min(until_ns, self._now_ns + MS)
        if readable_ns is not None and readable_ns <= max(until_ns, self._now_ns):
            self._now_ns = max(self._now_ns, readable_ns)
            return True
        self._now_ns = max(self._now_ns, until_ns)
        return False

    def _take(self, asked: Ask) -> None:
        self.came.append((self._now_ns, asked.correlation_id))
        answered_ns = max(self._now_ns, self._busy_until_ns) + self._service_ns
        for begin, end in self._stalls:
            if begin <= answered_ns < end:
                answered_ns = end
        self._busy_until_ns = answered_ns
        answer = self._given.get(asked.correlation_id)
        if answer is None:
            answer = encode_answer(asked.correlation_id, 0, 7, b"\1" * len(asked.questions))
        if not self._is_dead_at(answered_ns):
            self._answers.append((answered_ns, answer))

    def _is_dead_at(self, at_ns: int) -> bool:
        return self._dies_at is not None and at_ns >= self._dies_at


QUESTION = StreamSurface.encode_question(
    RecordedQuestion("User:a", None, "READ", "TOPIC", "orders")
)


def new_surface() -> StreamSurface:
    """Return a surface that the target has greeted."""
    surface = StreamSurface("h:1", None)
    surface.receive_data(encode_hello(ErrorCode.NONE, 7))
    return surface


def frames_each(every_us: int, count: int, *, batch: int = 1) -> list[Frame]:
    timed = [
        TimedQuestion(number // batch * every_us, True, QUESTION) for number in range(count * batch)
    ]
    return list(frames_of(timed, STREAM, batch, 1))


def run_lane(
    target: VirtualTarget, frames: Sequence[Frame], *, depth: int = 8, is_open: bool = True,
    warm_up_ns: int = 0, end_ns: int | None = None, drop_after_ns: int = 10_000_000_000,
    listed_max: int = 10, reconnect_s: float | None = None,
) -> LaneResult:  # fmt: skip
    plan = LoadPlan(
        events="", out="", target="h:1", run_id="1", mode="open" if is_open else "closed",
        depth=depth, warm_up_s=warm_up_ns / 1e9, mismatches_listed_max=listed_max,
        reconnect_s=reconnect_s,
        duration_s=None if end_ns is None else (end_ns - warm_up_ns) / 1e9,
    )  # fmt: skip
    tally = Tally(LaneDigest(lane=0, digest=""), plan)
    line = cast("SocketLine", target)
    Lane(iter(frames), new_surface(), line, plan, tally, drop_after_ns=drop_after_ns).run()
    return tally.result
