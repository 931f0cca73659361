"""The ACL requests and responses from a client's side.

It uses kio's entities, so it shares only Kafka's types with the server's side.

Source: KIP-140, KIP-290; Kafka 4.3 DescribeAclsRequest.normalizeAndValidate and similar methods.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import msgspec

from authorizerd.acl.change_guard import ANY_OFFSET
from authorizerd.acl.model import Acl, AclFilter, PatternType
from authorizerd.acl.steps import finish
from authorizerd.protocol.kafka.acl_responses import FilterResult, MatchingAcl
from authorizerd.protocol.kafka.api import (
    APIS,
    NO_TAGS,
    ApiKey,
    decode_response,
    encode_request,
)
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from authorizerd.protocol.kafka.offset_tag import encode_end


class _Filter(msgspec.Struct, frozen=True, kw_only=True):
    """A filter, with the field names that requests of every version use."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


class _Creation(msgspec.Struct, frozen=True, kw_only=True):
    """An ACL, with the field names that requests of every version use."""

    resource_type: int
    resource_name: str
    resource_pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


class _Resource(Protocol):
    """The fields of a resource pattern in responses of every version, except its type."""

    resource_type: int
    resource_name: str


class _Entry(Protocol):
    """The fields of an ACL on a resource pattern in responses of every version."""

    principal: str
    host: str
    operation: int
    permission_type: int


class _Answer(Protocol):
    error_code: int
    error_message: str | None


class _CreateAcls(msgspec.Struct, frozen=True):
    creations: tuple[_Creation, ...]


class _DeleteAcls(msgspec.Struct, frozen=True):
    filters: tuple[_Filter, ...]


def encode_describe_acls_request(
    version: int, filter: AclFilter, *, asks_offset: bool = False
) -> bytes:
    """Return the body of a DescribeAcls request.

    Args:
        asks_offset: add our tagged field, if the version has tagged fields. Only an authorizerd
            answers it.

    Raises:
        ValueError: version 0 cannot express it, or a string exceeds Kafka's maximum.
    """
    body = finish(encode_request(ApiKey.DESCRIBE_ACLS, version, _filter(version, filter)))
    if asks_offset and APIS[ApiKey.DESCRIBE_ACLS].is_flexible(version):
        return body.removesuffix(NO_TAGS) + encode_end(ANY_OFFSET, flexible=True)
    return body


def encode_create_acls_request(version: int, acls: Iterable[Acl]) -> bytes:
    """Return the body of a CreateAcls request.

    Raises:
        ValueError: version 0 cannot express it, or a string exceeds Kafka's maximum.
    """
    request = _CreateAcls(tuple(_creation(version, acl) for acl in acls))
    return finish(encode_request(ApiKey.CREATE_ACLS, version, request))


def encode_delete_acls_request(version: int, filters: Iterable[AclFilter]) -> bytes:
    """Return the body of a DeleteAcls request.

    Raises:
        ValueError: version 0 cannot express it, or a string exceeds Kafka's maximum.
    """
    request = _DeleteAcls(tuple(_filter(version, each) for each in filters))
    return finish(encode_request(ApiKey.DELETE_ACLS, version, request))


def decode_describe_acls_response(version: int, body: bytes | bytearray) -> list[Acl] | ApiError:
    """Return the ACLs of a DescribeAcls response, or its error.

    Raises:
        DecodeError: the bytes are not a DescribeAcls response.
    """
    response: Any = finish(decode_response(ApiKey.DESCRIBE_ACLS, version, body))
    return _error(response) or [
        _acl(resource, acl) for resource in response.resources for acl in resource.acls
    ]


def decode_create_acls_response(version: int, body: bytes | bytearray) -> list[ApiError | None]:
    """Return for each creation, in order, its error, or None for success.

    Raises:
        DecodeError: the bytes are not a CreateAcls response.
    """
    response: Any = finish(decode_response(ApiKey.CREATE_ACLS, version, body))
    return [_error(result) for result in response.results]


def decode_delete_acls_response(version: int, body: bytes | bytearray) -> list[FilterResult]:
    """Return the result of each filter, in order.

    Raises:
        DecodeError: the bytes are not a DeleteAcls response.
    """
    response: Any = finish(decode_response(ApiKey.DELETE_ACLS, version, body))
    return [
        FilterResult(
            [MatchingAcl(_acl(match, match), _error(match)) for match in result.matching_acls],
            _error(result),
        )
        for result in response.filter_results
    ]


def _acl(resource: _Resource, entry: _Entry) -> Acl:
    return Acl(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        pattern_type=getattr(resource, "pattern_type", PatternType.LITERAL),
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission_type,
    )


def _error(answer: _Answer) -> ApiError | None:
    if answer.error_code == ErrorCode.NONE:
        return None
    return ApiError(answer.error_code, answer.error_message)


def _creation(version: int, acl: Acl) -> _Creation:
    if version == 0 and acl.pattern_type != PatternType.LITERAL:
        raise ValueError("version 0 of CreateAcls supports only literal patterns")
    return _Creation(
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        resource_pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )


def _filter(version: int, filter: AclFilter) -> _Filter:
    # As in Kafka's client, ANY is allowed: where all patterns are literal, it means LITERAL.
    if version == 0 and filter.pattern_type not in (PatternType.ANY, PatternType.LITERAL):
        raise ValueError("version 0 of the ACL requests supports only literal patterns")
    return _Filter(
        resource_type_filter=filter.resource_type,
        resource_name_filter=filter.resource_name,
        pattern_type_filter=filter.pattern_type,
        principal_filter=filter.principal,
        host_filter=filter.host,
        operation=filter.operation,
        permission_type=filter.permission_type,
    )
