"""The largest pages of the console, as requests of a visitor with a token."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import urlencode

from authorizerd.daemon.endpoints import ADMIN_HTTP
from authorizerd.management.formats.listing import write
from tests.loop.http_requests import BODY_BYTES, HttpRequest, get
from tests.support.acls import acl

_TOPIC = {"resource_type": "TOPIC", "operation": "READ"}
_PAGES: tuple[tuple[str, dict[str, str]], ...] = (
    ("", {}),
    ("explain", {**_TOPIC, "principal": "User:alice", "resource_name": "topic-7"}),
    ("explain", {**_TOPIC, "principal": "User:eve", "resource_name": "orders"}),
    ("who", {**_TOPIC, "resource_name": "orders"}),
    ("who", {**_TOPIC, "resource_name": "orders", "search": "9", "order": "descending"}),
    ("what", {**_TOPIC, "principal": "User:alice", "page": "9"}),
    ("what", {**_TOPIC, "principal": "User:alice", "resource_name": "orders"}),
    ("who.csv", {**_TOPIC, "resource_name": "orders"}),
    (
        "history",
        {**_TOPIC, "principal": "User:alice", "resource_name": "topic-7", "as_of": "100000"},
    ),
    ("live", {}),
    ("changes", {"since": "0"}),
    ("changes", {"since": "100000"}),
    ("verify", {}),
    ("matrix", {}),
    ("matrix", {"principal": "User:u"}),
    ("reach", {"principal": "User:alice"}),
    ("risks", {}),
    ("acls", {}),
    ("acls", {"search": "topic-9", "sort": "resource_name", "page": "100"}),
    ("acls", {"search": "no such text"}),
    ("acls.csv", {}),
    ("static/console.css", {}),
)


CANDIDATES: Final = 600
"""As many as fit into a form of the usual size."""


def _candidates(token: str) -> bytes:
    acls = [acl(f"User:u{number}", topic=f"topic-{number}") for number in range(CANDIDATES)]
    body = urlencode({"mode": "replace", "acls": write(acls).text}).encode()
    assert len(body) < BODY_BYTES
    head = [
        "POST /console/plan HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/x-www-form-urlencoded",
        f"Content-Length: {len(body)}",
        f"Authorization: Bearer {token}",
        "Connection: close",
    ]
    return "\r\n".join([*head, "", ""]).encode() + body


def console_requests(token: str) -> Iterator[HttpRequest]:
    """Yield a request for each page and file, with much to show."""
    for name, fields in _PAGES:
        path = f"/console/{name}?{urlencode(fields)}"
        yield HttpRequest(ADMIN_HTTP, path, get(path, token=token))
    yield HttpRequest(ADMIN_HTTP, f"/console/plan: {CANDIDATES} ACLs", _candidates(token))
