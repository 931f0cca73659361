"""Messages as kio's own classes read and write them."""

from __future__ import annotations

import io
from importlib import import_module
from types import ModuleType

from kio.index import load_request_schema, load_response_schema
from kio.schema.api_versions import v4
from kio.schema.envelope import v0
from kio.serial import entity_reader, entity_writer
from kio.static.protocol import Entity

from tests.support import acls_v0, api_versions_v5

_REQUESTS_KIO_LACKS: dict[tuple[int, int], type[Entity]] = {
    (29, 0): acls_v0.DescribeAclsRequest,
    (30, 0): acls_v0.CreateAclsRequest,
    (31, 0): acls_v0.DeleteAclsRequest,
    (58, 1): v0.EnvelopeRequest,
    (18, 5): api_versions_v5.ApiVersionsRequest,
}
_RESPONSES_KIO_LACKS: dict[tuple[int, int], type[Entity]] = {
    (29, 0): acls_v0.DescribeAclsResponse,
    (30, 0): acls_v0.CreateAclsResponse,
    (31, 0): acls_v0.DeleteAclsResponse,
    (58, 1): v0.EnvelopeResponse,
    (18, 5): v4.ApiVersionsResponse,
}


def request_type(api_key: int, version: int) -> type[Entity]:
    """Return kio's class of a request."""
    return _REQUESTS_KIO_LACKS.get((api_key, version)) or load_request_schema(api_key, version)


def response_type(api_key: int, version: int) -> type[Entity]:
    """Return kio's class of a response."""
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
