"""Messages as kio's own classes read and write them."""

from __future__ import annotations

import io
from importlib import import_module
from types import ModuleType

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer
from kio.static.protocol import Entity


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
