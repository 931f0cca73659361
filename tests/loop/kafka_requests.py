"""The largest Kafka requests that are allowed, generated from the message definitions.

A new API or version gets its requests without new code: each array in turn has the maximum length,
with one parent or many, texts are long, and structures have unknown tags. ``FLAVOURS`` adds the
values that cause a handler the most work, which no generator can know.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields, is_dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, Final, TypeAlias, cast

from kio.static.protocol import Entity

from authorizerd.acl.model import Operation, PatternType, PermissionType, ResourceType
from authorizerd.protocol import primitives
from authorizerd.protocol.framing import frame
from authorizerd.protocol.kafka import body_reader
from authorizerd.protocol.kafka.acl_types import OFFSET_TAG
from authorizerd.protocol.kafka.api import APIS, ApiKey
from authorizerd.protocol.kafka.body_reader import STRING_BYTES_MAX, TAGS_MAX
from authorizerd.protocol.kafka.codec import NO_TAGS
from authorizerd.protocol.kafka.envelope import FORWARDABLE
from authorizerd.protocol.kafka.messages import REQUEST_ITEMS_MAX
from tests.support.kafka_principals import encode_principal
from tests.support.kio_codec import encode_value, type_of
from tests.support.kio_messages import request_type
from tests.support.sizes import size

ITEMS: Final = size(REQUEST_ITEMS_MAX // 4, REQUEST_ITEMS_MAX)
"""The length of long arrays. By day, it shows stretches of 20 lines and more for each item."""
EVERY_ACL: Final = "every ACL"
LONG_TEXTS: Final = 16
TAGGED_ITEMS: Final = 100

Value: TypeAlias = Callable[[int], object] | object
"""A field's value, or a function that makes one from the number of its item."""
Values: TypeAlias = Mapping[str, Value]
Flavours: TypeAlias = Mapping[str, Values]
"""Named values that cause a handler much work."""

_UNKNOWN_TAG: Final = 1000
_ADDRESS: Final = b"\n\0\0\1"


def numbered(text: str) -> Callable[[int], str]:
    """Return a function that makes a different text for each item."""
    return lambda number: f"{text}{number}"


CREATED: Final[Values] = {
    "resource_type": ResourceType.TOPIC,
    "resource_name": numbered("created-"),
    "resource_pattern_type": PatternType.LITERAL,
    "principal": "User:created",
    "host": "*",
    "operation": Operation.READ,
    "permission_type": PermissionType.ALLOW,
}
OPEN_FILTER: Final[Values] = {
    "resource_type_filter": ResourceType.ANY, "resource_name_filter": None,
    "pattern_type_filter": PatternType.ANY, "principal_filter": None, "host_filter": None,
    "operation": Operation.ANY, "permission_type": PermissionType.ANY,
}  # fmt: skip
USERS: Final[Values] = {
    "name": numbered("user-"),
    "mechanism": 2,
    "iterations": 4096,
    "salt": "s" * 128,
    "salted_password": "p" * 64,
}
OF_CREATED: Final[Values] = {**OPEN_FILTER, "principal_filter": "User:created"}
NARROW_FILTERS: Final = 20
"""Each filter is compared with every ACL. More filters only add stretches, which stay short."""
OPEN_FILTERS: Final = 200
_BROKER: Final = 4

_ALTERATIONS: Final[Flavours] = {
    "this node": {
        "resource_type": _BROKER, "resource_name": "1", "validate_only": True,
        "name": numbered("key"), "value": "5",
    },
    "many nodes": {
        "resource_type": _BROKER, "resource_name": numbered(""), "validate_only": True,
        "name": "max.connections", "value": "1000",
    },
    "every node": {
        "resource_type": _BROKER, "resource_name": "", "validate_only": True,
        "name": "max.connections", "value": "1000",
    },
}  # fmt: skip
FLAVOURS: Final[Mapping[ApiKey, Flavours]] = {
    ApiKey.FIND_COORDINATOR: {"transactions": {"key_type": 1}},
    ApiKey.API_VERSIONS: {
        "named": {
            "client_software_name": "a", "client_software_version": "1",
            "cluster_id": None, "node_id": -1,
        },
    },
    ApiKey.DESCRIBE_CONFIGS: {
        "this node": {
            "resource_type": _BROKER,
            "resource_name": "1",
            "configuration_keys": numbered("max.connections"),
        },
        "every node": {"resource_type": _BROKER, "resource_name": ""},
    },
    ApiKey.ALTER_CONFIGS: _ALTERATIONS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: {
        **_ALTERATIONS,
        "lists": {
            "resource_type": _BROKER, "resource_name": "1", "validate_only": True,
            "name": "super.users", "config_operation": 2, "value": numbered("User:u"),
        },
    },
    ApiKey.DESCRIBE_CLIENT_QUOTAS: {"users": {"entity_type": "user", "match_type": 2}},
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: {"one user": {**USERS, "name": "user"}},
    ApiKey.DESCRIBE_QUORUM: {
        "the metadata": {"topic_name": "__cluster_metadata", "partition_index": 0},
    },
    ApiKey.DESCRIBE_CLUSTER: {
        "operations": {"include_cluster_authorized_operations": True, "endpoint_type": 1},
    },
}  # fmt: skip
"""For each API, the values that cause its handler the most work."""

_PLAIN: Final[Values] = {
    "include_topic_authorized_operations": True,
    "include_cluster_authorized_operations": True,
    "include_authorized_operations": True,
    "include_synonyms": True,
    "include_documentation": True,
    "topic_id": None,
    "host_filter": None,
}


@dataclass(frozen=True)
class Request:
    """A request; ``name`` says which part is large."""

    api_key: ApiKey
    version: int
    name: str
    make_body: Callable[[], bytes] = field(repr=False)

    def __str__(self) -> str:
        return f"{APIS[self.api_key].name} v{self.version}, {self.name}"

    def frame(self) -> bytes:
        """Return the request as bytes."""
        header = struct.pack(">hhih", self.api_key, self.version, 1, -1)
        tags = b"\0" if APIS[self.api_key].is_flexible(self.version) else b""
        return frame(header, tags, self.make_body())


@dataclass(frozen=True)
class _Shape:
    """The size of a body. ``counts`` has array lengths by path; other arrays have one item."""

    counts: Mapping[str, int] = field(default_factory=dict)
    values: Values = field(default_factory=dict)
    text_bytes: int = 0
    tags: int = 0


def requests_of(
    api_key: ApiKey, version: int, *, is_plain: bool = False, items: int = ITEMS
) -> Iterator[Request]:
    """Yield requests of one version, each with a different part at its maximum.

    Args:
        is_plain: yield only requests with long arrays of meaningless values.
        items: length of long arrays.
    """
    entity_type = request_type(api_key, version)
    shapes = _plain_shapes(entity_type, items)
    if not is_plain:
        flavoured = _flavoured_shapes(api_key, entity_type, items)
        shapes = chain(shapes, flavoured, _odd_shapes(entity_type, items))
    for name, shape in shapes:
        yield Request(api_key, version, name, partial(_body, entity_type, shape))


def acl_requests(version: int) -> Iterator[Request]:
    """Yield requests whose work depends on the ACLs; created ACLs are deleted again."""

    def request(api_key: ApiKey, name: str, values: Values, **counts: int) -> Request:
        make_body = partial(_body, request_type(api_key, version), _Shape(counts, values))
        return Request(api_key, version, name, make_body)

    matching = {
        **OPEN_FILTER,
        "pattern_type_filter": PatternType.MATCH,
        "resource_name_filter": "topic-1",
    }
    yield request(ApiKey.DESCRIBE_ACLS, EVERY_ACL, OPEN_FILTER)
    yield request(ApiKey.DESCRIBE_ACLS, "ACLs of a topic", matching)
    yield request(
        ApiKey.DESCRIBE_ACLS, "ACLs of one operation", {**OPEN_FILTER, "operation": Operation.READ}
    )
    created = request(ApiKey.CREATE_ACLS, f"{ITEMS} new ACLs", CREATED, creations=ITEMS)
    yield created
    yield replace(created, name=f"{ITEMS} present ACLs")
    same = {**CREATED, "resource_name": "created-0"}
    yield request(ApiKey.CREATE_ACLS, f"{3 * ITEMS} equal ACLs", same, creations=3 * ITEMS)
    other = {**CREATED, "principal": "User:other"}
    yield request(ApiKey.CREATE_ACLS, "too many new ACLs", other, creations=REQUEST_ITEMS_MAX + 100)
    yield request(ApiKey.DELETE_ACLS, EVERY_ACL, OPEN_FILTER)
    yield request(
        ApiKey.DELETE_ACLS, f"every ACL {OPEN_FILTERS} times", OPEN_FILTER, filters=OPEN_FILTERS
    )
    narrow = {**OPEN_FILTER, "resource_name_filter": numbered("created-")}
    yield request(
        ApiKey.DELETE_ACLS, f"{NARROW_FILTERS} single ACLs", narrow, filters=NARROW_FILTERS
    )
    yield request(ApiKey.DELETE_ACLS, f"some {ITEMS} ACLs", OF_CREATED)
    yield _expecting_offset(created, "that expect an old state")
    yield _expecting_offset(
        request(ApiKey.DELETE_ACLS, f"{ITEMS} ACLs", OF_CREATED, filters=ITEMS),
        "that expect an old state",
    )


def _expecting_offset(request: Request, name: str) -> Request:
    """Return the request with our tagged field: no ACL may have changed after offset 0."""

    def make_body() -> bytes:
        tag = primitives.unsigned_varint(OFFSET_TAG)
        return request.make_body().removesuffix(NO_TAGS) + b"\x01" + tag + b"\x08" + bytes(8)

    return replace(request, name=f"{request.name} {name}", make_body=make_body)


def credential_requests() -> Iterator[Request]:
    """Yield requests whose work depends on the users; created users are deleted again."""

    def request(api_key: ApiKey, name: str, values: Values, **counts: int) -> Request:
        make_body = partial(_body, request_type(api_key, 0), _Shape(counts, values))
        return Request(api_key, 0, name, make_body)

    alter, describe = ApiKey.ALTER_USER_SCRAM_CREDENTIALS, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS
    yield request(alter, f"{ITEMS} new users", USERS, deletions=0, upsertions=ITEMS)
    yield request(describe, "every user", {"users": None})
    yield request(describe, f"{ITEMS} users", USERS, users=ITEMS)
    yield request(alter, f"{ITEMS} deleted users", USERS, deletions=ITEMS, upsertions=0)


def _plain_shapes(entity_type: type[Entity], items: int) -> Iterator[tuple[str, _Shape]]:
    arrays = [*_arrays(entity_type)]
    for path in arrays:
        yield f"{items} {path}", _Shape({path: items})
    if not arrays:
        yield "one of each", _Shape()


def _flavoured_shapes(
    api_key: ApiKey, entity_type: type[Entity], items: int
) -> Iterator[tuple[str, _Shape]]:
    square = min(100, items)
    for flavour, values in FLAVOURS.get(api_key, {}).items():
        yield f"one of each ({flavour})", _Shape(values=values)
        for path in _arrays(entity_type):
            yield f"{items} {path} ({flavour})", _Shape({path: items}, values)
            if parent := path.rpartition(".")[0]:
                counts = {parent: square, path: square}
                yield f"{square} x {square} {path} ({flavour})", _Shape(counts, values)


def _odd_shapes(entity_type: type[Entity], items: int) -> Iterator[tuple[str, _Shape]]:
    """Yield shapes that are empty, have long texts or many tags, or one item too many."""
    arrays = [*_arrays(entity_type)]
    yield "nothing", _Shape(dict.fromkeys(arrays, 0))
    yield "long texts", _Shape(text_bytes=STRING_BYTES_MAX)
    for path in arrays:
        long = _Shape({path: LONG_TEXTS}, text_bytes=STRING_BYTES_MAX)
        yield f"{LONG_TEXTS} {path} of long texts", long
        if items == REQUEST_ITEMS_MAX:
            yield f"{items + 1} {path}", _Shape({path: items + 1})
        if entity_type.__flexible__:
            tagged = _Shape({path: TAGGED_ITEMS}, tags=TAGS_MAX)
            yield f"{TAGGED_ITEMS} {path} of {TAGS_MAX} tags", tagged


def enveloped(request: Request, version: int, principal: str) -> Request:
    """Return the Envelope with which a broker forwards a request of ``principal``."""

    def make_body() -> bytes:
        parts = (request.frame()[4:], encode_principal(principal), _ADDRESS)
        return b"".join(body_reader.byte_string(each, flexible=True) for each in parts) + NO_TAGS

    return Request(ApiKey.ENVELOPE, version, f"of {request}", make_body)


def is_forwardable(api_key: ApiKey) -> bool:
    return APIS[api_key].name in FORWARDABLE


def _arrays(entity_type: type[Entity], parent: str = "") -> Iterator[str]:
    """Yield the path of each array of a message, outermost first."""
    for declared in fields(entity_type):
        item_type, is_array, _ = type_of(declared)
        path = f"{parent}{declared.name}"
        if is_array:
            yield path
        if is_dataclass(item_type):
            yield from _arrays(cast("type[Entity]", item_type), f"{path}.")


def small_bodies(entity_type: type[Entity]) -> Iterator[bytes]:
    """Yield short messages of any type, also of answers: with one, no and two items of each array,
    and with unknown tags.
    """
    arrays = [*_arrays(entity_type)]
    yield _body(entity_type, _Shape())
    yield _body(entity_type, _Shape(dict.fromkeys(arrays, 0)))
    yield _body(entity_type, _Shape(dict.fromkeys(arrays, 2), tags=2))


def _body(entity_type: type[Entity], shape: _Shape) -> bytes:
    """Return the bytes of a message."""
    return _of_number(_entity(entity_type, shape, ""), 0)


_Parts: TypeAlias = list[bytes | Callable[[int], bytes]]
"""The bytes of a structure, or functions that make them from the number of the item."""


def _of_number(parts: _Parts, number: int) -> bytes:
    return b"".join([part if isinstance(part, bytes) else part(number) for part in parts])


def _entity(entity_type: type[Entity], shape: _Shape, parent: str) -> _Parts:
    flexible = entity_type.__flexible__
    parts: _Parts = []
    tags: list[bytes] = []
    for declared in fields(entity_type):
        field_parts = _field(declared, shape, f"{parent}{declared.name}", flexible)
        tag = declared.metadata.get("tag")
        if tag is None:
            parts += field_parts
        else:
            data = _of_number(field_parts, 0)
            tags.append(
                primitives.unsigned_varint(tag) + primitives.unsigned_varint(len(data)) + data
            )
    if flexible:
        unknown = range(_UNKNOWN_TAG, _UNKNOWN_TAG + shape.tags - len(tags))
        tags += [primitives.unsigned_varint(tag) + b"\1x" for tag in unknown]
        parts.append(primitives.unsigned_varint(len(tags)) + b"".join(tags))
    return parts


def _field(declared: Field[Any], shape: _Shape, path: str, flexible: bool) -> _Parts:
    item_type, is_array, _ = type_of(declared)
    if not is_array:
        return _item(declared, item_type, shape, path, flexible)
    if _value_of(declared, shape) is None:
        return [body_reader.array_length(None, flexible=flexible)]
    count = shape.counts.get(path, 1)
    item = _item(declared, item_type, shape, path, flexible)
    items = b"".join([_of_number(item, number) for number in range(count)])
    return [body_reader.array_length(count, flexible=flexible) + items]


def _item(
    declared: Field[Any],
    item_type: Any,  # noqa: ANN401 - any type of kio
    shape: _Shape,
    path: str,
    flexible: bool,
) -> _Parts:
    if is_dataclass(item_type):
        return _entity(cast("type[Entity]", item_type), shape, f"{path}.")
    kafka_type = declared.metadata["kafka_type"]
    value = _value_of(declared, shape)
    if value is ... and kafka_type in ("string", "bytes", "records"):
        value = numbered("t")
    write = partial(_encode, kafka_type, shape.text_bytes, flexible)
    return [lambda number: write(value(number))] if callable(value) else [write(value)]


def _value_of(declared: Field[Any], shape: _Shape) -> Value:
    """Return the shape's value of a field, or ``...``."""
    return shape.values.get(declared.name, _PLAIN.get(declared.name, ...))


def _encode(kafka_type: str, text_bytes: int, flexible: bool, value: Any) -> bytes:  # noqa: ANN401
    if isinstance(value, str):
        value = value.ljust(text_bytes, "x") if kafka_type == "string" else value.encode()
    elif value in (None, ...):
        value = None if kafka_type in ("string", "bytes", "records", "uuid") else 0
    return encode_value(kafka_type, value, flexible)
