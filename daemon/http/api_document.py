"""The OpenAPI document of one port, served at /openapi.json."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import trio

from authorizerd.daemon.threads import run_in_thread
from authorizerd.protocol.http.endpoints import GET, JSON, Endpoint
from authorizerd.protocol.http.messages import Request, Response, Route, method_not_allowed
from authorizerd.protocol.http.openapi import describe_port


class ApiDocument:
    """Answer requests for the document of one port.

    The document is made when it is first asked for, in a thread, because most daemons never need
    it, and making it takes longer than one turn of the event loop may.

    Args:
        accepted: returns the names in ``SCHEMES`` that the port accepts now; a reload may add one.
    """

    def __init__(
        self,
        title: str,
        description: str,
        endpoints: Sequence[Endpoint],
        accepted: Callable[[], frozenset[str]],
    ) -> None:
        self._describe: Final = partial(describe_port, title, description, endpoints)
        self._accepted: Final = accepted
        self._documents: Final[dict[frozenset[str], bytes]] = {}
        self._lock: Final = trio.Lock()

    async def __call__(self, request: Request) -> Response:
        """Answer one request."""
        if request.method not in GET:
            return method_not_allowed(", ".join(GET).encode())
        accepted = self._accepted()
        async with self._lock:  # or many first requests would each start a thread
            document = self._documents.get(accepted)
            if document is None:
                document = await run_in_thread(self._describe, accepted)
                self._documents[accepted] = document
        return Response(status=200, body=document, content_type=JSON)

    def route(self, request: Request) -> Route | None:
        """Return None: no request for the document is answered at once."""
        return None
