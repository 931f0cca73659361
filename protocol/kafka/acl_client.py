"""The bodies of the ACL requests that a client sends, and the results in the answers.

**Invariant:** for any bytes, an answer to a change is one result per item that was sent, or a
DecodeError. A listing is complete or an error. Codes that this version does not know are kept.

Source: KIP-140, KIP-290; Kafka 4.3 DescribeAclsRequest.normalizeAndValidate and similar methods.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from authorizerd.acl.expected_offset import ANY_OFFSET
from authorizerd.acl.listing import Listing
from authorizerd.acl.model import Acl, AclFilter, PatternType
from authorizerd.acl.steps import Steps, finish
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.acls import (
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsAnswer,
    DescribeAclsRequest,
    FilterResult,
)
from authorizerd.protocol.kafka.api import APIS, ApiKey
from authorizerd.protocol.kafka.body_reader import BodyReader
from authorizerd.protocol.kafka.error_codes import ApiError
from authorizerd.protocol.kafka.messages import decode_response, read_response, write_request

_LITERAL: tuple[int, ...] = (PatternType.LITERAL,)
_LITERAL_OR_ANY = (PatternType.ANY, PatternType.LITERAL)
"""As in Kafka's client, version 0 allows ANY, which means LITERAL there."""


def encode_describe_acls_request(
    version: int, filter: AclFilter, *, asks_offset: bool = False
) -> bytes:
    """Return the body of a DescribeAcls request.

    Args:
        asks_offset: add our tagged field, if the version has tagged fields. Only authorizerd
            answers it.

    Raises:
        ValueError: version 0 cannot express it, or a string exceeds Kafka's maximum.
    """
    _check_patterns(version, (filter,), _LITERAL_OR_ANY)
    request = DescribeAclsRequest(filter, ANY_OFFSET if asks_offset else None)
    return write_request(ApiKey.DESCRIBE_ACLS, version, request)


def encode_create_acls_request(
    version: int, acls: Iterable[Acl], expected_offset: int | None = None
) -> bytes:
    """Return the body of a CreateAcls request.

    Args:
        expected_offset: the value of our tagged field, or None to leave it out.

    Raises:
        ValueError: the version cannot express it, or a string exceeds Kafka's maximum.
    """
    creations = [*acls]
    _check_patterns(version, creations, _LITERAL)
    _check_offset(ApiKey.CREATE_ACLS, version, expected_offset)
    request = CreateAclsRequest(creations, expected_offset)
    return write_request(ApiKey.CREATE_ACLS, version, request)


def encode_delete_acls_request(
    version: int, filters: Iterable[AclFilter], expected_offset: int | None = None
) -> bytes:
    """Return the body of a DeleteAcls request. Args and raises as for creations."""
    wanted = [*filters]
    _check_patterns(version, wanted, _LITERAL_OR_ANY)
    _check_offset(ApiKey.DELETE_ACLS, version, expected_offset)
    request = DeleteAclsRequest(wanted, expected_offset)
    return write_request(ApiKey.DELETE_ACLS, version, request)


def decode_describe_acls_response(version: int, body: bytes | bytearray) -> list[Acl] | ApiError:
    """Return the ACLs of a DescribeAcls response, or its error.

    Raises:
        DecodeError: the bytes are not a DescribeAcls response.
    """
    answer = read_response(ApiKey.DESCRIBE_ACLS, version, body)
    found: list[Acl] | ApiError = answer.error or answer.acls
    return found


def decode_create_acls_response(version: int, body: bytes | bytearray) -> list[ApiError | None]:
    """Return the error of each creation, in order, or None for success.

    Raises:
        DecodeError: the bytes are not a CreateAcls response.
    """
    return [*read_response(ApiKey.CREATE_ACLS, version, body).results]


def decode_delete_acls_response(version: int, body: bytes | bytearray) -> list[FilterResult]:
    """Return the result of each filter, in order.

    Raises:
        DecodeError: the bytes are not a DeleteAcls response.
    """
    results: list[FilterResult] = read_response(ApiKey.DELETE_ACLS, version, body).results
    return results


def decode_results(
    api_key: ApiKey, version: int, body: bytes | bytearray, count: int
) -> Steps[tuple[list[Any], int | None]]:
    """Return, in steps, the results of a CreateAcls or DeleteAcls, and its offset or None.

    Args:
        count: the number of items that were sent.

    Raises:
        DecodeError: the bytes are not a response with that many results.
    """
    answer = yield from decode_response(api_key, version, body)
    found = len(answer.results)
    if found != count:
        raise DecodeError(f"results: expected one for each of {count} items, found {found}", 0)
    return [*answer.results], answer.offset


def read_results(
    api_key: ApiKey, version: int, body: bytes | bytearray, count: int
) -> tuple[list[Any], int | None]:
    """Return what ``decode_results`` returns. For use outside the event loop."""
    return finish(decode_results(api_key, version, body, count))


def _check_patterns(
    version: int, items: Iterable[Acl | AclFilter], allowed: tuple[int, ...]
) -> None:
    if version == 0 and any(item.pattern_type not in allowed for item in items):
        raise ValueError("version 0 of the ACL requests supports only literal patterns")


def _check_offset(api_key: ApiKey, version: int, expected_offset: int | None) -> None:
    if expected_offset is not None and not APIS[api_key].is_flexible(version):
        raise ValueError("this version of the request cannot carry an expected offset")


LISTED_MAX: Final = 8_000_000
"""The maximum number of patterns and bindings in one listing: about 1 GiB of memory."""
THROTTLE_BYTES: Final = 4
"""The size of the throttle time. The bytes after it are equal if the ACLs and their order are."""


class ListingHead(msgspec.Struct, frozen=True):
    """The start of an answer. ``throttle_ms`` is how long the broker asks the client to wait."""

    throttle_ms: int
    error: ApiError | None


def read_listing_head(version: int, body: bytes | bytearray) -> ListingHead:
    """Return the start of a DescribeAcls answer.

    Raises:
        DecodeError: the bytes are not such an answer.
    """
    is_flexible = APIS[ApiKey.DESCRIBE_ACLS].is_flexible(version)
    reader = BodyReader(body, flexible=is_flexible)
    throttle_ms = reader.int32("throttle time")
    code = reader.int16("error code")
    text = reader.nullable_string("error message")
    return ListingHead(max(throttle_ms, 0), ApiError(code, text) if code else None)


def read_listing(version: int, body: bytes | bytearray) -> Steps[Listing]:
    """Return, in steps, the ACLs of a DescribeAcls answer without an error.

    Raises:
        DecodeError: the bytes are not such an answer, it is truncated, or bytes follow it.
    """
    listing, _ = yield from _read_placed_listing(version, body)
    return listing


def read_placed_listing(version: int, body: bytes | bytearray) -> tuple[Listing, int | None]:
    """Return the ACLs of a DescribeAcls answer, and its log offset or None.

    For use outside the event loop. Raises as ``read_listing``.
    """
    return finish(_read_placed_listing(version, body))


def _read_placed_listing(
    version: int, body: bytes | bytearray
) -> Steps[tuple[Listing, int | None]]:
    assert version > 0, "version 0 has no pattern types"
    answer: DescribeAclsAnswer = yield from decode_response(
        ApiKey.DESCRIBE_ACLS, version, body, items_max=LISTED_MAX, is_exact=True
    )
    assert answer.error is None, "an error has no listing"
    listing = Listing()
    acls = answer.acls
    while acls:
        listing.add(acls.pop())
        yield
    return listing, answer.offset
