"""The ACL requests, from bytes to ACLs and filters.

Codes are kept unchanged; ``acl.validation`` checks them. Version 0 has no pattern type: it creates,
describes and deletes LITERAL patterns only, whatever the name. The offset that a request carries in
our tagged field is returned beside its items: see ``offset_tag``.

Source: KIP-140, KIP-290; Kafka 4.3 DescribeAclsRequest, CreateAclsRequest, DeleteAclsRequest.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from authorizerd.acl.change_guard import ANY_OFFSET
from authorizerd.acl.model import Acl, AclFilter, PatternType
from authorizerd.acl.steps import Steps, free
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.api import APIS, ApiKey
from authorizerd.protocol.kafka.body_reader import BodyReader
from authorizerd.protocol.kafka.offset_tag import OFFSET_TAG, read_offset_tag

_ITEM_BYTES_MIN: Final = (9, 10)
"""The minimum size of a creation or filter in versions 0 and 1: codes, and three lengths."""
_ITEM_BYTES_MIN_FLEXIBLE: Final = 8
_WINDOW_BYTES: Final = 4096
"""Creations are read from windows of this size, one in each step."""
_ITEMS_AFTER_UNUSUAL: Final = 16
_KNOWN_MAX: Final = 1024


def decode_describe_acls(version: int, body: bytes | bytearray) -> tuple[AclFilter, int | None]:
    """Return the filter of a DescribeAcls request, and ``ANY_OFFSET`` if it asks for the offset.

    Trailing bytes are ignored, as in Kafka.

    Raises:
        DecodeError: the request is invalid. Kafka closes the connection.
    """
    reader = _reader(ApiKey.DESCRIBE_ACLS, version, body)
    wanted = _read_filter_fields(version, reader)
    start = reader.position
    offset = read_offset_tag(reader)
    if offset not in (None, ANY_OFFSET):
        raise DecodeError(
            f"tag {OFFSET_TAG}: expected {ANY_OFFSET} in a DescribeAcls request, found {offset}",
            start,
        )
    return wanted, offset


def decode_create_acls(
    version: int, body: bytes | bytearray
) -> Steps[tuple[list[Acl], int | None]]:
    """Return, in steps, the ACLs of a CreateAcls request, and its offset or None.

    Trailing bytes are ignored.

    Raises:
        DecodeError: the request is invalid. Kafka closes the connection.
    """
    reader = _reader(ApiKey.CREATE_ACLS, version, body)
    count = _item_count(reader, version, "creations")
    creations: list[Acl] = []
    known: dict[str, str] = {}
    try:
        while (left := count - len(creations)) > 0:
            if not (reader.flexible and _read_usual_creations(reader, left, creations, known)):
                some = min(left, _ITEMS_AFTER_UNUSUAL)
                creations += yield from reader.items(some, partial(_read_creation, version))
            yield
        offset = read_offset_tag(reader)
    except DecodeError:
        # Free them in steps: the exception would free all at once and block the event loop.
        yield from free(creations)
        raise
    return creations, offset


def decode_delete_acls(
    version: int, body: bytes | bytearray
) -> Steps[tuple[list[AclFilter], int | None]]:
    """Return, in steps, the filters of a DeleteAcls request, and its offset or None.

    Trailing bytes are ignored.

    Raises:
        DecodeError: the request is invalid. Kafka closes the connection.
    """
    reader = _reader(ApiKey.DELETE_ACLS, version, body)
    count = _item_count(reader, version, "filters")
    filters = yield from reader.items(count, partial(_read_filter, version))
    try:
        offset = read_offset_tag(reader)
    except DecodeError:
        yield from free(filters)
        raise
    return filters, offset


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


def _read_usual_creations(
    reader: BodyReader, most: int, creations: list[Acl], known: dict[str, str]
) -> bool:
    """Read up to ``most`` creations of a flexible version, and stop at the first unusual one.

    A usual creation is ASCII, and has no null, no long string and no tagged fields. Return False if
    none was read; ``_read_creation`` reads any, and reports what is wrong with it. Why two ways?
    This one takes a fifth of the time, because it calls no function per field: in ASCII, positions
    in the text are those in the bytes, and each size is one byte.

    Args:
        known: principals and hosts that were read before. Creations share them, which saves memory.
    """
    start = reader.position
    window = bytes(reader.buffer[start : start + _WINDOW_BYTES])
    if not window.isascii():
        return False
    if len(known) > _KNOWN_MAX:
        known.clear()
    text, share = window.decode("ascii"), known.setdefault
    position = 0
    try:
        for _ in range(most):
            # Each size is one more than that of its string, and 0 for null.
            name_size = window[position + 1]
            pattern_at = position + 1 + name_size
            principal_size = window[pattern_at + 1]
            host_at = pattern_at + 1 + principal_size
            host_size = window[host_at]
            operation_at = host_at + host_size
            tags = window[operation_at + 2]
            if tags or not (name_size and principal_size and host_size):
                break
            principal, host = text[pattern_at + 2 : host_at], text[host_at + 1 : operation_at]
            creations.append(
                Acl(
                    window[position],
                    text[position + 2 : pattern_at],
                    window[pattern_at],
                    share(principal, principal),
                    share(host, host),
                    window[operation_at],
                    window[operation_at + 1],
                )
            )
            position = operation_at + 3
    except IndexError:  # the window ends within the next creation
        pass
    reader.position = start + position
    return position > 0


def _read_filter(version: int, reader: BodyReader) -> AclFilter:
    read = _read_filter_fields(version, reader)
    reader.end_structure()
    return read


def _read_filter_fields(version: int, reader: BodyReader) -> AclFilter:
    """Return a filter without reading its tagged fields."""
    return AclFilter(
        resource_type=reader.int8("resource type"),
        resource_name=reader.nullable_string("resource name"),
        pattern_type=reader.int8("pattern type") if version else PatternType.LITERAL,
        principal=reader.nullable_string("principal"),
        host=reader.nullable_string("host"),
        operation=reader.int8("operation"),
        permission_type=reader.int8("permission type"),
    )
