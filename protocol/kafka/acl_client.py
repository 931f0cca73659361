"""The ACL requests as a client writes them, and what it reads in the responses.

It goes by kio's entities, and so shares nothing but Kafka's types with the server's side.

Source: KIP-140, KIP-290; Kafka 4.3 DescribeAclsRequest.normalizeAndValidate and its like.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import msgspec

from authorizerd.acl.model import Acl, AclFilter, PatternType
from authorizerd.acl.steps import finish
from authorizerd.protocol.kafka.acl_responses import FilterResult, MatchingAcl
from authorizerd.protocol.kafka.api import ApiKey, decode_response, encode_request
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode


class _Filter(msgspec.Struct, frozen=True, kw_only=True):
    """A filter under the names that it has in requests of any version."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


class _Creation(msgspec.Struct, frozen=True, kw_only=True):
    """An ACL under the names that it has in requests of any version."""

    resource_type: int
    resource_name: str
    resource_pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


class _Resource(Protocol):
    """What a response of any version says of a resource pattern, its type apart."""

    resource_type: int
    resource_name: str


class _Entry(Protocol):
    """What a response of any version says of an ACL on a resource pattern."""

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


def encode_describe_acls_request(version: int, filter: AclFilter) -> bytes:
    """Return the body of a DescribeAcls request.

    Raises:
        ValueError: version 0 cannot say it, or a string is longer than Kafka's are.
    """
    return finish(encode_request(ApiKey.DESCRIBE_ACLS, version, _filter(version, filter)))


def encode_create_acls_request(version: int, acls: Iterable[Acl]) -> bytes:
    """Return the body of a CreateAcls request.

    Raises:
        ValueError: version 0 cannot say it, or a string is longer than Kafka's are.
    """
    request = _CreateAcls(tuple(_creation(version, acl) for acl in acls))
    return finish(encode_request(ApiKey.CREATE_ACLS, version, request))


def encode_delete_acls_request(version: int, filters: Iterable[AclFilter]) -> bytes:
    """Return the body of a DeleteAcls request.

    Raises:
        ValueError: version 0 cannot say it, or a string is longer than Kafka's are.
    """
    request = _DeleteAcls(tuple(_filter(version, each) for each in filters))
    return finish(encode_request(ApiKey.DELETE_ACLS, version, request))


def decode_describe_acls_response(version: int, body: bytes | bytearray) -> list[Acl] | ApiError:
    """Return the ACLs that a DescribeAcls response tells of, or what went wrong.

    Raises:
        DecodeError: the bytes are no such response.
    """
    response: Any = finish(decode_response(ApiKey.DESCRIBE_ACLS, version, body))
    return _error(response) or [
        _acl(resource, acl) for resource in response.resources for acl in resource.acls
    ]


def decode_create_acls_response(version: int, body: bytes | bytearray) -> list[ApiError | None]:
    """Return for each creation in its order what went wrong, None where nothing did.

    Raises:
        DecodeError: the bytes are no such response.
    """
    response: Any = finish(decode_response(ApiKey.CREATE_ACLS, version, body))
    return [_error(result) for result in response.results]


def decode_delete_acls_response(version: int, body: bytes | bytearray) -> list[FilterResult]:
    """Return what became of each filter, in their order.

    Raises:
        DecodeError: the bytes are no such response.
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
        raise ValueError("version 0 of CreateAcls creates literal patterns only")
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
    if version == 0 and filter.pattern_type not in (PatternType.ANY, PatternType.LITERAL):
        raise ValueError("version 0 of the ACL requests finds literal patterns only")
    return _Filter(
        resource_type_filter=filter.resource_type,
        resource_name_filter=filter.resource_name,
        pattern_type_filter=filter.pattern_type,
        principal_filter=filter.principal,
        host_filter=filter.host,
        operation=filter.operation,
        permission_type=filter.permission_type,
    )
