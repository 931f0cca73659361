"""Requests to the console, and its sessions."""

import pytest
import trio
import trio.testing

from authorizerd.daemon.console.requests import (
    COOKIE,
    find_session_secret,
    is_refused_as_foreign,
    read_form,
)
from authorizerd.daemon.console.sessions import (
    IDLE_SECONDS,
    SECONDS_MAX,
    SESSIONS_MAX,
    SESSIONS_PER_TOKEN_MAX,
    Sessions,
)
from authorizerd.protocol.decisions.acl_filters import QueryError
from authorizerd.protocol.http.messages import Request
from tests.support.requests import http_request

pytestmark = pytest.mark.usefixtures("autojump_clock")


def request(method: str = "GET", query: str = "", body: bytes = b"", **headers: str) -> Request:
    lines = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    lines[b"host"] = b"localhost:8182"
    return http_request("/console/", body, method=method, query=query, headers=lines)


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


async def test_session_is_found_by_its_secret_only() -> None:
    sessions = Sessions(trio.current_time)
    one, other = sessions.open(b"a.token"), sessions.open(b"b.token")
    assert (sessions.find(one), sessions.find(other)) == (b"a.token", b"b.token")
    assert len({one, other, sessions.open(b"a.token")}) == 3
    for wrong in ("", one[:-1], one + "A", "ä", "a.token"):
        assert sessions.find(wrong) is None
        sessions.close(wrong)
    sessions.close(one)
    assert (sessions.find(one), sessions.find(other)) == (None, b"b.token")


async def test_idle_session_ends() -> None:
    sessions = Sessions(trio.current_time)
    used, idle = sessions.open(b"a"), sessions.open(b"b")
    await trio.sleep(IDLE_SECONDS - 1)
    assert sessions.find(used) == b"a"
    await trio.sleep(1)
    assert (sessions.find(used), sessions.find(idle)) == (b"a", None)


async def test_used_session_ends_after_its_longest_time() -> None:
    sessions = Sessions(trio.current_time)
    secret, begun = sessions.open(b"a"), trio.current_time()
    while trio.current_time() < begun + SECONDS_MAX:
        assert sessions.find(secret) == b"a"
        await trio.sleep(IDLE_SECONDS / 2)
    assert sessions.find(secret) is None


async def test_new_session_ends_the_least_used_of_its_token() -> None:
    sessions = Sessions(trio.current_time)
    other = sessions.open(b"other")
    secrets = [sessions.open(b"a") for _ in range(SESSIONS_PER_TOKEN_MAX)]
    assert sessions.find(secrets[0]) == b"a"
    sessions.open(b"a")
    assert [sessions.find(each) for each in secrets[:3]] == [b"a", None, b"a"]
    assert sessions.find(other) == b"other"


async def test_number_of_sessions_is_bounded() -> None:
    sessions = Sessions(trio.current_time)
    secrets = [sessions.open(b"%d" % number) for number in range(SESSIONS_MAX + 1)]
    assert len(sessions) == SESSIONS_MAX
    assert sessions.find(secrets[0]) is None
    assert sessions.find(secrets[1]) == b"1"
    await trio.sleep(IDLE_SECONDS)
    sessions.open(b"a")
    assert len(sessions) == 1
