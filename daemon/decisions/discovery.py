"""AuthZEN's discovery on the decision port. It needs no credentials, and reveals only addresses.

Source: OpenID AuthZEN Authorization API 1.0, section 9 (Policy Decision Point Metadata).
"""

from __future__ import annotations

from typing import Final

from authorizerd.protocol.decisions.discovery import base_url_of, encode_metadata
from authorizerd.protocol.http.messages import (
    JSON,
    NO_STORE,
    Request,
    Response,
    method_not_allowed,
    text_response,
)

_CACHED: Final = ((b"Cache-Control", b"max-age=3600"),)
"""A cache that ignores Host could give others a wrong URL, to which they would send tokens."""


class DiscoveryHandler:
    """Answer discovery requests.

    Args:
        base_url: the URL at which clients reach the port, without a trailing slash. If it is empty,
            each answer has the URL that its client used.
        is_tls: True if the port has TLS.
        has_searches: True if the port serves searches.
    """

    def __init__(self, base_url: str, *, is_tls: bool, has_searches: bool) -> None:
        self._base_url: Final = base_url
        self._is_tls: Final = is_tls
        self._has_searches: Final = has_searches

    async def __call__(self, request: Request) -> Response:
        """Answer one request."""
        if request.method not in ("GET", "HEAD"):
            return method_not_allowed(b"GET, HEAD")
        host = request.headers.get(b"host")
        base_url = self._base_url or base_url_of(host, is_tls=self._is_tls)
        if base_url is None:
            return text_response(400, "Host: expected the host and port of this server")
        body = encode_metadata(base_url, has_searches=self._has_searches)
        headers = _CACHED if self._base_url else NO_STORE
        return Response(status=200, body=body, content_type=JSON, headers=headers)
