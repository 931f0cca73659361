"""The bodies of the ACL messages on either side, in short calls."""

from collections.abc import Iterable, Sequence
from typing import Any

from authorizerd.acl.model import Acl, AclFilter
from authorizerd.acl.steps import Steps, finish
from authorizerd.protocol.kafka.acl_client import decode_results
from authorizerd.protocol.kafka.acl_groups import AclGroups
from authorizerd.protocol.kafka.acls import (
    CreateAclsAnswer,
    CreateAclsRequest,
    DeleteAclsAnswer,
    DeleteAclsRequest,
    DescribeAclsAnswer,
    ErrorTexts,
    FilterResult,
    MatchingAcl,
)
from authorizerd.protocol.kafka.api import APIS, ApiKey
from authorizerd.protocol.kafka.chunked_output import Chunk, Items, Repeated
from authorizerd.protocol.kafka.error_codes import ApiError
from authorizerd.protocol.kafka.messages import decode_request, encode_request, encode_response
from authorizerd.protocol.kafka.responses import EnvelopeAnswer


def joined(steps: Steps[list[Chunk]]) -> bytes:
    return b"".join(finish(steps))


def decode_describe_acls(version: int, body: bytes | bytearray) -> tuple[AclFilter, int | None]:
    asked = finish(decode_request(ApiKey.DESCRIBE_ACLS, version, body))
    return asked.filter, asked.offset


def decode_create_acls(
    version: int, body: bytes | bytearray
) -> Steps[tuple[list[Acl], int | None]]:
    asked = yield from decode_request(ApiKey.CREATE_ACLS, version, body)
    return asked.creations, asked.offset


def decode_delete_acls(
    version: int, body: bytes | bytearray
) -> Steps[tuple[list[AclFilter], int | None]]:
    asked = yield from decode_request(ApiKey.DELETE_ACLS, version, body)
    return asked.filters, asked.offset


def encode_creations(
    version: int, acls: Sequence[Acl], expected_offset: int | None = None
) -> Steps[bytes]:
    request = CreateAclsRequest([*acls], expected_offset)
    return encode_request(ApiKey.CREATE_ACLS, version, request)


def encode_deletions(
    version: int, filters: Sequence[AclFilter], expected_offset: int | None = None
) -> Steps[bytes]:
    request = DeleteAclsRequest([*filters], expected_offset)
    return encode_request(ApiKey.DELETE_ACLS, version, request)


def decode_created(
    version: int, body: bytes | bytearray, count: int
) -> Steps[tuple[list[ApiError | None], int | None]]:
    return decode_results(ApiKey.CREATE_ACLS, version, body, count)


def decode_deleted(
    version: int, body: bytes | bytearray, count: int
) -> Steps[tuple[list[FilterResult], int | None]]:
    return decode_results(ApiKey.DELETE_ACLS, version, body, count)


def encode_listing(
    version: int, *slices: Iterable[Acl], offset: int | None = None
) -> Steps[list[Chunk]]:
    """Return a DescribeAcls response, built while slices of ACLs are found."""
    groups = AclGroups(version, flexible=APIS[ApiKey.DESCRIBE_ACLS].is_flexible(version))
    for acls in slices:
        groups.add(acls)
    answer = DescribeAclsAnswer(acls=groups, offset=offset)
    return encode_response(ApiKey.DESCRIBE_ACLS, version, answer)


def encode_describe_acls_error(version: int, error: ApiError) -> bytes:
    answer = DescribeAclsAnswer(error=ErrorTexts().limit(error))
    return joined(encode_response(ApiKey.DESCRIBE_ACLS, version, answer))


def encode_all_created(version: int, count: int, offset: int | None = None) -> list[Chunk]:
    answer = CreateAclsAnswer(results=Repeated(None, count), offset=offset)
    return finish(encode_response(ApiKey.CREATE_ACLS, version, answer))


def encode_create_acls(
    version: int, results: Items[ApiError | None], offset: int | None = None
) -> Steps[list[Chunk]]:
    texts = ErrorTexts()
    limited = [None if error is None else texts.limit(error) for error in results]
    answer = CreateAclsAnswer(results=limited, offset=offset)
    return encode_response(ApiKey.CREATE_ACLS, version, answer)


def encode_delete_acls(
    version: int, results: Items[FilterResult], offset: int | None = None
) -> Steps[list[Chunk]]:
    texts = ErrorTexts()

    def limit(error: ApiError | None) -> ApiError | None:
        return None if error is None else texts.limit(error)

    limited = []
    for each in results:
        error = limit(each.error)
        matches = [MatchingAcl(acl=match.acl, error=limit(match.error)) for match in each.matches]
        limited.append(FilterResult(matches=matches, error=error))
    answer = DeleteAclsAnswer(results=limited, offset=offset)
    return encode_response(ApiKey.DELETE_ACLS, version, answer)


def encode_envelope_error(code: int) -> bytes:
    answer: Any = EnvelopeAnswer(error_code=code)
    return joined(encode_response(ApiKey.ENVELOPE, 1, answer))
