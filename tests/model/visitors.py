"""Clients that connect to the daemon's ports, over a network that may cut their connections.

Each makes its calls one after the other. A connection that breaks, or on which an answer takes too
long, is replaced at the next call; its update is in doubt then.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, TypeVar

import trio

from authorizerd.acl.errors import InvalidAclError
from authorizerd.acl.model import Acl, AclFilter, Operation, Question, ResourceType
from authorizerd.acl.validation import validate_filter
from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.connection import Call as KafkaCall
from authorizerd.kafka_client.connection import Node
from authorizerd.kafka_client.errors import ConnectionFailedError, Stage, UnservedError
from authorizerd.kafka_client.log_in import Credentials, Mechanism
from authorizerd.kafka_client.opening import open_node
from authorizerd.protocol.decisions.stream import (
    ALLOWED,
    DENIED,
    Answer,
    StreamClientConnection,
)
from authorizerd.protocol.kafka.acl_client import (
    decode_create_acls_response,
    decode_delete_acls_response,
    decode_describe_acls_response,
    encode_create_acls_request,
    encode_delete_acls_request,
    encode_describe_acls_request,
)
from authorizerd.protocol.kafka.acl_responses import FilterResult
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from tests.faults.workload import BrokenInvariantError
from tests.model.invariants import check
from tests.model.network import MemoryStream
from tests.model.process import PASSWORD, Process
from tests.model.reference import INVALID
from tests.model.story import (
    HTTP,
    KAFKA,
    TIMEOUTS_MS,
    Ask,
    Call,
    Client,
    Create,
    Delete,
    Describe,
    Step,
)

T = TypeVar("T")

ANSWER_S_MAX: Final = 30.0
"""A client gives up after this time, if the story does not say earlier."""
RETRY_S: Final = 0.25
MOMENT_MS: Final = 1e-6
FRAME_BYTES_MAX: Final = 1 << 20

_IN_DOUBT: Final = (
    ErrorCode.REQUEST_TIMED_OUT, ErrorCode.KAFKA_STORAGE_ERROR,
)  # fmt: skip
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

    def _check_decision(self, question: Question, allowed: bool, offset: int, since: int) -> None:
        process = self._process
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
        return len(self._process.settings) - 1


class HttpVisitor(Visitor):
    """Asks AuthZEN questions over HTTP: all in one batch, or each by itself."""

    async def _greet(self, stream: MemoryStream) -> None:
        self._received = b""

    async def _do(self, step: Step) -> None:
        assert isinstance(step, Ask)
        if step.pause_s is None:
            asked = {"evaluations": [_evaluation(each) for each in step.questions]}
            await self._ask("evaluations", asked, step.questions)
            return
        for question in step.questions:
            await self._ask("evaluation", _evaluation(question), [question])

    async def _ask(self, name: str, asked: object, questions: Sequence[Question]) -> None:
        process, since = self._process, self._since
        least_offset = process.invariants.acknowledged_offset
        body = json.dumps(asked).encode()
        assert self._stream is not None
        await self._stream.send_all(
            b"POST /access/v1/%b HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
            % (name.encode(), len(body), body)
        )
        status, answer = await self._answer()
        check(status == 200, f"a question over HTTP is answered {status} {answer!r}")
        decided = json.loads(answer)
        items = decided.get("evaluations", [decided])
        offsets = {item["context"]["offset"] for item in items}
        check(len(offsets) == 1, f"one batch is decided by several states: {offsets}")
        [offset] = offsets
        self._see(offset, least_offset)
        for question, item in zip(questions, items, strict=True):
            self._check_decision(question, item["decision"], offset, since)

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


def _evaluation(question: Question) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "subject": {"type": "user", "id": question.principal.removeprefix("User:")},
        "action": {"name": Operation(question.operation).name},
        "resource": {
            "type": ResourceType(question.resource_type).name,
            "id": question.resource_name,
        },
    }
    if question.host is not None:
        asked["context"] = {"host": question.host}
    return asked


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
        process, since = self._process, self._since
        least_offset = process.invariants.acknowledged_offset
        frames = [[each] for each in step.questions]
        if step.pause_s is None:
            frames = [list(step.questions)]
        data = b"".join(
            self._frames.ask(
                number,
                [
                    (each.principal, each.host, each.operation, each.resource_type,
                     each.resource_name)
                    for each in questions
                ],
                max(least_offset, self._seen_offset),
            )
            for number, questions in enumerate(frames)
        )  # fmt: skip
        assert self._stream is not None
        await self._stream.send_all(data)
        for number, questions in enumerate(frames):
            answer = await self._answer()
            check(answer.correlation_id == number, "a frame is answered out of order")
            if answer.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED and number:
                self._counts["frames shed"] += 1
                continue
            check(answer.error_code == 0, f"a frame is answered by {answer.error_code}")
            self._see(answer.offset, least_offset)
            for question, decision in zip(questions, answer.decisions, strict=True):
                check(decision in (ALLOWED, DENIED), f"a question is answered {decision}")
                self._check_decision(question, decision == ALLOWED, answer.offset, since)

    async def _answer(self) -> Answer:
        while (answer := self._frames.next_answer()) is None:
            self._frames.receive_data(await self._receive())
        return answer


class KafkaVisitor(Visitor):
    """Logs in to a Kafka listener, and creates, deletes and describes ACLs."""

    _node: Node
    _id: str

    async def _connect(self) -> None:
        self._connections += 1
        self._id = f"visitor {self._number}, connection {self._connections}"
        credentials = Credentials(
            mechanism=Mechanism.PLAIN,
            username=self._client.principal.removeprefix("User:"),
            password=PASSWORD,
        )
        address = Address(self._client.endpoint, 1)
        self._node = await open_node(address, credentials, self._id, self._open_stream)

    async def _open_stream(self, address: Address) -> MemoryStream:
        try:
            self._stream = await self._open()
        except ConnectionRefusedError as error:
            raise UnservedError(str(address), address, Stage.REFUSED) from error
        return self._stream

    async def _greet(self, stream: MemoryStream) -> None:
        """Do nothing: ``open_node`` does it."""

    async def _do(self, step: Step) -> None:
        process, since, asked_at = self._process, self._since, trio.current_time()
        was_loaded = process.is_loaded
        least_offset = max(process.invariants.acknowledged_offset, self._seen_offset)
        match step:
            case Create(acls):
                results = await self._ask(
                    KafkaCall(
                        api_key=ApiKey.CREATE_ACLS,
                        encode=lambda version: encode_create_acls_request(version, acls),
                        decode=decode_create_acls_response,
                    )
                )
                check(len(results) == len(acls), "not every creation is answered")
                if self._is_served([*results], since, was_loaded=was_loaded):
                    self._check_creations(acls, results, asked_at)
            case Delete(filters):
                found = await self._ask(
                    KafkaCall(
                        api_key=ApiKey.DELETE_ACLS,
                        encode=lambda version: encode_delete_acls_request(version, filters),
                        decode=decode_delete_acls_response,
                    )
                )
                check(len(found) == len(filters), "not every filter is answered")
                if self._is_served([each.error for each in found], since, was_loaded=was_loaded):
                    self._check_deletions(found, asked_at)
            case Describe(filter):
                described = await self._ask(
                    KafkaCall(
                        api_key=ApiKey.DESCRIBE_ACLS,
                        encode=lambda version: encode_describe_acls_request(version, filter),
                        decode=decode_describe_acls_response,
                    )
                )
                error = described if isinstance(described, ApiError) else None
                if self._is_served([error], since, was_loaded=was_loaded):
                    self._check_description(filter, described, least_offset)

    async def _ask(self, call: KafkaCall[T]) -> T:
        return await self._node.request(call, int(ANSWER_S_MAX * 1000))

    def _is_served(
        self, errors: Sequence[ApiError | None], since: int, *, was_loaded: bool
    ) -> bool:
        """Return False if the whole request was refused, and check that it may be."""
        process, principal = self._process, self._client.principal
        codes = {None if error is None else int(error.code) for error in errors}
        rights = [
            principal in super_users or allow_everyone
            for super_users, allow_everyone in process.settings[since:]
        ]
        supers = [principal in super_users for super_users, _ in process.settings[since:]]
        if codes == {ErrorCode.AUTHORIZER_NOT_READY}:
            check(not was_loaded, "a request is refused as not ready although it is")
            check(not all(supers), "a super user is not served")
            self._counts["not served yet over Kafka"] += 1
            return False
        if codes == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}:
            check(not all(rights), "a request is not authorized although it is allowed")
            self._counts["not authorized over Kafka"] += 1
            return False
        check(any(rights), f"{principal} is served without the right to it")
        return True

    def _check_creations(
        self, acls: Sequence[Acl], results: Sequence[ApiError | None], asked_at: float
    ) -> None:
        """Items that name no valid resource are refused before the queue; all others go there."""
        request = self._process.accepted.pop(self._id, None)
        codes = [None if error is None else int(error.code) for error in results]
        if request is None:
            check(set(codes) == {ErrorCode.INVALID_REQUEST}, f"no creation is accepted: {codes}")
            return
        assert isinstance(request.step, Create)
        rest = iter(request.step.acls)
        kept = [code for acl, code in zip(acls, codes, strict=True) if _is_passed_on(acl)]
        check(len(kept) == len([*rest]), "other creations are accepted than were asked for")
        if self._is_undone(kept, asked_at, is_refused=request.is_refused):
            return
        answers = [None if code is None else INVALID for code in kept]
        check({*kept} <= {None, ErrorCode.INVALID_REQUEST}, f"creations are answered {kept}")
        self._process.invariants.check_answer(request, answers)
        self._counts["updates answered over Kafka"] += 1

    def _check_deletions(self, found: Sequence[FilterResult], asked_at: float) -> None:
        request = self._process.accepted.pop(self._id, None)
        check(request is not None, "a deletion is answered, but was never accepted")
        assert request is not None
        codes = [None if each.error is None else int(each.error.code) for each in found]
        if self._is_undone(codes, asked_at, is_refused=request.is_refused):
            return
        answers = [
            {match.acl for match in each.matches} if each.error is None else INVALID
            for each in found
        ]
        check({*codes} <= {None, ErrorCode.INVALID_REQUEST}, f"deletions are answered {codes}")
        self._process.invariants.check_answer(request, answers)
        self._counts["updates answered over Kafka"] += 1

    def _is_undone(self, codes: Sequence[int | None], asked_at: float, *, is_refused: bool) -> bool:
        """Return True if an update was refused by the queue, or is in doubt."""
        if ErrorCode.BROKER_NOT_AVAILABLE in codes:
            self._counts["updates refused over Kafka"] += 1
            return True
        check(not is_refused, "an update that was refused is answered otherwise")
        if ErrorCode.REQUEST_TIMED_OUT in codes:
            waited_ms = (trio.current_time() - asked_at) * 1000
            check(waited_ms + MOMENT_MS >= min(TIMEOUTS_MS), "an update times out too early")
        if any(code in _IN_DOUBT for code in codes):
            self._counts["updates in doubt over Kafka"] += 1
            return True
        return False

    def _check_description(
        self, filter: AclFilter, described: list[Acl] | ApiError, least_offset: int
    ) -> None:
        try:
            validate_filter(filter)
        except InvalidAclError:
            check(isinstance(described, ApiError), "an invalid filter is answered")
            return
        if isinstance(described, ApiError):
            raise BrokenInvariantError(f"a description is answered {described}")
        if not self._process.is_loaded:
            check(described == [], "ACLs are described before they are loaded")
            return
        if least_offset == -1 and not described:
            return  # it may have been described before the ACLs were loaded
        self._seen_offset = self._process.invariants.find_description(
            least_offset, filter, described
        )


def _is_passed_on(acl: Acl) -> bool:
    """Return True if the listener passes a creation on to the authorizer.

    It refuses those whose resource is invalid; here, that is an empty name.
    """
    return acl.resource_name != ""


def new_visitor(process: Process, client: Client, number: int, counts: Counter[str]) -> Visitor:
    """Return the client of a story for its port."""
    if client.surface == KAFKA:
        return KafkaVisitor(process, client, number, counts)
    kind = HttpVisitor if client.surface == HTTP else StreamVisitor
    return kind(process, client, number, counts)
