"""The ACL requests, from bytes to ACLs and filters.

Codes are kept unchanged; ``acl.validation`` checks them. Version 0 has no pattern type: it creates,
describes and deletes LITERAL patterns only, whatever the name.

Source: KIP-140, KIP-290; Kafka 4.3 DescribeAclsRequest, CreateAclsRequest, DeleteAclsRequest.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from authorizerd.acl.model import Acl, AclFilter, PatternType
from authorizerd.acl.steps import Steps
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.api import APIS, ApiKey
from authorizerd.protocol.kafka.body_reader import BodyReader

_ITEM_BYTES_MIN: Final = (9, 10)
"""The minimum size of a creation or filter in versions 0 and 1: codes, and three lengths."""
_ITEM_BYTES_MIN_FLEXIBLE: Final = 8


def decode_describe_acls(version: int, body: bytes | bytearray) -> AclFilter:
    """Return the filter of a DescribeAcls request. Trailing bytes are ignored, as in Kafka.

    Raises:
        DecodeError: the request is invalid. Kafka closes the connection.
    """
    return _read_filter(version, _reader(ApiKey.DESCRIBE_ACLS, version, body))


def decode_create_acls(version: int, body: bytes | bytearray) -> Steps[list[Acl]]:
    """Return, in steps, the ACLs of a CreateAcls request. Trailing bytes are ignored.

    Raises:
        DecodeError: the request is invalid. Kafka closes the connection.
    """
    reader = _reader(ApiKey.CREATE_ACLS, version, body)
    count = _item_count(reader, version, "creations")
    creations = yield from reader.items(count, partial(_read_creation, version))
    reader.end_structure()
    return creations


def decode_delete_acls(version: int, body: bytes | bytearray) -> Steps[list[AclFilter]]:
    """Return, in steps, the filters of a DeleteAcls request. Trailing bytes are ignored.

    Raises:
        DecodeError: the request is invalid. Kafka closes the connection.
    """
    reader = _reader(ApiKey.DELETE_ACLS, version, body)
    count = _item_count(reader, version, "filters")
    filters = yield from reader.items(count, partial(_read_filter, version))
    reader.end_structure()
    return filters


def count_items(api_key: ApiKey, version: int, body: bytes | bytearray) -> int:
    """Return the number of results for a CreateAcls or DeleteAcls, without reading its items.

    An unauthorized request can thus be answered without decoding it.

    Raises:
        DecodeError: the bytes cannot contain that many items. Kafka closes the connection, too.
    """
    assert api_key in (ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS)
    return _item_count(_reader(api_key, version, body), version, "items")


def _item_count(reader: BodyReader, version: int, what: str) -> int:
    """Return the number of creations or filters that follow. The remaining bytes bound it."""
    start = reader.position
    count = reader.array_length(what)
    bytes_left = reader.end - reader.position
    each = _ITEM_BYTES_MIN_FLEXIBLE if reader.flexible else _ITEM_BYTES_MIN[min(version, 1)]
    # Otherwise a short request could get an answer many times its size.
    if count * each > bytes_left:
        raise DecodeError(
            f"{what}: {count} announced, each of at least {each} bytes; {bytes_left} bytes left",
            start,
        )
    return count


def _reader(api_key: ApiKey, version: int, body: bytes | bytearray) -> BodyReader:
    api = APIS[api_key]
    assert api.serves(version)
    return BodyReader(body, flexible=api.is_flexible(version))


def _read_creation(version: int, reader: BodyReader) -> Acl:
    acl = Acl(
        resource_type=reader.int8("resource type"),
        resource_name=reader.string("resource name"),
        pattern_type=reader.int8("pattern type") if version else PatternType.LITERAL,
        principal=reader.string("principal"),
        host=reader.string("host"),
        operation=reader.int8("operation"),
        permission_type=reader.int8("permission type"),
    )
    reader.end_structure()
    return acl


def _read_filter(version: int, reader: BodyReader) -> AclFilter:
    read = AclFilter(
        resource_type=reader.int8("resource type"),
        resource_name=reader.nullable_string("resource name"),
        pattern_type=reader.int8("pattern type") if version else PatternType.LITERAL,
        principal=reader.nullable_string("principal"),
        host=reader.nullable_string("host"),
        operation=reader.int8("operation"),
        permission_type=reader.int8("permission type"),
    )
    reader.end_structure()
    return read
