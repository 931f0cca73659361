"""One lane of the load: send frames when they are due, and record the answers.

**Invariant:** in an open loop, the schedule never moves. If the target holds up a frame, the frame
is late, and its latency still counts from when it was due. A frame that is too late is dropped, and
its latency is the time that it has waited. In a closed loop, a frame is due when it is sent. If a
connection breaks and another one replaces it, the lane first asks again what was in flight: such a
question's latency still counts from when it was due, and so includes the outage.

The *send lag* is the delay that the generator itself causes: the time from when a frame is due
until it is sent, minus the time during which the lane could only wait for the target to answer or
read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from authorizerd.protocol.errors import DecodeError
from authorizerd.replay.errors import LoadError
from authorizerd.replay.load.lanes.connection import SocketLine, reason_of
from authorizerd.replay.load.lanes.tally import Sent, Tally
from authorizerd.replay.load.plan.frames import Frame
from authorizerd.replay.load.surfaces import Answer, Surface
from authorizerd.replay.plans import LoadPlan

DROP_AFTER_NS: Final = 10_000_000_000
ANSWER_NS_MAX: Final = 30_000_000_000
RETRY_NS: Final = 10_000_000
RETRY_NS_MAX: Final = 200_000_000
"""The delay after a failed attempt to connect again doubles up to this."""
_FAR_NS: Final = 3_600_000_000_000


class SilentTargetError(ConnectionError):
    """The target has not answered for so long that its connection counts as broken."""


class BlockedTime:
    """The times during which the lane could only wait for the target."""

    def __init__(self) -> None:
        self._spans: deque[tuple[int, int]] = deque()
        self._total_ns = 0

    def add(self, begin_ns: int, end_ns: int) -> None:
        """Add a span, which must not begin before the end of the last one."""
        if end_ns > begin_ns:
            self._spans.append((begin_ns, end_ns))
            self._total_ns += end_ns - begin_ns

    def since(self, due_ns: int) -> int:
        """Return the blocked time since ``due_ns``, which must not decrease between calls."""
        spans = self._spans
        while spans and spans[0][0] < due_ns:
            begin, end = spans.popleft()
            kept = min(end, due_ns)
            self._total_ns -= kept - begin
            if end > due_ns:
                spans.appendleft((due_ns, end))
        return self._total_ns


class Lane:
    """Sends ``frames``, ordered by time, over one connection.

    A frame that is sent later than ``drop_after_ns`` is dropped.
    """

    def __init__(
        self,
        frames: Iterator[Frame],
        surface: Surface,
        line: SocketLine,
        plan: LoadPlan,
        tally: Tally,
        *,
        drop_after_ns: int = DROP_AFTER_NS,
    ) -> None:
        self._frames = frames
        self._surface = surface
        self._line = line
        self._is_open = plan.is_open
        self._depth = plan.depth
        # An open loop needs no end: its plan has no later frames.
        self._end_ns = None if plan.is_open or plan.ends_s is None else int(plan.ends_s * 1e9)
        self._drop_after_ns = drop_after_ns
        self._reconnect_s = plan.reconnect_s
        self._give_up_ns: int | None = None
        self._tally = tally
        self._next = next(frames, None)
        self._in_flight: deque[Sent] = deque()
        self._to_ask_again: deque[Sent] = deque()
        self._unsent = memoryview(b"")
        self._blocked = BlockedTime()

    def run(self) -> None:
        """Send all frames and receive the answers; the tally records an early end."""
        try:
            while True:
                try:
                    self._send_what_is_due()
                    if self._is_done():  # also True if the time is up and nothing is pending
                        break
                    self._wait()
                except OSError as error:
                    self._reconnect(error)
        except (LoadError, DecodeError, OSError) as error:
            self._tally.result.ended = reason_of(error)
        for sent in (*self._in_flight, *self._to_ask_again):
            self._tally.record_unanswered(sent, self._line.now_ns())
        self._tally.result.finished_ns = self._line.now_ns()

    def _reconnect(self, broken: Exception) -> None:
        """Connect again, and let what is in flight be asked again.

        Raises:
            LoadError: the target has not answered in time since the connection broke first.
        """
        if self._reconnect_s is None:
            raise broken
        begin_ns, delay_ns, reason = self._line.now_ns(), RETRY_NS, reason_of(broken)
        is_silent = isinstance(broken, SilentTargetError)
        outage_ns = self._in_flight[0].sent_ns if is_silent else begin_ns
        if self._give_up_ns is None:
            self._give_up_ns = begin_ns + int(self._reconnect_s * 1e9)
        else:  # it accepts connections, but answers no questions
            self._line.pause(RETRY_NS_MAX)
        while True:
            left_ns = self._give_up_ns - self._line.now_ns()
            if left_ns <= 0:
                raise LoadError(f"{reason}, and no answer within {self._reconnect_s:g} s")
            try:
                self._surface = self._line.reopen(left_ns / 1e9)
                break
            except LoadError as error:
                reason = f"{reason_of(broken)}; {error}"
            self._line.pause(min(delay_ns, left_ns))
            delay_ns = min(2 * delay_ns, RETRY_NS_MAX)
        now_ns = self._line.now_ns()
        lost = sum(len(sent.frame.recorded) for sent in self._in_flight)
        self._tally.record_outage(outage_ns, now_ns, lost, reason_of(broken))
        self._blocked.add(begin_ns, now_ns)
        self._to_ask_again.extendleft(reversed(self._in_flight))
        self._in_flight.clear()
        self._unsent = memoryview(b"")

    def _is_done(self) -> bool:
        return self._next is None and not (self._in_flight or self._unsent or self._to_ask_again)

    @property
    def _is_blocked(self) -> bool:
        return bool(self._unsent) or len(self._in_flight) >= self._depth

    def _send_what_is_due(self) -> None:
        now_ns = self._line.now_ns()
        # Send the rest of the last frame first: frames must not be interleaved.
        if self._unsent:
            self._flush()
        while self._to_ask_again and not self._is_blocked:
            sent = self._to_ask_again.popleft()
            self._transmit(Sent(sent.frame, sent.due_ns, now_ns))
        if self._end_ns is not None and now_ns >= self._end_ns:
            self._next = None
        while (frame := self._next) is not None:
            due_ns = frame.due_us * 1000
            if self._is_open:
                if due_ns > now_ns:
                    return
                if now_ns - due_ns > self._drop_after_ns:
                    self._tally.record_dropped(frame, now_ns)
                    self._next = next(self._frames, None)
                    continue
            if self._is_blocked:
                return
            # Before the send, which may fail: the frame is then in flight, and asked again.
            self._next = next(self._frames, None)
            self._send(frame, due_ns if self._is_open else now_ns, now_ns)
            now_ns = self._line.now_ns()

    def _send(self, frame: Frame, due_ns: int, now_ns: int) -> None:
        held_up_ns = self._blocked.since(due_ns)
        sent = Sent(frame, due_ns, now_ns)
        self._tally.record_sent(sent, held_up_ns)
        self._transmit(sent)

    def _transmit(self, sent: Sent) -> None:
        # Before the bytes leave: if the send fails, the frame counts as unanswered.
        self._in_flight.append(sent)
        self._unsent = memoryview(self._surface.request(sent.frame.body))
        self._flush()

    def _flush(self) -> None:
        taken = self._line.send(self._unsent)
        self._unsent = self._unsent[taken:]

    def _wait(self) -> None:
        """Wait for an answer or for the next action, and receive what has arrived."""
        begin_ns = self._line.now_ns()
        has_answers = self._line.wait(self._wake_ns(begin_ns), to_send=bool(self._unsent))
        now_ns = self._line.now_ns()
        if self._is_open and self._is_blocked:
            self._blocked.add(begin_ns, now_ns)
        if has_answers:
            self._receive()
        elif self._in_flight:
            waited_ns = now_ns - self._in_flight[0].sent_ns
            if waited_ns >= ANSWER_NS_MAX:
                raise SilentTargetError(f"no answer for {waited_ns / 1e9:.0f} s")

    def _wake_ns(self, now_ns: int) -> int:
        wake_ns = now_ns + _FAR_NS
        if self._in_flight:
            wake_ns = min(wake_ns, self._in_flight[0].sent_ns + ANSWER_NS_MAX)
        if self._next is None:
            return wake_ns
        if not self._is_open:
            return wake_ns if self._is_blocked else now_ns
        due_ns = self._next.due_us * 1000
        # One ns more, because a frame is dropped only once it exceeds the limit.
        return min(wake_ns, due_ns + self._drop_after_ns + 1 if self._is_blocked else due_ns)

    def _receive(self) -> None:
        data = self._line.receive()
        if data is None:
            return
        if not data:
            raise ConnectionError("the target closed the connection")
        now_ns = self._line.now_ns()
        self._surface.receive_data(data)
        while (answer := self._surface.next_answer()) is not None:
            self._take(answer, now_ns)

    def _take(self, answer: Answer, now_ns: int) -> None:
        if not self._in_flight:
            raise LoadError("received an answer that belongs to no question")
        sent = self._in_flight[0]
        if answer.number is not None and answer.number != sent.frame.number:
            said = "" if answer.error is None else f", with error {answer.error}"
            raise LoadError(
                f"expected an answer to frame {sent.frame.number}, found an answer to frame "
                f"{answer.number}{said}"
            )
        if answer.error is None and len(answer.decisions) != len(sent.frame.recorded):
            raise LoadError(
                f"expected {len(sent.frame.recorded)} decisions, found {len(answer.decisions)}"
            )
        # Only after the checks: a frame with an invalid answer counts as unanswered.
        self._in_flight.popleft()
        self._give_up_ns = None
        self._tally.record_answer(sent, answer, now_ns)
