"""Messages as kio defines them, from bytes and back: what other programs than ours send and read.

kio's own reader rejects AUTHORIZER_NOT_READY, which its enumeration lacks, so this one reads error
codes as integers. It shares only the primitive types with the product's codec.
"""

import struct
from collections.abc import Callable
from dataclasses import Field, fields, is_dataclass
from datetime import timedelta
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

from authorizerd.acl.steps import Steps, at_once
from authorizerd.protocol import primitives as wire
from authorizerd.protocol.kafka.body_reader import (
    UUID_ZERO,
    BodyReader,
    array_length,
    nullable_byte_string,
    nullable_string,
)
from authorizerd.protocol.kafka.chunked_output import Chunk
from tests.support.kio_messages import request_type, response_type

_MS = timedelta(milliseconds=1)
_FORMATS = {
    "bool": ">?", "int8": ">b", "int16": ">h", "uint16": ">H", "int32": ">i", "int64": ">q",
    "float64": ">d", "error_code": ">h", "timedelta_i32": ">i", "timedelta_i64": ">q",
}  # fmt: skip


def decode_request(api_key: int, version: int, body: bytes | bytearray) -> Steps[Any]:
    return at_once(_decode(request_type(api_key, version), body))


def decode_response(api_key: int, version: int, body: bytes | bytearray) -> Steps[Any]:
    return at_once(_decode(response_type(api_key, version), body))


def encode_request(api_key: int, version: int, request: object) -> Steps[bytes]:
    return at_once(_encode(request_type(api_key, version), request))


def encode_response(api_key: int, version: int, response: object) -> Steps[list[Chunk]]:
    return at_once([_encode(response_type(api_key, version), response)])


def _decode(entity_type: Any, body: bytes | bytearray) -> Any:  # noqa: ANN401 - any entity
    return _read(entity_type, BodyReader(bytes(body), flexible=entity_type.__flexible__))


def _read(entity_type: Any, reader: BodyReader) -> Any:  # noqa: ANN401
    values: dict[str, object] = {}
    tagged: dict[int, Field[Any]] = {}
    for declared in fields(entity_type):
        tag = declared.metadata.get("tag")
        if tag is None:
            values[declared.name] = _read_field(declared, reader)
        else:
            tagged[tag] = declared
    if reader.flexible:
        for tag, start, end in reader.tags():
            if tag in tagged:
                place = reader.enter(start, end)
                values[tagged[tag].name] = _read_field(tagged[tag], reader)
                reader.enter(*place)
    return entity_type(**values)


def _read_field(declared: Field[Any], reader: BodyReader) -> object:
    item_type, is_array, nullable = type_of(declared)
    read: Callable[[], object] = (
        (lambda: _read(item_type, reader))
        if is_dataclass(item_type)
        else (lambda: _read_value(declared, nullable and not is_array, reader))
    )
    if not is_array:
        return read()
    count = reader.nullable_array_length(declared.name)
    return None if count is None else tuple(read() for _ in range(count))


def _read_value(declared: Field[Any], nullable: bool, reader: BodyReader) -> object:
    kind, name = declared.metadata["kafka_type"], declared.name
    if kind == "uuid":
        return reader.uuid(name)
    if kind == "string":
        return reader.nullable_string(name) if nullable else reader.string(name)
    if kind in ("bytes", "records"):
        return reader.nullable_byte_string(name) if nullable else reader.byte_string(name)
    packed = struct.Struct(_FORMATS[kind])
    (value,) = packed.unpack(reader.take(packed.size, name))
    return value * _MS if kind.startswith("timedelta") else value


def _encode(entity_type: Any, value: object) -> bytes:  # noqa: ANN401
    flexible = entity_type.__flexible__
    parts: list[bytes] = []
    tagged: dict[int, bytes] = {}
    for declared in fields(entity_type):
        tag = declared.metadata.get("tag")
        if tag is None:
            parts.append(_encode_field(declared, getattr(value, declared.name), flexible))
            continue
        given = getattr(value, declared.name, declared.default)
        if given != declared.default:
            tagged[tag] = _encode_field(declared, given, flexible)
    if flexible:
        parts.append(wire.unsigned_varint(len(tagged)))
        for tag, data in sorted(tagged.items()):
            parts += [wire.unsigned_varint(tag), wire.unsigned_varint(len(data)), data]
    return b"".join(parts)


def _encode_field(declared: Field[Any], value: Any, flexible: bool) -> bytes:  # noqa: ANN401
    item_type, is_array, _ = type_of(declared)

    def encode(item: Any) -> bytes:  # noqa: ANN401
        if is_dataclass(item_type):
            return _encode(item_type, item)
        return encode_value(declared.metadata["kafka_type"], item, flexible)

    if not is_array:
        return encode(value)
    if value is None:
        return array_length(None, flexible=flexible)
    return array_length(len(value), flexible=flexible) + b"".join(map(encode, value))


def encode_value(kind: str, value: Any, flexible: bool) -> bytes:  # noqa: ANN401
    if kind == "uuid":
        return bytes((value or UUID_ZERO).bytes)
    if kind == "string":
        return nullable_string(value, flexible=flexible)
    if kind in ("bytes", "records"):
        return nullable_byte_string(value, flexible=flexible)
    number = round(value / _MS) if isinstance(value, timedelta) else value
    return struct.pack(_FORMATS[kind], number)


def type_of(declared: Field[Any]) -> tuple[Any, bool, bool]:
    """Return the type of a field or of its items, and whether it is an array, and nullable."""
    kind, nullable = declared.type, False
    if get_origin(kind) is UnionType:
        nullable = True
        [kind] = [each for each in get_args(kind) if each is not NoneType]
    is_array = get_origin(kind) is tuple
    return (get_args(kind)[0] if is_array else kind), is_array, nullable
