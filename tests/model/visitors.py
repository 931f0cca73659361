"""Clients that connect to the daemon's ports, over a network that may cut their connections.

Each makes its calls one after the other. A connection that breaks, or on which an answer takes too
long, is replaced at the next call; its update is in doubt then.
"""

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import Final

import trio

from authorizerd.acl.model import Question
from authorizerd.kafka_client.errors import ConnectionFailedError
from authorizerd.protocol.decisions.stream import (
    ALLOWED,
    DENIED,
    NOT_READY,
    Answer,
    StreamClientConnection,
)
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.model.invariants import check
from tests.model.network import MemoryStream
from tests.model.process import Process
from tests.model.story import HTTP, STREAM, Ask, Call, Client, Step
from tests.support.requests import evaluation_of, stream_question

ANSWER_S_MAX: Final = 30.0
"""A client gives up after this time, if the story does not say earlier."""
RETRY_S: Final = 0.25
FRAME_BYTES_MAX: Final = 1 << 20

_LOST: Final = (
    trio.BrokenResourceError, trio.ClosedResourceError, ConnectionFailedError,
    ConnectionRefusedError, EOFError,
)  # fmt: skip


class Visitor(ABC):
    """A client of one port."""

    def __init__(self, process: Process, client: Client, number: int, counts: Counter[str]) -> None:
        self._process = process
        self._client = client
        self._number = number
        self._counts = counts
        self._connections = 0
        self._stream: MemoryStream | None = None
        self._seen_offset = -1

    async def run(self) -> None:
        """Make all calls, until the daemon has ended."""
        try:
            for call in self._client.calls:
                await trio.sleep(call.delay_s)
                if not await self._call(call):
                    return
        finally:
            await self._disconnect()

    async def _call(self, call: Call) -> bool:
        """Make a call; return False if the daemon has ended."""
        self._counts[f"{type(call.step).__name__} over {self._client.surface}"] += 1
        patience_s = ANSWER_S_MAX if call.patience_s is None else call.patience_s
        with trio.move_on_after(patience_s):
            while self._stream is None:
                try:
                    await self._connect()
                except _LOST:
                    await self._disconnect()
                    if self._process.is_over:
                        return False
                    await trio.sleep(RETRY_S)
            try:
                await self._do(call.step)
            except _LOST:
                self._counts["connections lost"] += 1
                await self._disconnect()
            return True
        self._counts["visitors that gave up"] += 1
        await self._disconnect()
        return True

    async def _connect(self) -> None:
        self._connections += 1
        self._stream = await self._open()
        await self._greet(self._stream)

    async def _open(self) -> MemoryStream:
        return await self._process.network.connect(self._client.endpoint, self._cut_after)

    @property
    def _cut_after(self) -> int | None:
        """Each connection lives longer than the one before, so that a client gets its answers."""
        first = self._client.cut_after
        return None if first is None else first * self._connections

    async def _disconnect(self) -> None:
        if self._stream is not None:
            stream, self._stream = self._stream, None
            await trio.aclose_forcefully(stream)

    @abstractmethod
    async def _greet(self, stream: MemoryStream) -> None:
        """Begin the conversation of a new connection."""

    @abstractmethod
    async def _do(self, step: Step) -> None:
        """Do one step, and check its answer."""

    async def _receive(self) -> bytes:
        assert self._stream is not None
        data = await self._stream.receive_some()
        if not data:
            raise EOFError
        return data

    def _see(self, offset: int, least_offset: int) -> None:
        """Check the offset of an answer: it may not be older than an earlier one."""
        check(offset >= least_offset, "an acknowledged update is not visible at a port")
        check(offset >= self._seen_offset, "a client of a port sees an older state")
        self._seen_offset = offset

    def _check_unready(self, asked_at: float) -> None:
        """Check that the daemon may have had no ACLs since ``asked_at``."""
        check(self._process.may_be_unready(asked_at), "a port that is open is not ready")
        self._counts[f"not ready over {self._client.surface}"] += 1

    def _check_decision(
        self, question: Question, allowed: bool, offset: int, since: int, asked_at: float
    ) -> None:
        process = self._process
        if offset == -1:  # without ACLs, only super users get answers
            check(process.may_be_unready(asked_at), "a decision is made without ACLs")
            supers = [question.principal in users for users, _ in process.settings[since:]]
            check(not allowed or any(supers), f"{question} is allowed without ACLs")
            return
        process.check_freshness(offset, asked_at)
        self._counts[f"decisions over {self._client.surface}"] += 1
        newest = process.applier.snapshot.newest
        # A plugged-in authorizer decides each question of a batch by the newest state.
        last = newest.offset if process.life.is_plugged_in and newest is not None else offset
        process.invariants.check_decision(
            offset, question, allowed, process.settings[since:], last_offset=last
        )

    @property
    def _since(self) -> int:
        """The settings that are in force; later ones may be as soon as a reload begins."""
        is_decision_port = self._client.surface in (HTTP, STREAM)
        return self._process.oldest_settings(of_workers=is_decision_port)


class HttpVisitor(Visitor):
    """Asks AuthZEN questions over HTTP: all in one batch, or each by itself."""

    async def _greet(self, stream: MemoryStream) -> None:
        self._received = b""
        if self._process.workers is not None:  # another one may be behind
            self._seen_offset = -1

    async def _do(self, step: Step) -> None:
        assert isinstance(step, Ask)
        if step.pause_s is None:
            asked = {"evaluations": [evaluation_of(each) for each in step.questions]}
            await self._ask("evaluations", asked, step.questions)
            return
        for question in step.questions:
            await self._ask("evaluation", evaluation_of(question), [question])

    async def _ask(self, name: str, asked: object, questions: Sequence[Question]) -> None:
        process, since, asked_at = self._process, self._since, trio.current_time()
        least_offset = process.least_offset
        body = json.dumps(asked).encode()
        assert self._stream is not None
        await self._stream.send_all(
            b"POST /access/v1/%b HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
            % (name.encode(), len(body), body)
        )
        status, answer = await self._answer()
        if status == 503:
            self._check_unready(asked_at)
            return
        if status == 408:  # a part of the request arrived after the partition
            check(process.network.was_partitioned(asked_at), "a whole request timed out")
            self._counts["requests that timed out"] += 1
            return
        check(status == 200, f"a question over HTTP is answered {status} {answer!r}")
        decided = json.loads(answer)
        items = decided.get("evaluations", [decided])
        offsets = {item["context"]["offset"] for item in items}
        check(len(offsets) == 1, f"one batch is decided by several states: {offsets}")
        [offset] = offsets
        if offset >= 0:
            self._see(offset, least_offset)
        for question, item in zip(questions, items, strict=True):
            self._check_decision(question, item["decision"], offset, since, asked_at)

    async def _answer(self) -> tuple[int, bytes]:
        while b"\r\n\r\n" not in self._received:
            self._received += await self._receive()
        head, _, self._received = self._received.partition(b"\r\n\r\n")
        [size] = [
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length:")
        ]
        while len(self._received) < size:
            self._received += await self._receive()
        body, self._received = self._received[:size], self._received[size:]
        return int(head.split()[1]), body


class StreamVisitor(Visitor):
    """Asks over the decision stream: all questions in one frame, or a frame for each at once."""

    async def _greet(self, stream: MemoryStream) -> None:
        self._frames = StreamClientConnection(FRAME_BYTES_MAX)
        await stream.send_all(self._frames.hello())
        while (greeting := self._frames.next_greeting()) is None:
            self._frames.receive_data(await self._receive())
        check(greeting.error_code == 0, f"a hello is answered {greeting.error_code}")

    async def _do(self, step: Step) -> None:
        assert isinstance(step, Ask)
        process, since, asked_at = self._process, self._since, trio.current_time()
        least_offset = process.least_offset
        asked = max(least_offset, self._seen_offset)
        frames = [[each] for each in step.questions]
        if step.pause_s is None:
            frames = [list(step.questions)]
        data = b"".join(
            self._frames.ask(number, [stream_question(each) for each in questions], asked)
            for number, questions in enumerate(frames)
        )
        assert self._stream is not None
        await self._stream.send_all(data)
        for number, questions in enumerate(frames):
            answer = await self._answer()
            check(answer.correlation_id == number, "a frame is answered out of order")
            if answer.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED and number:
                self._counts["frames shed"] += 1
                continue
            if answer.error_code == ErrorCode.REQUEST_TIMED_OUT and self._may_be_behind(asked):
                self._counts["workers behind an offset"] += 1
                continue
            if answer.error_code in (ErrorCode.AUTHORIZER_NOT_READY, ErrorCode.REQUEST_TIMED_OUT):
                self._check_unready(asked_at)
                continue
            check(answer.error_code == 0, f"a frame is answered by {answer.error_code}")
            if answer.offset >= 0:
                self._see(answer.offset, least_offset)
            for question, decision in zip(questions, answer.decisions, strict=True):
                if decision == NOT_READY:
                    self._check_unready(asked_at)
                    continue
                check(decision in (ALLOWED, DENIED), f"a question is answered {decision}")
                allowed = decision == ALLOWED
                self._check_decision(question, allowed, answer.offset, since, asked_at)

    def _may_be_behind(self, offset: int) -> bool:
        """Return True if a worker need not have this offset, which another one has shown."""
        return self._process.workers is not None and offset > self._process.least_offset

    async def _answer(self) -> Answer:
        while (answer := self._frames.next_answer()) is None:
            self._frames.receive_data(await self._receive())
        return answer
