"""Messages as kio's own classes read and write them."""

import io
from dataclasses import field, fields, make_dataclass
from importlib import import_module
from types import GenericAlias, ModuleType
from typing import Any, get_args, get_origin

from kio.index import load_request_schema, load_response_schema
from kio.schema.api_versions import v4
from kio.schema.envelope import v0
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16
from kio.static.protocol import Entity

from tests.support import api_versions_v5

ACL_APIS = (29, 30, 31)


def in_version_0(entity: Any) -> Any:  # noqa: ANN401 - a class of kio
    """Return version 0 of an ACL message (KIP-290): every pattern is LITERAL."""
    kept = []
    for each in fields(entity):
        kind: Any = each.type
        if get_origin(kind) is tuple:
            kind = GenericAlias(tuple, (in_version_0(get_args(kind)[0]), ...))
        if "pattern_type" not in each.name:
            kept.append((each.name, kind, field(metadata=each.metadata)))
    names = ("__type__", "__flexible__", "__api_key__", "__header_schema__")
    constants = {name: getattr(entity, name) for name in names if hasattr(entity, name)}
    return make_dataclass(
        entity.__name__, kept, namespace=constants | {"__version__": i16(0)},
        frozen=True, slots=True, kw_only=True,
    )  # fmt: skip


_REQUESTS_KIO_LACKS: dict[tuple[int, int], type[Entity]] = {
    **{(key, 0): in_version_0(load_request_schema(key, 1)) for key in ACL_APIS},
    (58, 1): v0.EnvelopeRequest,
    (18, 5): api_versions_v5.ApiVersionsRequest,
}
_RESPONSES_KIO_LACKS: dict[tuple[int, int], type[Entity]] = {
    **{(key, 0): in_version_0(load_response_schema(key, 1)) for key in ACL_APIS},
    (58, 1): v0.EnvelopeResponse,
    (18, 5): v4.ApiVersionsResponse,
}


def request_type(api_key: int, version: int) -> type[Entity]:
    return _REQUESTS_KIO_LACKS.get((api_key, version)) or load_request_schema(api_key, version)


def response_type(api_key: int, version: int) -> type[Entity]:
    return _RESPONSES_KIO_LACKS.get((api_key, version)) or load_response_schema(api_key, version)


def response_module(api_key: int, version: int) -> ModuleType:
    """Return the module with the classes of a response, nested ones included."""
    return import_module(load_response_schema(api_key, version).__module__)


def written_by_kio(entity: Entity) -> bytes:
    with io.BytesIO() as written:
        entity_writer(type(entity))(written, entity)
        return written.getvalue()


def read_by_kio(api_key: int, version: int, body: bytes) -> Entity:
    """Return the request in ``body``, which must be exactly one."""
    request, size = entity_reader(load_request_schema(api_key, version))(body, 0)
    assert size == len(body)
    return request
