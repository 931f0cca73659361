from __future__ import annotations

import pytest

from authorizerd.daemon.console.requests import (
    COOKIE,
    find_session_secret,
    is_refused_as_foreign,
    read_form,
)
from authorizerd.protocol.decisions.acl_filters import QueryError
from authorizerd.protocol.http.messages import Request


def request(method: str = "GET", query: str = "", body: bytes = b"", **headers: str) -> Request:
    lines = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    return Request(
        method=method,
        path="/console/",
        query=query,
        headers={b"host": b"localhost:8182"} | lines,
        body=body,
        keep_alive=True,
    )


@pytest.mark.parametrize(
    ("refused", "asked"),
    [
        (False, request()),
        (False, request("POST")),
        (False, request("POST", sec_fetch_site="same-origin")),
        (False, request("GET", "a=b", sec_fetch_site="none")),
        (False, request("GET", sec_fetch_site="cross-site", sec_fetch_mode="navigate")),
        (False, request("POST", origin="https://localhost:8182")),
        (True, request("GET", "a=b", sec_fetch_site="cross-site", sec_fetch_mode="navigate")),
        (True, request("POST", sec_fetch_site="cross-site", sec_fetch_mode="navigate")),
        (True, request("GET", sec_fetch_site="cross-site", sec_fetch_mode="no-cors")),
        (True, request("GET", sec_fetch_site="same-site")),
        (True, request("POST", sec_fetch_site="cross-site", origin="https://localhost:8182")),
        (True, request("POST", origin="https://evil.example")),
        (True, request("POST", origin="null")),
        (True, request("POST", origin="http://localhost:9999")),
    ],
)
def test_pages_of_other_sites_may_only_link_to_pages(refused: bool, asked: Request) -> None:
    assert is_refused_as_foreign(asked) == refused


@pytest.mark.parametrize(
    ("cookie", "secret"),
    [
        ("", None),
        ("other=x", None),
        ("xauthorizerd_console=x", None),
        ("authorizerd_console=x", "x"),
        ("a=b; authorizerd_console=x; c=d", "x"),
        ("authorizerd_console=x; authorizerd_console=y", "y"),
        ("authorizerd_console=ä", "\ufffd\ufffd"),
    ],
)
def test_session_secret_is_read_from_its_cookie(cookie: str, secret: str | None) -> None:
    assert find_session_secret(request(cookie=cookie), COOKIE) == secret


def test_form_is_read() -> None:
    sent = request(
        "POST",
        body=b"token=a%2Eb+c&x=%E2%82%AC",
        content_type="application/x-www-form-urlencoded; charset=utf-8",
    )
    assert read_form(sent) == {"token": "a.b c", "x": "€"}


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("text/plain", b"a=b"),
        ("application/json", b"a=b"),
        ("application/x-www-form-urlencoded", b"a=b&a=c"),
        ("application/x-www-form-urlencoded", b"a=%ff"),
        ("application/x-www-form-urlencoded", b"a=\xff"),
    ],
)
def test_invalid_form_is_rejected(content_type: str, body: bytes) -> None:
    with pytest.raises(QueryError):
        read_form(request("POST", body=body, content_type=content_type))
