"""The OpenAPI documents of the ports, and their endpoints."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

from authorizerd.daemon.http.api_document import ADMIN_API, DECISION_API


@dataclass(frozen=True)
class Endpoint:
    """A path of a port.

    Attributes:
        example: a body that is answered with status 200.
        statuses: those that its handler gives, not only the server.
        is_open: True if callers need no credentials.
    """

    path: str
    methods: tuple[str, ...]
    example: Mapping[str, Any] | None
    statuses: frozenset[int]
    is_open: bool


def read_document(name: str) -> bytes:
    """Return the document of a port with any settings."""
    return (files("authorizerd.daemon.http") / name).read_bytes()


def _list_endpoints(name: str) -> Iterator[Endpoint]:
    for path, operations in json.loads(read_document(name))["paths"].items():
        operation = next(iter(operations.values()))
        body = operation.get("requestBody", {"content": {"application/json": {}}})
        yield Endpoint(
            path,
            tuple(method.upper() for method in operations),
            body["content"]["application/json"].get("example"),
            frozenset(
                int(status) for status, each in operation["responses"].items() if "$ref" not in each
            ),
            is_open=not operation["security"],
        )


DECISION_ENDPOINTS: Final = tuple(_list_endpoints(DECISION_API))
ADMIN_ENDPOINTS: Final = tuple(_list_endpoints(ADMIN_API))
