"""Clients of a Kafka listener, which check the answers to their updates and descriptions."""

from collections.abc import Callable, Collection, Sequence, Set
from itertools import product
from typing import Final, TypeVar

import trio

from authorizerd.acl.errors import InvalidAclError
from authorizerd.acl.model import Acl, AclFilter, Operation
from authorizerd.acl.validation import validate_filter
from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.connection import Call as KafkaCall
from authorizerd.kafka_client.connection import Node
from authorizerd.kafka_client.errors import Stage, UnservedError
from authorizerd.kafka_client.log_in import Credentials, Mechanism, open_node
from authorizerd.protocol.kafka import acl_client
from authorizerd.protocol.kafka.acls import FilterResult
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from tests.faults.workload import BrokenInvariantError
from tests.model.following import Follower
from tests.model.invariants import check
from tests.model.network import MemoryStream
from tests.model.reference import INVALID, Request, may
from tests.model.simulated_daemon import PASSWORD
from tests.model.story import TIMEOUTS_MS, Create, Delete, Describe, Step
from tests.model.visitors import ANSWER_S_MAX, Visitor

A = TypeVar("A")
T = TypeVar("T")

_MOMENT_MS: Final = 1e-6
_NOT_DONE: Final = (ErrorCode.BROKER_NOT_AVAILABLE,)
_IN_DOUBT: Final = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.KAFKA_STORAGE_ERROR)


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
        process = self._process
        self._settings_since, self._asked_at = self._since, trio.current_time()
        self._was_loaded = process.is_loaded and not process.may_be_unready(self._asked_at)
        least_offset = max(process.invariants.acknowledged_offset, self._seen_offset)
        match step:
            case Create(acls):
                results = await self._ask(
                    ApiKey.CREATE_ACLS, acl_client.encode_create_acls_request, acls,
                    acl_client.decode_create_acls_response,
                )  # fmt: skip
                check(len(results) == len(acls), "not every creation is answered")
                if self._is_served([*results]):
                    self._check_creations(acls, results)
            case Delete(filters):
                found = await self._ask(
                    ApiKey.DELETE_ACLS, acl_client.encode_delete_acls_request, filters,
                    acl_client.decode_delete_acls_response,
                )  # fmt: skip
                check(len(found) == len(filters), "not every filter is answered")
                if self._is_served([each.error for each in found]):
                    self._check_deletions(found)
            case Describe(filter):
                described = await self._ask(
                    ApiKey.DESCRIBE_ACLS, acl_client.encode_describe_acls_request, filter,
                    acl_client.decode_describe_acls_response,
                )  # fmt: skip
                error = described if isinstance(described, ApiError) else None
                if self._is_served([error], is_listing=True):
                    self._check_description(filter, described, least_offset)

    async def _ask(
        self,
        api_key: ApiKey,
        encode: Callable[[int, A], bytes],
        asked: A,
        decode: Callable[[int, bytes | bytearray], T],
    ) -> T:
        call = KafkaCall(api_key=api_key, encode=lambda each: encode(each, asked), decode=decode)
        return await self._node.request(call, int(ANSWER_S_MAX * 1000))

    def _is_served(self, errors: Sequence[ApiError | None], *, is_listing: bool = False) -> bool:
        """Return False if the whole request was refused, and check that it may be."""
        process, principal = self._process, self._client.principal
        codes = {None if error is None else int(error.code) for error in errors}
        rights = self._rights(codes)
        supers = [
            principal in super_users for super_users, _ in process.settings[self._settings_since :]
        ]
        if codes == {ErrorCode.AUTHORIZER_NOT_READY}:
            is_open = self._was_loaded and not process.may_be_unready(self._asked_at)
            check(not is_open, "a request is refused as not ready although it is")
            # Nobody may list the ACLs while decisions are stopped.
            is_stopped = is_listing and process.may_be_unready(self._asked_at)
            check(is_stopped or not all(supers), "a super user is not served")
            self._counts["not served yet over Kafka"] += 1
            return False
        if codes == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}:
            check(not all(rights), "a request is not authorized although it is allowed")
            self._counts["not authorized over Kafka"] += 1
            return False
        check(any(rights), f"{principal} is served without the right to it")
        return True

    def _rights(self, codes: Set[int | None]) -> list[bool]:
        """Return, for each state that may have judged the request, if it gives the right to it.

        Args:
            codes: the results of the request's items.
        """
        return [
            self._client.principal in super_users or allow_everyone
            for super_users, allow_everyone in self._process.settings[self._settings_since :]
        ]

    def _check_creations(self, acls: Sequence[Acl], results: Sequence[ApiError | None]) -> None:
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
        if self._is_undone(kept, request):
            return
        answers = [None if code is None else INVALID for code in kept]
        check({*kept} <= {None, ErrorCode.INVALID_REQUEST}, f"creations are answered {kept}")
        self._process.invariants.check_answer(request, answers)
        self._counts["updates answered over Kafka"] += 1

    def _check_deletions(self, found: Sequence[FilterResult]) -> None:
        request = self._process.accepted.pop(self._id, None)
        check(request is not None, "a deletion is answered, but was never accepted")
        assert request is not None
        codes = [None if each.error is None else int(each.error.code) for each in found]
        if self._is_undone(codes, request):
            return
        answers = [
            {match.acl for match in each.matches} if each.error is None else INVALID
            for each in found
        ]
        check({*codes} <= {None, ErrorCode.INVALID_REQUEST}, f"deletions are answered {codes}")
        self._process.invariants.check_answer(request, answers)
        self._counts["updates answered over Kafka"] += 1

    def _is_undone(self, codes: Collection[int | None], request: Request | None = None) -> bool:
        """Return True if an update was refused by the queue, or is in doubt."""
        if ErrorCode.BROKER_NOT_AVAILABLE in codes:
            self._counts["updates refused over Kafka"] += 1
            return True
        if request is not None:
            check(not request.is_refused, "an update that was refused is answered otherwise")
            waited_ms = (trio.current_time() - self._asked_at) * 1000 + _MOMENT_MS
            is_late = ErrorCode.REQUEST_TIMED_OUT not in codes or waited_ms >= min(TIMEOUTS_MS)
            check(is_late, "an update times out too early")
        is_in_doubt = any(code in _IN_DOUBT for code in codes)
        self._counts["updates in doubt over Kafka"] += is_in_doubt
        return is_in_doubt

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
        if self._process.may_be_unready(self._asked_at) and not described:
            return
        # What was loaded may have expired since the answer.
        if self._process.applier.applied.newest is None:
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


class FollowerKafkaVisitor(KafkaVisitor):
    """Checks updates by the states of the cluster between its request and its answer.

    Others change the same ACLs at the same time.
    """

    _process: Follower
    _before = -1
    _visible = -1
    _step: Step

    async def _do(self, step: Step) -> None:
        self._step = step
        self._before = self._process.cluster.end_offset
        self._visible = self._process.invariants.acknowledged_offset
        await super()._do(step)

    def _rights(self, codes: Set[int | None]) -> list[bool]:
        is_read, forwards = isinstance(self._step, Describe), self._process.life.forwards
        operation = Operation.DESCRIBE if is_read else Operation.ALTER
        rights = super()._rights(codes)
        if not all(rights):  # a super user needs no ACLs
            rights = self._process.invariants.rights(
                self._client.principal, operation, self._visible, self._newest
            )
        if is_read or not forwards:
            return rights
        if self._client.principal not in forwards:
            return [False]
        # The cluster need not have judged it: after a lost answer, an ACL that is visible counts as
        # created, even if another client created it.
        is_by_the_log = codes & {*_IN_DOUBT} or (codes == {None} and self._is_there_before())
        if codes <= {*_NOT_DONE, *_IN_DOUBT} or is_by_the_log:
            return rights
        return [here and there for here, there in product(rights, self._rights_there())]

    def _is_there_before(self) -> bool:
        """Return True if the update creates only what the cluster had when it was requested."""
        there = self._process.cluster.states[self._before].acls
        return isinstance(self._step, Create) and there >= {*self._step.acls}

    def _rights_there(self) -> list[bool]:
        """Return what the cluster may have found when the daemon named the client."""
        principal, cluster = self._client.principal, self._process.cluster
        if cluster.is_super_user(principal):
            return [True]
        states = cluster.states.items()
        return [
            may(state.acls, principal, Operation.ALTER)
            for offset, state in states
            if offset >= self._before
        ]

    def _check_creations(self, acls: Sequence[Acl], results: Sequence[ApiError | None]) -> None:
        if self._is_done(results):
            self._check(Request(Create(tuple(acls))))

    def _check_deletions(self, found: Sequence[FilterResult]) -> None:
        if self._is_done([each.error for each in found]):
            removed = [{match.acl for match in each.matches} for each in found]
            self._check(Request(Delete(()), expected=removed))

    def _check(self, request: Request) -> None:
        self._process.invariants.check_change(request, self._before, self._newest)
        self._counts["updates answered over Kafka"] += 1
        self._counts["updates forwarded"] += bool(self._process.life.forwards)

    @property
    def _newest(self) -> int:
        applied = self._process.applier.applied.newest
        return -1 if applied is None else applied.offset

    def _is_done(self, errors: Sequence[ApiError | None]) -> bool:
        codes = {int(error.code) for error in errors if error is not None}
        check(codes <= {*_NOT_DONE, *_IN_DOUBT}, f"an update is answered {errors}")
        return not self._is_undone(codes)
