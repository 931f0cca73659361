"""The handlers of the decision port, by path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from authorizerd.protocol.http.messages import Request, Response, Route, text_response
from authorizerd.protocol.http.streamed import StreamedResponse


class PathHandler(Protocol):
    """The handler of some paths."""

    async def __call__(self, request: Request) -> Response | StreamedResponse:
        """Answer one request."""

    def route(self, request: Request) -> Route | None:
        """Return what answers requests with this head at once; see ``HttpServer``."""


class PathsHandler:
    """Pass on each request to the handler of its path.

    Args:
        by_path: handlers of single paths.
        below: handlers of all paths that begin with a text.
    """

    def __init__(
        self, by_path: Mapping[str, PathHandler], below: Mapping[str, PathHandler]
    ) -> None:
        self._by_path: Final = dict(by_path)
        self._below: Final = tuple(below.items())
        known = ", ".join((*by_path, *(f"{start}/…" for start in below)))
        self.paths: Final = (*by_path, *below)
        self._unknown: Final = text_response(
            404,
            f"no such path: expected one of {known}; metrics, health and console are on the port of"
            " authorizerd.admin.http",
        )

    async def __call__(self, request: Request) -> Response | StreamedResponse:
        """Answer one request, with 404 if its path is unknown."""
        handler = self._find(request.path)
        return self._unknown if handler is None else await handler(request)

    def route(self, request: Request) -> Route | None:
        """Return what answers requests with this head at once; see ``HttpServer``."""
        handler = self._find(request.path)
        return None if handler is None else handler.route(request)

    def _find(self, path: str) -> PathHandler | None:
        handler = self._by_path.get(path)
        if handler is not None:
            return handler
        return next((each for start, each in self._below if path.startswith(start)), None)
