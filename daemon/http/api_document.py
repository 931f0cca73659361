"""The OpenAPI documents of the ports, served at /openapi.json.

A document is a file next to this module that describes a port under all settings. Its
``x-if-all-trusted`` is a JSON merge patch (RFC 7396) for a port that requires no credentials.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from importlib.resources import files
from typing import Any, Final

import msgspec
import trio

from authorizerd.daemon.process.threads import run_in_thread
from authorizerd.protocol.http.messages import (
    GET,
    JSON,
    Request,
    Response,
    method_not_allowed,
)

OPENAPI_PATH: Final = "/openapi.json"
DECISION_API: Final = "openapi.json"
ADMIN_API: Final = "openapi-admin.json"


class ApiDocument:
    """Answer requests for the document of one port.

    The document is built on the first request, in a thread, because most daemons never need it, and
    building it takes longer than one turn of the event loop may take.

    Args:
        name: the file, DECISION_API or ADMIN_API.
        accepted: returns the security schemes that the port accepts now; a reload may add one.
    """

    def __init__(self, name: str, accepted: Callable[[], frozenset[str]]) -> None:
        self._name: Final = name
        self._accepted: Final = accepted
        self._documents: Final[dict[frozenset[str], bytes]] = {}
        self._lock: Final = trio.Lock()

    async def __call__(self, request: Request) -> Response:
        """Answer one request."""
        if request.method not in GET:
            return method_not_allowed(", ".join(GET).encode())
        accepted = self._accepted()
        async with self._lock:  # otherwise many first requests would each start a thread
            document = self._documents.get(accepted)
            if document is None:
                document = await run_in_thread(describe_port, self._name, accepted)
                self._documents[accepted] = document
        return Response(status=200, body=document, content_type=JSON)


def describe_port(name: str, accepted: Collection[str]) -> bytes:
    """Return the document of a port that accepts these security schemes, as compact JSON.

    Args:
        accepted: empty if the port trusts all callers.
    """
    document = msgspec.json.decode((files(__package__) / name).read_bytes())
    patch = document.pop("x-if-all-trusted", {})
    if not accepted:
        _merge(document, patch)
    for operations in document["paths"].values():
        for operation in operations.values():
            alternatives = operation["security"]
            operation["security"] = [
                alternative for alternative in alternatives if alternative.keys() & accepted
            ]
    return msgspec.json.encode(document)


def _merge(target: dict[str, Any], patch: Mapping[str, Any]) -> None:
    for key, value in patch.items():
        if value is None:
            del target[key]
        elif isinstance(value, dict):
            _merge(target[key], value)
        else:
            target[key] = value
