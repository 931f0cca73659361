"""The server on which a plan is carried out: its listings and its answers.

Source: KIP-140 (CreateAcls, DeleteAcls); docs/conformance.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from authorizerd.acl.filters import filter_of
from authorizerd.acl.model import Acl
from authorizerd.cli.broker_acls import CHANGE, BrokerReader
from authorizerd.kafka_client.connection import Call
from authorizerd.kafka_client.errors import RequestFailedError, UnknownOutcomeError
from authorizerd.kafka_client.quorum_calls import PLACED_LISTING_CALL
from authorizerd.management.plan.changes import AclRequest
from authorizerd.management.plan.state import digest_ids
from authorizerd.protocol.kafka.acl_client import (
    encode_create_acls_request,
    encode_delete_acls_request,
    read_results,
)
from authorizerd.protocol.kafka.acls import FilterResult
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode


@dataclass(frozen=True, slots=True)
class Listed:
    """All ACLs of a server by derived ids; ``offset`` is None if the server does not compare."""

    acls: Mapping[bytes, Acl]
    offset: int | None
    digest: str


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to a request.

    Attributes:
        errors: the errors of the items. offset: the log offset of the request's write, if the
            server compared.
        unmatched: ACLs that the request should have deleted, but did not find.
    """

    errors: tuple[ApiError, ...] = ()
    offset: int | None = None
    unmatched: tuple[Acl, ...] = ()


@dataclass(frozen=True, slots=True)
class Unanswered:
    """No valid answer came, so the request may have been applied, or may still be applied."""

    reason: str


class AclServer(Protocol):
    """The server whose ACLs are changed."""

    async def list_acls(self) -> Listed:
        """Return all ACLs."""

    async def send(self, request: AclRequest, expected_offset: int | None) -> Answered | Unanswered:
        """Send a request once.

        Args:
            expected_offset: the server must reject the request if an ACL has changed since. None:
                it does not compare.

        Raises:
            CommandError: the request was not sent.
        """


class KafkaAclServer:
    """Send a plan's requests through one client. See ``AclServer``."""

    def __init__(self, reader: BrokerReader) -> None:
        self._reader: Final = reader

    async def list_acls(self) -> Listed:
        listing, offset = await self._reader.read_listing(PLACED_LISTING_CALL)
        acls = dict(listing.items())
        return Listed(acls, offset, digest_ids(acls))

    async def send(self, request: AclRequest, expected_offset: int | None) -> Answered | Unanswered:
        call = _create(request, expected_offset)
        name = "createAcls"
        if not request.is_creation:
            call, name = _delete(request, expected_offset), "deleteAcls"
        try:
            answer = await self._reader.client.request_once(call, name=name)
        except UnknownOutcomeError as error:
            return Unanswered(str(error))
        except RequestFailedError as error:
            raise self._reader.new_error(error, right=CHANGE) from error
        for each in answer.errors:
            if each.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                raise self._reader.new_error(RequestFailedError(each), right=CHANGE)
        return answer


def _create(request: AclRequest, expected_offset: int | None) -> Call[Answered]:
    def encode(version: int) -> bytes:
        return encode_create_acls_request(version, request.acls, expected_offset)

    def decode(version: int, body: bytes | bytearray) -> Answered:
        count = len(request.acls)
        results, offset = read_results(ApiKey.CREATE_ACLS, version, body, count)
        return Answered(tuple(result for result in results if result is not None), offset)

    return Call(api_key=ApiKey.CREATE_ACLS, encode=encode, decode=decode)


def _delete(request: AclRequest, expected_offset: int | None) -> Call[Answered]:
    filters = [filter_of(acl) for acl in request.acls]

    def encode(version: int) -> bytes:
        return encode_delete_acls_request(version, filters, expected_offset)

    def decode(version: int, body: bytes | bytearray) -> Answered:
        count = len(filters)
        results, offset = read_results(ApiKey.DELETE_ACLS, version, body, count)
        errors = tuple(error for each in results if (error := _error_of(each)) is not None)
        unmatched = tuple(
            acl
            for acl, result in zip(request.acls, results, strict=True)
            if not result.matches and result.error is None
        )
        return Answered(errors, offset, unmatched)

    return Call(api_key=ApiKey.DELETE_ACLS, encode=encode, decode=decode)


def _error_of(result: FilterResult) -> ApiError | None:
    if result.error is not None:
        return result.error
    return next((each.error for each in result.matches if each.error is not None), None)
