"""Changes of ACLs as a server passes them on, and their answers, in steps, since both may be large.

**Invariant:** for any bytes, an answer is one result per item that was sent, or a DecodeError.

Source: KIP-140, KIP-290; Kafka 4.3 CreateAclsRequest.json, DeleteAclsRequest.json.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from authorizerd.acl.model import Acl, AclFilter
from authorizerd.acl.steps import Steps
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.acl_responses import FilterResult, MatchingAcl
from authorizerd.protocol.kafka.api import APIS, NO_TAGS, ApiKey
from authorizerd.protocol.kafka.body_reader import (
    BodyReader,
    array_length,
    nullable_string,
    string,
)
from authorizerd.protocol.kafka.error_codes import ApiError
from authorizerd.protocol.kafka.offset_tag import encode_end, read_offset_tag
from authorizerd.protocol.kafka.step_sizes import ITEMS_PER_STEP

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

TEXTS_KEPT_MAX: Final = 1000
"""The number of different error texts of one answer that are kept. Others are dropped."""

_INT8: Final = struct.Struct(">b")
_TWO_INT8: Final = struct.Struct(">bb")


def encode_creations(
    version: int, acls: Sequence[Acl], expected_offset: int | None = None
) -> Steps[bytearray]:
    """Return, in steps, the body of a CreateAcls request of version 1 or later.

    Args:
        expected_offset: the value of our tagged field, or None to leave it out.

    Raises:
        ValueError: a string exceeds Kafka's maximum, or the version has no tagged fields.
    """
    flexible = APIS[ApiKey.CREATE_ACLS].is_flexible(version)

    def encode(acl: Acl) -> bytes:
        return b"".join(
            (
                _INT8.pack(acl.resource_type),
                string(acl.resource_name, flexible=flexible),
                _INT8.pack(acl.pattern_type),
                string(acl.principal, flexible=flexible),
                string(acl.host, flexible=flexible),
                _TWO_INT8.pack(acl.operation, acl.permission_type),
            )
        )

    return _encode(acls, encode, expected_offset, flexible=flexible)


def encode_deletions(
    version: int, filters: Sequence[AclFilter], expected_offset: int | None = None
) -> Steps[bytearray]:
    """Return, in steps, the body of a DeleteAcls request of version 1 or later.

    Args and raises as ``encode_creations``.
    """
    flexible = APIS[ApiKey.DELETE_ACLS].is_flexible(version)

    def encode(filter: AclFilter) -> bytes:
        return b"".join(
            (
                _INT8.pack(filter.resource_type),
                nullable_string(filter.resource_name, flexible=flexible),
                _INT8.pack(filter.pattern_type),
                nullable_string(filter.principal, flexible=flexible),
                nullable_string(filter.host, flexible=flexible),
                _TWO_INT8.pack(filter.operation, filter.permission_type),
            )
        )

    return _encode(filters, encode, expected_offset, flexible=flexible)


def _encode(
    items: Sequence[ItemT],
    encode: Callable[[ItemT], bytes],
    expected_offset: int | None,
    *,
    flexible: bool,
) -> Steps[bytearray]:
    if expected_offset is not None and not flexible:
        raise ValueError("this version of the request cannot carry an expected offset")
    end = NO_TAGS if flexible else b""
    body = bytearray(array_length(len(items), flexible=flexible))
    for number, item in enumerate(items, 1):
        body += encode(item) + end
        if number % ITEMS_PER_STEP == 0:
            yield
    body += encode_end(expected_offset, flexible=flexible)
    return body


def decode_created(
    version: int, body: bytes | bytearray, count: int
) -> Steps[tuple[list[ApiError | None], int | None]]:
    """Return, in steps, each creation's error, None for success, and the answer's offset or None.

    Args:
        count: the number of creations that were sent.

    Raises:
        DecodeError: the bytes are not a CreateAcls response with that many results.
    """
    errors = _Errors()

    def read(reader: BodyReader) -> ApiError | None:
        error = errors.read(reader)
        reader.end_structure()
        return error

    return _decode(ApiKey.CREATE_ACLS, version, body, read, count)


def decode_deleted(
    version: int, body: bytes | bytearray, count: int
) -> Steps[tuple[list[FilterResult], int | None]]:
    """Return, in steps, the result of each filter, and the answer's offset or None.

    Args:
        count: the number of filters that were sent.

    Raises:
        DecodeError: the bytes are not a DeleteAcls response with that many results.
    """
    errors = _Errors()
    reader = _begin(ApiKey.DELETE_ACLS, version, body)
    _expect(reader, count)
    results: list[FilterResult] = []
    for _ in range(count):
        error = errors.read(reader)
        matches = reader.array_length("matching_acls")
        found = yield from reader.items(matches, errors.read_match)
        reader.end_structure()
        results.append(FilterResult(found, error))
        if reader.ends_step():
            yield
    return results, read_offset_tag(reader)


def _decode(
    api_key: ApiKey,
    version: int,
    body: bytes | bytearray,
    read: Callable[[BodyReader], ResultT],
    count: int,
) -> Steps[tuple[list[ResultT], int | None]]:
    reader = _begin(api_key, version, body)
    _expect(reader, count)
    results = yield from reader.items(count, read)
    return results, read_offset_tag(reader)


def _begin(api_key: ApiKey, version: int, body: bytes | bytearray) -> BodyReader:
    reader = BodyReader(body, flexible=APIS[api_key].is_flexible(version))
    reader.int32("throttle_time_ms")
    return reader


def _expect(reader: BodyReader, count: int) -> None:
    start = reader.position
    found = reader.array_length("results")
    if found != count:
        raise DecodeError(f"results: expected one for each of {count} items, found {found}", start)


class _Errors:
    """Read errors. Equal ones share one value, since freeing many takes long."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str | None], ApiError] = {}

    def read(self, reader: BodyReader) -> ApiError | None:
        code = reader.int16("error_code")
        text = reader.nullable_string("error_message")
        if not code:
            return None
        known = self._known.get((code, text))
        if known is None:
            if len(self._known) >= TEXTS_KEPT_MAX:
                text = None
            known = self._known.setdefault((code, text), ApiError(code, text))
        return known

    def read_match(self, reader: BodyReader) -> MatchingAcl:
        error = self.read(reader)
        acl = Acl(
            resource_type=reader.int8("resource_type"),
            resource_name=reader.string("resource_name"),
            pattern_type=reader.int8("pattern_type"),
            principal=reader.string("principal"),
            host=reader.string("host"),
            operation=reader.int8("operation"),
            permission_type=reader.int8("permission_type"),
        )
        reader.end_structure()
        return MatchingAcl(acl, error)
