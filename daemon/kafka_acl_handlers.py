"""DescribeAcls, CreateAcls and DeleteAcls.

Law: the right is checked before anything is decoded that only its holder may ask. Each item gets
its own result, whatever becomes of the others.

Source: KIP-140, KIP-504, KIP-801; Kafka 4.3 AclApis.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any, Final, TypeVar

import trio

from acl.errors import InvalidAclError, PolicyViolationError
from acl.model import Acl, Operation
from acl.updates import Deleted
from acl.validation import validate_filter, validate_resource
from actors.authorizer import Authorizer, RequestContext
from actors.completion import Completion
from actors.errors import (
    AuthorizerFaultError,
    LogWriteError,
    SecurityDisabledError,
    UpdateRefusedError,
)
from actors.purgatory import Purgatory
from actors.steps import finish_in_turns
from daemon.kafka_bodies import Answer
from daemon.kafka_rights import Rights
from protocol.kafka_acl_requests import (
    count_items,
    decode_create_acls,
    decode_delete_acls,
    decode_describe_acls,
)
from protocol.kafka_acl_responses import (
    DescribeAclsBody,
    FilterResult,
    MatchingAcl,
    Piece,
    encode_create_acls,
    encode_delete_acls,
    encode_describe_acls_error,
)
from protocol.kafka_connection import KafkaRequest
from protocol.kafka_errors import ApiError, ErrorCode

_ITEMS_PER_TURN: Final = 256
_NOT_AUTHORIZED: Final = ApiError(
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED.text
)
_NOT_READY: Final = ApiError(ErrorCode.AUTHORIZER_NOT_READY, ErrorCode.AUTHORIZER_NOT_READY.text)
_TIMED_OUT: Final = ApiError(
    ErrorCode.REQUEST_TIMED_OUT, "The request timed out; the update may still apply."
)
_CODES: Final[tuple[tuple[type[Exception], ErrorCode], ...]] = (
    (PolicyViolationError, ErrorCode.POLICY_VIOLATION),
    (InvalidAclError, ErrorCode.INVALID_REQUEST),
    (UpdateRefusedError, ErrorCode.BROKER_NOT_AVAILABLE),
    (LogWriteError, ErrorCode.KAFKA_STORAGE_ERROR),
    (SecurityDisabledError, ErrorCode.SECURITY_DISABLED),
)

Value = TypeVar("Value")

_logger = logging.getLogger(__name__)


class AclHandlers:
    """For each API what answers it, and what refuses it before the ACLs are loaded.

    Raises (all methods): DecodeError, for what Kafka answers by closing the connection.
    """

    def __init__(self, authorizer: Authorizer, purgatory: Purgatory) -> None:
        self._authorizer = authorizer
        self._rights = Rights(authorizer)
        self._purgatory = purgatory

    async def describe(self, request: KafkaRequest, context: RequestContext) -> Answer:
        version = request.api_version
        if not self._rights.may(context, Operation.DESCRIBE):
            return [encode_describe_acls_error(version, _NOT_AUTHORIZED)], 0.0
        wanted = decode_describe_acls(version, request.body)
        try:
            validate_filter(wanted)
        except InvalidAclError as error:
            return [encode_describe_acls_error(version, _api_error(error))], 0.0
        body = DescribeAclsBody(version)
        try:
            for acls in self._authorizer.acls(wanted):
                for start in range(0, len(acls), _ITEMS_PER_TURN):
                    body.add(acls[start : start + _ITEMS_PER_TURN])
                    await trio.lowlevel.checkpoint()
                await trio.lowlevel.checkpoint()
        except (SecurityDisabledError, AuthorizerFaultError) as error:
            return [encode_describe_acls_error(version, _api_error(error))], 0.0
        return await finish_in_turns(body.encode()), 0.0

    async def refuse_describe(self, request: KafkaRequest) -> list[Piece]:
        return [encode_describe_acls_error(request.api_version, _NOT_READY)]

    async def create(self, request: KafkaRequest, context: RequestContext) -> Answer:
        if not self._rights.may(context, Operation.ALTER):
            return await _refuse_creations(request, _NOT_AUTHORIZED), 0.0
        acls = await finish_in_turns(decode_create_acls(request.api_version, request.body))
        results: list[ApiError | None] = []
        for number, acl in enumerate(acls, 1):
            results.append(_resource_error(acl))
            if number % _ITEMS_PER_TURN == 0:
                await trio.lowlevel.checkpoint()
        good = [number for number, error in enumerate(results) if error is None]
        try:
            completions = self._authorizer.create_acls(context, [acls[number] for number in good])
        except SecurityDisabledError as error:
            return await _refuse_creations(request, _api_error(error)), 0.0
        remote_s = await self._wait(completions)
        for number, completion in zip(good, completions, strict=True):
            _, results[number] = _ended(completion)
        return await finish_in_turns(encode_create_acls(request.api_version, results)), remote_s

    async def refuse_create(self, request: KafkaRequest) -> list[Piece]:
        return await _refuse_creations(request, _NOT_READY)

    async def delete(self, request: KafkaRequest, context: RequestContext) -> Answer:
        if not self._rights.may(context, Operation.ALTER):
            return await _refuse_deletions(request, _NOT_AUTHORIZED), 0.0
        filters = await finish_in_turns(decode_delete_acls(request.api_version, request.body))
        try:
            completions = self._authorizer.delete_acls(context, filters)
        except SecurityDisabledError as error:
            return await _refuse_deletions(request, _api_error(error)), 0.0
        remote_s = await self._wait(completions)
        results = [_filter_result(*_ended(completion)) for completion in completions]
        return await finish_in_turns(encode_delete_acls(request.api_version, results)), remote_s

    async def refuse_delete(self, request: KafkaRequest) -> list[Piece]:
        return await _refuse_deletions(request, _NOT_READY)

    async def _wait(self, completions: Sequence[Completion[Any]]) -> float:
        """Wait in purgatory; return for how many seconds."""
        started = time.perf_counter()
        await self._purgatory.wait(completions)
        return time.perf_counter() - started


async def _refuse_creations(request: KafkaRequest, error: ApiError) -> list[Piece]:
    count = count_items(request.api_key, request.api_version, request.body)
    return await finish_in_turns(encode_create_acls(request.api_version, [error] * count))


async def _refuse_deletions(request: KafkaRequest, error: ApiError) -> list[Piece]:
    count = count_items(request.api_key, request.api_version, request.body)
    refused = [FilterResult(error=error)] * count
    return await finish_in_turns(encode_delete_acls(request.api_version, refused))


def _resource_error(acl: Acl) -> ApiError | None:
    try:
        validate_resource(acl)
    except InvalidAclError as error:
        return _api_error(error)
    return None


def _ended(completion: Completion[Value]) -> tuple[Value | None, ApiError | None]:
    """Return what an item ended with: its value or its error; that of one still under way."""
    if not completion.is_done:
        return None, _TIMED_OUT
    try:
        return completion.result(), None
    except Exception as error:  # noqa: BLE001 - an authorizer may fail an item with any
        return None, _api_error(error)


def _api_error(error: Exception) -> ApiError:
    for kind, code in _CODES:
        if isinstance(error, kind):
            return ApiError(code, str(error))
    _logger.error("an item has failed", exc_info=error)
    return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR.text)


def _filter_result(deleted: Deleted | None, error: ApiError | None) -> FilterResult:
    if deleted is None:
        return FilterResult(error=error)
    if deleted.error is not None:
        return FilterResult(error=_api_error(deleted.error))
    failures = deleted.failures
    return FilterResult(
        [
            MatchingAcl(acl, _api_error(failures[acl]) if acl in failures else None)
            for acl in deleted.acls
        ]
    )
