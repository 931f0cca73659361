"""Clients of a daemon that follows a cluster: others change the same ACLs at the same time."""

from __future__ import annotations

from collections.abc import Sequence, Set
from itertools import product
from typing import Final

from authorizerd.acl.model import Acl, Operation
from authorizerd.protocol.kafka.acls import FilterResult
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from tests.model.following import Follower
from tests.model.invariants import check
from tests.model.kafka_visitor import KafkaVisitor
from tests.model.reference import Request, may
from tests.model.story import Create, Delete, Describe, Step

_NOT_DONE: Final = (ErrorCode.BROKER_NOT_AVAILABLE,)
_UNKNOWN: Final = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.KAFKA_STORAGE_ERROR)


class FollowerKafkaVisitor(KafkaVisitor):
    """Checks updates by the states of the cluster between its request and its answer."""

    _process: Follower
    _before = -1
    _visible = -1
    _step: Step

    async def _do(self, step: Step) -> None:
        self._step = step
        self._before = self._process.cluster.end_offset
        self._visible = self._process.invariants.acknowledged_offset
        await super()._do(step)

    def _rights(self, since: int, codes: Set[int | None]) -> list[bool]:
        is_read, forwards = isinstance(self._step, Describe), self._process.life.forwards
        operation = Operation.DESCRIBE if is_read else Operation.ALTER
        rights = super()._rights(since, codes)
        if not all(rights):  # a super user needs no ACLs
            rights = self._process.invariants.rights(
                self._client.principal, operation, self._visible, self._newest
            )
        if is_read or not forwards:
            return rights
        if self._client.principal not in forwards:
            return [False]
        if codes <= {*_NOT_DONE, *_UNKNOWN}:
            return rights  # the cluster need not have judged it
        return [here and there for here, there in product(rights, self._rights_there())]

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

    def _check_creations(
        self, acls: Sequence[Acl], results: Sequence[ApiError | None], asked_at: float
    ) -> None:
        if self._is_done(results):
            self._check(Request(Create(tuple(acls))))

    def _check_deletions(self, found: Sequence[FilterResult], asked_at: float) -> None:
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
        check(codes <= {*_NOT_DONE, *_UNKNOWN}, f"an update is answered {errors}")
        if codes & {*_NOT_DONE}:
            self._counts["updates refused over Kafka"] += 1
        elif codes:
            self._counts["updates in doubt over Kafka"] += 1
        return not codes
