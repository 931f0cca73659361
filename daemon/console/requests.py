"""Read a console request: its cookie, its form, and the site that caused it."""

from __future__ import annotations

from typing import Final

from authorizerd.protocol.decisions.acl_filters import QueryError, parse_query
from authorizerd.protocol.http.messages import Request

COOKIE: Final = "authorizerd_console"
SECURE_COOKIE: Final = f"__Secure-{COOKIE}"
"""The name with TLS: browsers let only servers with TLS set a cookie with this prefix."""
_FORM_TYPE: Final = b"application/x-www-form-urlencoded"
_OWN_SITES: Final = (b"same-origin", b"none")
"""The console's own pages, and the browser's address bar or bookmarks."""


def find_session_secret(request: Request, cookie: str) -> str | None:
    """Return the value of a cookie, or None. The last one counts if there are several."""
    found = None
    for pair in request.headers.get(b"cookie", b"").split(b";"):
        name, _, value = pair.strip(b" \t").partition(b"=")
        if name == cookie.encode():
            found = value.decode("ascii", "replace")
    return found


def is_foreign(request: Request) -> bool:
    """Return True if a page of another site caused the request.

    Browsers send Sec-Fetch-Site. Older browsers send at least the Origin of a POST request. A
    program sends neither.

    Source: W3C Fetch Metadata Request Headers.
    """
    site = request.headers.get(b"sec-fetch-site")
    if site is not None:
        return site not in _OWN_SITES
    origin = request.headers.get(b"origin")
    return origin is not None and origin.partition(b"://")[2] != request.headers.get(b"host")


def is_refused_as_foreign(request: Request) -> bool:
    """Return True if a page of another site must not cause this request (CSRF).

    Another site may link to a page of the console: a link without a query asks nothing, so runbooks
    can have such links.
    """
    if not is_foreign(request):
        return False
    is_link = request.headers.get(b"sec-fetch-mode") == b"navigate"
    return not (is_link and request.method == "GET" and not request.query)


def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form that was sent by POST.

    Raises:
        QueryError: the body is not a form in UTF-8, or names a field twice.
    """
    content_type = request.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if content_type != _FORM_TYPE:
        raise QueryError(f"Content-Type must be {_FORM_TYPE.decode()}")
    try:
        return parse_query(request.body.decode("ascii"))
    except UnicodeDecodeError:
        raise QueryError("expected a percent-encoded form") from None
