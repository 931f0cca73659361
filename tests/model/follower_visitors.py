"""Clients of a daemon that follows a cluster: others change the same ACLs at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from authorizerd.acl.model import Acl
from authorizerd.protocol.kafka.acl_responses import FilterResult
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from tests.model.following import Follower
from tests.model.invariants import check
from tests.model.kafka_visitor import KafkaVisitor
from tests.model.reference import Request
from tests.model.story import Create, Delete, Step

_NOT_DONE: Final = (ErrorCode.BROKER_NOT_AVAILABLE,)
_UNKNOWN: Final = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.KAFKA_STORAGE_ERROR)


class FollowerKafkaVisitor(KafkaVisitor):
    """Checks updates by the states of the cluster between its request and its answer."""

    _process: Follower
    _before = -1

    async def _do(self, step: Step) -> None:
        self._before = self._process.cluster.end_offset
        await super()._do(step)

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
        applied = self._process.applier.applied.newest
        after = -1 if applied is None else applied.offset
        self._process.invariants.check_change(request, self._before, after)
        self._counts["updates answered over Kafka"] += 1

    def _is_done(self, errors: Sequence[ApiError | None]) -> bool:
        codes = {int(error.code) for error in errors if error is not None}
        check(codes <= {*_NOT_DONE, *_UNKNOWN}, f"an update is answered {errors}")
        if codes & {*_NOT_DONE}:
            self._counts["updates refused over Kafka"] += 1
        elif codes:
            self._counts["updates in doubt over Kafka"] += 1
        return not codes
