"""The decision stream's server: frames of questions in, frames of decisions out, in order.

**Invariant:** one frame is judged by one state of the ACLs, and the answer carries its offset. The
server stops reading from a client that does not read its answers, so at most one frame waits in
memory, together with the bytes received with it.

If no question of a frame can be decided yet, AUTHORIZER_NOT_READY is the frame's error code.

Source: docs/stream.md.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

import trio

from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.actors.daemon_authorizer import DaemonAuthorizer, DecisionState
from authorizerd.config.bounds import RECEIVE_BYTES, SEND_BYTES
from authorizerd.config.configuration import Configuration
from authorizerd.daemon.decisions.access_audit import audit_access
from authorizerd.daemon.decisions.callers import Callers
from authorizerd.daemon.decisions.question_cost import bound_explanation, bound_lookups
from authorizerd.daemon.decisions.requester import PortRequester
from authorizerd.daemon.decisions.stream_decisions import (
    count_decisions,
    decide,
    encode_decisions,
)
from authorizerd.daemon.errors import ClosingError, ForbiddenError, MemoryBudgetError
from authorizerd.daemon.net.connection import LOGIN_BYTES_MAX, Connection, Phase
from authorizerd.daemon.net.connection_limits import ConnectionLimits
from authorizerd.daemon.net.connection_server import ConnectionServer
from authorizerd.daemon.net.connection_statistics import ConnectionStatistics
from authorizerd.daemon.net.selector import Selector
from authorizerd.daemon.net.socket_stream import SocketStream
from authorizerd.protocol.decisions.stream import (
    NOT_READY,
    STREAM_VERSION,
    Ask,
    Hello,
    StreamQuestion,
    StreamServerConnection,
    Unreadable,
    encode_answer,
    encode_hello,
)
from authorizerd.protocol.framing import holds_frame, is_frame
from authorizerd.protocol.http.rights import DECISIONS
from authorizerd.protocol.kafka.error_codes import ErrorCode
from authorizerd.tls.server import TlsServer

SURFACE: Final = "Stream"
NEEDS: Final = DECISIONS  # the rights that the stream requires of its callers
QUESTIONS_PER_TURN: Final = 120
QUESTIONS_PER_TURN_MIN: Final = 32  # even while very many connections wait
QUESTIONS_PER_SLICE: Final = 240
"""The maximum for a connection whose slices are timed (see ``net.turns``), as turns cost time."""
QUESTION_NS: Final = 2000
"""About how long a question takes."""
LOOKUPS_PER_QUESTION: Final = 8
"""The number of lookups that count as one more question."""
QUESTIONS_PER_FRAME: Final = 2
"""The fixed cost of a frame, counted in questions."""
NO_CORRELATION_ID: Final = -1
"""The correlation id of the answer to a frame whose id has not arrived."""

_GREETED: Final = "the hello precedes any question"
_ANSWERING: Final = Phase.ANSWERING  # a member of an enum is looked up slowly

_logger = logging.getLogger(__name__)


class StreamServer(ConnectionServer):
    """Serve the decision stream.

    Args:
        offset_timeout_ms: how long a frame may wait for the offset that it names.
    """

    def __init__(
        self,
        *,
        name: str,
        authorizer: DaemonAuthorizer,
        callers: Callers,
        limits: ConnectionLimits,
        frame_bytes_max: int,
        memory_bytes_max: int,
        turn_ms_max: float,
        offset_timeout_ms: int,
        tls: TlsServer | None = None,
    ) -> None:
        super().__init__(
            name=name,
            limits=limits,
            memory_bytes_max=memory_bytes_max,
            turn_ms_max=turn_ms_max,
            too_many=encode_hello(ErrorCode.THROTTLING_QUOTA_EXCEEDED, -1),
            login_bytes_max=LOGIN_BYTES_MAX,
            tls=tls,
            selector=None if tls is not None else Selector(),
        )
        self.statistics = ConnectionStatistics()
        self.authorizer: Final = authorizer
        self.callers: Final = callers
        self.frame_bytes_max: Final = frame_bytes_max
        self.offset_timeout = offset_timeout_ms / 1000
        self.counts: Final = authorizer.counts_of(SURFACE)
        self.bound: Final = bound_explanation if authorizer.names_rules else bound_lookups
        self._bounded: AclSnapshot | None = None
        self._lookups = 1  # of the snapshot ``_bounded``

    def reconfigure(self, settings: Configuration, connections_max: int) -> None:
        super().reconfigure(settings, connections_max)
        self.offset_timeout = settings.update_timeout_ms / 1000

    def bound_lookups(self, snapshot: AclSnapshot) -> int:
        """Return the maximum number of lookups for any question that a frame can hold."""
        if snapshot is not self._bounded:
            self._bounded = snapshot
            self._lookups = self.bound(snapshot, self.frame_bytes_max)
        return self._lookups

    def holds_request(self, opening: bytes) -> bool:
        return holds_frame(opening)

    async def converse(self, connection: Connection) -> None:
        await _Conversation(self, connection).run()


class _Conversation:
    """One connection, from its first byte to its last."""

    def __init__(self, server: StreamServer, connection: Connection) -> None:
        self._server = server
        self._connection = connection
        self._frames = StreamServerConnection(
            server.frame_bytes_max, hello_bytes_max=LOGIN_BYTES_MAX
        )
        self._answers = bytearray()
        self._questions_left = 0
        self._received = 0  # frames since the last bytes arrived, without the hello
        self._requester: PortRequester | None = None  # until the hello
        # What ``receive`` left to the task: the size of the last bytes, and the frame in them.
        self._arrived = 0
        self._unanswered: Hello | Ask | Unreadable | None = None

    async def run(self) -> None:
        """Read and answer in turn until the peer or an invalid frame ends the connection."""
        while await self._receive():
            await self._answer_all()
            while self._connection.admission.is_deferred:
                await self._connection.pause()
                await self._connection.wait_for_turn()
                await self._answer_all()

    async def _receive(self) -> bool:
        """Wait for bytes that are not answered at once. Return False once the last have arrived."""
        connection, held = self._connection, self._frames.bytes_held
        try:
            # A client that sends several frames together needs the task anyway.
            if connection.is_established and not (held or connection.admission.has_backlog):
                return await self._answer_or_receive()
            data = await connection.receive(held)
        except MemoryBudgetError:
            error = ErrorCode.THROTTLING_QUOTA_EXCEEDED
            self._answers += encode_answer(NO_CORRELATION_ID, error, self._offset)
            await self._flush()
            raise
        self._frames.receive_data(data)
        return bool(data)

    async def _answer_or_receive(self) -> bool:
        """See ``_receive``."""
        connection, selector = self._connection, self._server.selector
        stream = connection.stream
        connection.keep(0)
        while not self._server.is_draining:
            connection.enter(Phase.IDLE)
            if selector is not None and isinstance(stream, SocketStream):
                unsent: bytes | None = await selector.wait(stream.descriptor, self)
            else:
                unsent = self.receive(bytes(await stream.receive_some(RECEIVE_BYTES)))
            if not unsent:
                await connection.admit(self._arrived)
                return self._arrived > 0
            await connection.send(unsent)
            connection.finish_answer()
        return False

    def hold_unsent(self, size: int) -> None:
        """See ``Channel``. An answer is shorter than its frame, so no memory is reserved for it."""
        self._connection.enter(Phase.SENDING)

    def receive(self, data: bytes) -> bytes | None:
        """See ``Channel``. Answer a frame that arrives whole and alone, unless it must wait."""
        connection = self._connection
        self._arrived = len(data)
        self._frames.receive_data(data)
        may_answer = not self._server.is_draining and connection.reservation.reserve(len(data))
        if not (may_answer and is_frame(data)):
            connection.enter(Phase.RECEIVING)
            return None
        self._questions_left, self._received = QUESTIONS_PER_TURN, 0
        self._unanswered = self._answer_at_once()
        if self._unanswered is not None:
            return None
        answers, self._answers = bytes(self._answers), bytearray()
        connection.keep(0)
        connection.enter(Phase.IDLE)
        return answers

    async def _answer_all(self) -> None:
        """Answer the complete frames, until a refusal or the end of the connection."""
        try:
            await self._answer_frames()
        finally:  # answer the frames before an invalid one
            await self._flush()

    async def _answer_frames(self) -> None:
        admission = self._connection.admission
        self._questions_left = self._share
        self._received = 0
        while not admission.is_deferred and (received := self._next_unanswered()) is not None:
            await self._take_turn(QUESTIONS_PER_FRAME)
            if isinstance(received, Ask):
                # A separate statement, because it may replace ``_answers``.
                answer = await self._answer(received)
                self._answers += answer
            elif isinstance(received, Hello):
                self._greet(received)
                self._received -= 1  # the first question may be sent before the hello is answered
            else:
                _logger.debug("%s: invalid questions: %s", self._server.name, received.reason)
                error = ErrorCode.INVALID_REQUEST
                self._answers += encode_answer(received.correlation_id, error, self._offset)
            if len(self._answers) >= SEND_BYTES:
                await self._flush()
        admission.leave(has_backlog=self._received > 1 or self._frames.bytes_held > 0)

    def _next_unanswered(self) -> Hello | Ask | Unreadable | None:
        """Return the frame that ``receive`` left to the task, or what ``_answer_at_once`` does."""
        frame, self._unanswered = self._unanswered, None
        return self._answer_at_once() if frame is None else frame

    def _answer_at_once(self) -> Hello | Ask | Unreadable | None:
        """Answer frames by the current state, up to the first one that is not simply answered.

        This is the usual path: nothing here waits, so all of these frames share the state, and what
        does not depend on the frame is done once.

        Returns:
            A frame that asks nothing, must wait or is refused; None if no complete frame is left.
        """
        server, connection = self._server, self._connection
        admission, next_frame = connection.admission, self._frames.next_frame
        state = server.authorizer.current_state()
        snapshot, offset = state.snapshot, state.offset
        authorize = server.authorizer.authorize_by(state, SURFACE, self._requester)
        is_light = snapshot is None or server.bound_lookups(snapshot) < LOOKUPS_PER_QUESTION
        is_refused = admission.is_late or connection.has_expired
        is_trusted = server.callers.trusts_all
        answers, all_decisions = self._answers, bytearray()
        try:
            while (received := next_frame()) is not None:
                connection.phase = _ANSWERING
                server.statistics.requests += 1
                if self._received == 1 and not admission.is_in_slice:  # the first needs no turn
                    self._questions_left = self._share if admission.begin_slice() else 0
                self._received += 1
                if type(received) is not Ask or is_refused or received.min_offset > offset:
                    return received
                questions = received.questions
                weight = 1 if is_light else self._weight_of_each(questions, state)
                cost = QUESTIONS_PER_FRAME + len(questions) * weight
                if cost > self._questions_left or not (is_trusted or self._may_ask(questions)):
                    return received
                self._questions_left -= cost
                decisions = decide(authorize, state, questions)
                all_decisions += decisions
                answers += encode_decisions(received.correlation_id, offset, decisions)
        finally:
            count_decisions(all_decisions, server.counts)
        return None

    @property
    def _share(self) -> int:
        """How many questions this connection may ask before it waits again."""
        admission = self._connection.admission
        if not admission.is_in_slice:
            return QUESTIONS_PER_TURN
        is_quick = self._server.authorizer.is_quick
        most = QUESTIONS_PER_SLICE if is_quick else QUESTIONS_PER_TURN
        return max(QUESTIONS_PER_TURN_MIN, min(admission.share(QUESTION_NS), most))

    async def _take_turn(self, questions: int) -> None:
        """Add questions to this slice, or to the next slice if this one would become too long."""
        self._questions_left -= questions
        if self._questions_left >= 0:
            return
        if self._connection.admission.is_contended:  # the wait may be long
            await self._flush()
        await self._connection.wait_for_turn()
        self._questions_left = self._share - questions

    @property
    def _offset(self) -> int:
        return self._server.authorizer.current_state().offset

    def _greet(self, hello: Hello) -> None:
        error = ErrorCode.NONE
        if hello.version != STREAM_VERSION:
            error = ErrorCode.UNSUPPORTED_VERSION
        else:
            caller = self._server.callers.identify(
                hello.token, certified=self._connection.certified
            )
            if caller is None:
                error = ErrorCode.SASL_AUTHENTICATION_FAILED
            else:
                self._requester = PortRequester(caller, self._connection.address)
        self._answers += encode_hello(error, -1 if error else self._offset)
        if error:
            raise ClosingError(f"hello refused: {error.name}")
        is_known = not self._server.callers.trusts_all
        self._server.establish(self._connection, is_known=is_known)

    async def _flush(self) -> None:
        if self._answers:
            answers, self._answers = self._answers, bytearray()
            await self._connection.send(answers)
            self._connection.finish_answer()

    async def _answer(self, ask: Ask) -> bytes:
        """Return the frame that answers ``ask``."""
        number = ask.correlation_id
        _ = self._connection.certified  # raises once the certificate has expired
        # A draining server refuses nothing, because these are the last requests.
        if not self._server.is_draining and not self._connection.admission.admits():
            self._server.statistics.requests_refused += 1
            return encode_answer(number, ErrorCode.THROTTLING_QUOTA_EXCEEDED, self._offset)
        if ask.min_offset >= 0 and not await self._wait_for(ask.min_offset):
            return encode_answer(number, ErrorCode.REQUEST_TIMED_OUT, self._offset)
        state = self._server.authorizer.current_state()
        if self._may_ask(ask.questions):
            decisions = await self._decide_in_turns(state, ask.questions)
            # A reload may have removed the right or the token in the meantime.
            if self._may_ask(ask.questions):
                return encode_decisions(number, state.offset, decisions)
        self._server.counts.invalid += len(ask.questions)
        assert self._requester is not None, _GREETED
        audit_access(self._server.authorizer, self._requester, SURFACE, allowed=False)
        return encode_answer(number, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, state.offset)

    async def _decide_in_turns(
        self, state: DecisionState, questions: Sequence[StreamQuestion]
    ) -> bytearray:
        authorize = self._server.authorizer.authorize_by(state, SURFACE, self._requester)
        weight = self._weight_of_each(questions, state)
        decisions = bytearray()
        while len(decisions) < len(questions):
            start = len(decisions)
            turn = questions[start : start + max(1, self._share // weight)]
            await self._take_turn(len(turn) * weight)
            decided = decide(authorize, state, turn)
            count_decisions(decided, self._server.counts)
            decisions += decided
        if self._server.authorizer.has_expired(state):
            return bytearray((NOT_READY,)) * len(decisions)
        return decisions

    def _weight_of_each(self, questions: Sequence[StreamQuestion], state: DecisionState) -> int:
        """Return the cost of each of ``questions`` within a turn, counted in questions."""
        snapshot = state.snapshot
        if snapshot is None or self._server.bound_lookups(snapshot) < LOOKUPS_PER_QUESTION:
            return 1
        # Names are usually much shorter than a frame, so the longest name gives a tighter bound.
        name_size = max((len(question[4]) for question in questions), default=0)
        lookups = self._server.bound(snapshot, name_size)
        return 1 + lookups // LOOKUPS_PER_QUESTION

    async def _wait_for(self, offset: int) -> bool:
        """Return True if ``offset`` is applied in time. Send finished answers before waiting."""
        if offset <= self._offset:
            return True
        await self._flush()
        with trio.move_on_after(self._server.offset_timeout) as waiting:
            await self._server.authorizer.wait_until_applied(offset)
        return not waiting.cancelled_caught

    def _may_ask(self, questions: Sequence[StreamQuestion]) -> bool:
        """Return True if the caller may ask these questions.

        Raises:
            ClosingError: the caller has become unknown.
        """
        if self._server.callers.trusts_all:
            return True
        assert self._requester is not None, _GREETED
        caller = self._requester.caller
        if caller.principal is None:  # a client with a certificate reconnects
            raise ClosingError("a reload has required credentials since the hello")
        # One principal suffices, if possible another one than the caller itself: the right to ask
        # about that one covers all others.
        own = caller.principal
        about = next((question[0] for question in questions if question[0] != own), own)
        try:
            caller.check(NEEDS, about)
        except ForbiddenError:
            return False
        return True
