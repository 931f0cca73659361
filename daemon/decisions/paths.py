"""The handlers of the decision port, by path."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Final

from authorizerd.protocol.http.messages import Request, text_response
from authorizerd.protocol.http.streamed import AnyResponse, Handler


class PathsHandler:
    """Passes each request to the handler of its path.

    Args:
        by_path: handlers of single paths.
        below: handlers by path prefix.
    """

    def __init__(self, by_path: Mapping[str, Handler], below: Mapping[str, Handler]) -> None:
        self._by_path: Final = dict(by_path)
        self._below: Final = tuple(below.items())
        known = ", ".join((*by_path, *(f"{start}/…" for start in below)))
        self.paths: Final = (*by_path, *below)
        self._unknown: Final = text_response(
            404,
            f"no such path: expected one of {known}; metrics, health and console are on the port of"
            " authorizerd.admin.http",
        )

    def __call__(self, request: Request) -> AnyResponse | Awaitable[AnyResponse]:
        """Answer one request, with 404 if its path is unknown; see ``Handler``."""
        handler = self._by_path.get(request.path)
        if handler is not None:
            return handler(request)
        for start, below in self._below:
            if request.path.startswith(start):
                return below(request)
        return self._unknown
