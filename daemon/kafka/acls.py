"""DescribeAcls, CreateAcls and DeleteAcls.

**Invariant:** each item gets its own result; a failed item does not affect the others. A request
that expects an offset changes nothing unless the authorizer checks it. Only answers to such
requests, and to listings that ask for the offset, have our tagged field. docs/conformance.md has
all differences from a broker's answers.

Source: KIP-140, KIP-504, KIP-801; Kafka 4.3 AclApis.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from functools import cache, partial
from typing import Final, TypeVar

import msgspec

from authorizerd.acl.errors import (
    InvalidAclError,
    PolicyViolationError,
    StateMovedError,
    UnsupportedAclError,
)
from authorizerd.acl.expected_offset import ANY_OFFSET, ExpectedOffset
from authorizerd.acl.model import Acl, ResourceType
from authorizerd.acl.steps import in_chunks
from authorizerd.acl.updates import Deleted
from authorizerd.acl.validation import validate_filter, validate_resource
from authorizerd.actors.authorizer import Authorizer, RequestContext
from authorizerd.actors.completion import Completion, ItemCompletions
from authorizerd.actors.errors import (
    AuthorizerFaultError,
    LogWriteError,
    RejectedUpdateError,
    SecurityDisabledError,
    UpdateRefusedError,
)
from authorizerd.actors.purgatory import Purgatory
from authorizerd.actors.steps import collect
from authorizerd.daemon.kafka.codec import Waited, version_of
from authorizerd.daemon.kafka.permissions import RefusedError
from authorizerd.protocol.kafka.acl_groups import AclGroups
from authorizerd.protocol.kafka.acls import (
    CreateAclsAnswer,
    CreateAclsRequest,
    DeleteAclsAnswer,
    DeleteAclsRequest,
    DescribeAclsAnswer,
    DescribeAclsRequest,
    ErrorTexts,
    FilterResult,
    MatchingAcl,
)
from authorizerd.protocol.kafka.api import APIS, ApiKey
from authorizerd.protocol.kafka.chunked_output import Items, LazyItems, Repeated
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode

ResultT = TypeVar("ResultT")

_CLUSTER: Final = int(ResourceType.CLUSTER)  # comparing with an enum member takes longer
_TIMED_OUT: Final = ApiError(
    ErrorCode.REQUEST_TIMED_OUT, "The request timed out; the update may still apply."
)
_UNCHECKED: Final = ApiError(
    ErrorCode.INVALID_REQUEST,
    "This daemon cannot compare the expected offset with its ACLs, because it follows a cluster or"
    " has a custom authorizer. Nothing was changed. Compare the ACLs, and send the request without"
    " the offset.",
)
_CODES: Final[tuple[tuple[type[Exception], ErrorCode], ...]] = (
    (PolicyViolationError, ErrorCode.POLICY_VIOLATION),
    (UnsupportedAclError, ErrorCode.UNSUPPORTED_VERSION),
    (InvalidAclError, ErrorCode.INVALID_REQUEST),
    (StateMovedError, ErrorCode.INVALID_UPDATE_VERSION),
    (UpdateRefusedError, ErrorCode.BROKER_NOT_AVAILABLE),
    (LogWriteError, ErrorCode.KAFKA_STORAGE_ERROR),
    (SecurityDisabledError, ErrorCode.SECURITY_DISABLED),
)

_logger = logging.getLogger(__name__)


class AclHandlers:
    """Each method answers an API. It raises RefusedError if the whole request has an error."""

    def __init__(self, authorizer: Authorizer, purgatory: Purgatory) -> None:
        self._authorizer = authorizer
        self._purgatory = purgatory

    async def describe(
        self, asked: DescribeAclsRequest, context: RequestContext
    ) -> DescribeAclsAnswer:
        # Read before the listing: if the listing is newer, a change that expects this offset is
        # merely rejected.
        offset = None if asked.offset is None else self._authorizer.acl_offset()
        version = version_of(context)
        groups = AclGroups(version, flexible=APIS[ApiKey.DESCRIBE_ACLS].is_flexible(version))
        try:
            validate_filter(asked.filter)
            await collect(map(groups.add, self._authorizer.acls(asked.filter)))
        except (InvalidAclError, SecurityDisabledError, AuthorizerFaultError) as error:
            raise RefusedError(_api_error(error)) from error
        return DescribeAclsAnswer(acls=groups, offset=offset)

    async def create(self, asked: CreateAclsRequest, context: RequestContext) -> Waited:
        acls, context = asked.creations, self._guard(context, asked.offset)
        good: list[Acl] = []
        faults: list[ApiError | None] = []
        await collect(map(partial(_check_resources, good, faults), in_chunks(acls)))
        try:
            completions = self._authorizer.create_acls(context, good)
        except SecurityDisabledError as error:
            raise RefusedError(_api_error(error)) from error
        remote_s = await self._wait(completions)
        results: Items[ApiError | None] = _CreationResults(faults, completions)
        # The usual case needs no result per item.
        if (
            len(good) == len(acls)
            and isinstance(completions, ItemCompletions)
            and completions.are_all_none
        ):
            results = Repeated(None, len(acls))
        return Waited(CreateAclsAnswer(results=results, offset=_offset(context)), remote_s)

    async def delete(self, asked: DeleteAclsRequest, context: RequestContext) -> Waited:
        context = self._guard(context, asked.offset)
        try:
            completions = self._authorizer.delete_acls(context, asked.filters)
        except SecurityDisabledError as error:
            raise RefusedError(_api_error(error)) from error
        remote_s = await self._wait(completions)
        results = LazyItems(partial(_filter_result, ErrorTexts()), completions)
        return Waited(DeleteAclsAnswer(results=results, offset=_offset(context)), remote_s)

    def _guard(self, context: RequestContext, expected_offset: int | None) -> RequestContext:
        """Return the context of a change that expects an offset.

        Raises:
            RefusedError: the authorizer does not compare it.
        """
        if expected_offset is None:
            return context
        if expected_offset != ANY_OFFSET and self._authorizer.acl_offset() is None:
            raise RefusedError(_UNCHECKED)
        return msgspec.structs.replace(context, guard=ExpectedOffset(expected_offset))

    async def _wait(self, completions: Sequence[Completion[ResultT]]) -> float:
        """Wait in purgatory; return how many seconds that took."""
        started = time.perf_counter()
        await self._purgatory.wait(completions)
        return time.perf_counter() - started


class _CreationResults:
    """The result of each creation: an error found here, or the outcome of its completion."""

    def __init__(
        self, faults: Sequence[ApiError | None], completions: Sequence[Completion[None]]
    ) -> None:
        self._faults = faults
        self._completions = completions

    def __len__(self) -> int:
        return len(self._faults)

    def __iter__(self) -> Iterator[ApiError | None]:
        # Only valid items were passed on, so an item with a fault has no completion.
        completions, texts = iter(self._completions), ErrorTexts()
        for fault in self._faults:
            error = _error_of(next(completions)) if fault is None else fault
            yield None if error is None else texts.limit(error)


def _offset(context: RequestContext) -> int | None:
    """Return the offset at which the request was written if it has our tagged field, else None."""
    return None if context.guard is None else context.guard.written_offset


def _check_resources(good: list[Acl], faults: list[ApiError | None], acls: list[Acl]) -> None:
    """Add the error of each creation to ``faults``, or None, and add the creation to ``good``."""
    for acl in acls:
        fault = None
        if not acl.resource_name or acl.resource_type == _CLUSTER:  # all other creations are valid
            fault = _resource_error(acl)
        if fault is None:
            good.append(acl)
        faults.append(fault)


def _resource_error(acl: Acl) -> ApiError | None:
    try:
        validate_resource(acl)
    except InvalidAclError as error:
        return _invalid_request(str(error))
    return None


@cache
def _invalid_request(text: str) -> ApiError:
    """Return INVALID_REQUEST, cached: there are few distinct texts, but many items per request."""
    return ApiError(ErrorCode.INVALID_REQUEST, text)


def _error_of(completion: Completion[ResultT]) -> ApiError | None:
    """Return the error that an item failed with; an unfinished item has timed out."""
    if not completion.is_done:
        return _TIMED_OUT
    error = completion.error
    return None if error is None else _api_error(error)


def _api_error(error: Exception) -> ApiError:
    if isinstance(error, RejectedUpdateError):
        return ApiError(error.code, str(error))
    for kind, code in _CODES:
        if isinstance(error, kind):
            return ApiError(code, str(error))
    _logger.error("an item has failed", exc_info=error)
    return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR.text)


def _filter_result(texts: ErrorTexts, completion: Completion[Deleted]) -> FilterResult:
    error = _error_of(completion)
    if error is not None:
        return FilterResult(error=texts.limit(error))
    deleted = completion.result()
    if deleted.error is not None:
        return FilterResult(error=texts.limit(_api_error(deleted.error)))
    failures = deleted.failures

    def match(acl: Acl) -> MatchingAcl:
        failure = failures.get(acl) if failures else None
        return MatchingAcl(
            acl=acl, error=None if failure is None else texts.limit(_api_error(failure))
        )

    return FilterResult(matches=LazyItems(match, deleted.acls))
