"""Login, rights, methods and headers; tests/end_to_end/test_console.py uses a real daemon."""

import re
from pathlib import Path

import pytest
import trio
import trio.testing

from authorizerd.config.configuration import parse
from authorizerd.daemon.console.requests import COOKIE
from authorizerd.daemon.console.sessions import FAILED_AT_ONCE_MAX, FAILED_SECONDS
from authorizerd.daemon.console.setup import ACLS_ONLY
from authorizerd.protocol.http.messages import Request, Response
from authorizerd.protocol.http.streamed import complete
from tests.daemon.console.console_place import (
    ACLS,
    CONFIGURATION,
    EXPLAIN,
    FORM,
    OWN_SITE,
    PLAN,
    ConsolePlace,
)
from tests.daemon.decision_place import PROXY, entry
from tests.support.acls import acl
from tests.support.requests import http_request

QUESTION = {
    "principal": "User:alice",
    "operation": "READ",
    "resource_type": "TOPIC",
    "resource_name": "orders",
}
ALICE = acl("User:alice", "READ", topic="orders")


@pytest.fixture
async def place(tmp_path: Path) -> ConsolePlace:
    return ConsolePlace(tmp_path, ALICE)


async def test_visitor_without_token_only_gets_the_log_in_form(place: ConsolePlace) -> None:
    for path in ("/console/", EXPLAIN, "/console/other"):
        status, page = await place.get(path, **QUESTION)
        assert status == 401
        assert 'action="/console/login"' in page
        assert "<nav" not in page
        assert "decision" not in page.replace("decision port", "")
    _, page = await place.get(EXPLAIN, principal="User:a")
    assert 'value="/console/explain?principal=User%3Aa"' in page


async def test_session_has_the_rights_of_its_token(place: ConsolePlace) -> None:
    place.grant(search=PROXY)
    query = "principal=User:alice&operation=READ&resource_type=TOPIC&resource_name=orders"
    for caller, status, shown in (
        ("root", 200, "Allowed"),
        ("proxy", 200, "Allowed"),
        ("other", 403, "User:other may not get explanations, which show ACLs of others"),
    ):
        cookie = await place.open_session(caller)
        answer = await place.send("GET", EXPLAIN, query, headers={"cookie": cookie})
        assert isinstance(answer, Response)
        assert answer.status == status
        assert shown in answer.body.decode()
        assert f"Logged in as <bdi>User:{'a proxy' if caller == 'proxy' else caller}</bdi>" in (
            answer.body.decode()
        )


async def test_trusted_visitor_needs_no_log_in() -> None:
    place = ConsolePlace(None, ALICE)
    status, page = await place.get(EXPLAIN, **QUESTION)
    assert status == 200
    assert "this port trusts everyone on its machine" in page
    assert (await place.log_in("any")).status == 303


async def test_client_certificate_identifies_the_visitor(place: ConsolePlace) -> None:
    query = "principal=User:alice&operation=READ&resource_type=TOPIC&resource_name=orders"
    for principal, status in (("User:root", 200), ("User:nobody", 403)):
        answer = await place.send("GET", EXPLAIN, query, principal=principal)
        assert isinstance(answer, Response)
        assert answer.status == status
        assert f"Logged in as <bdi>{principal}</bdi>".encode() in answer.body


async def test_removed_token_ends_its_sessions(place: ConsolePlace) -> None:
    cookie = await place.open_session("root")
    place.rewrite_tokens(entry("other", "User:other"))
    place.callers.prepare_reload()()
    answer = await place.send("GET", EXPLAIN, headers={"cookie": cookie})
    assert answer.status == 401
    place.rewrite_tokens(entry("root", "User:root"))
    place.callers.prepare_reload()()
    assert (await place.send("GET", EXPLAIN, headers={"cookie": cookie})).status == 401


async def test_token_that_ends_during_a_page_leads_to_the_log_in(place: ConsolePlace) -> None:
    cookie = await place.open_session("root")
    identify = place.callers.identify
    callers: list[object] = []

    def forget_later(token: bytes | None, *, certified: str | None = None) -> object:
        is_page = len(callers) < 2  # the session, then the visitor; the decision port comes third
        callers.append(identify(token, certified=certified) if is_page else None)
        return callers[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(place.callers, "identify", forget_later)
        query = "principal=User:a&operation=READ&resource_type=TOPIC&resource_name=t"
        answer = await place.send("GET", EXPLAIN, query, headers={"cookie": cookie})
    assert answer.status == 401
    assert len(callers) == 3


async def test_log_out_ends_the_session(place: ConsolePlace) -> None:
    cookie = await place.open_session("root")
    answer = await place.send("POST", "/console/logout", headers=OWN_SITE | {"cookie": cookie})
    assert answer.status == 303
    assert b"Max-Age=0" in dict(answer.headers)[b"Set-Cookie"]
    assert (await place.send("GET", EXPLAIN, headers={"cookie": cookie})).status == 401


@pytest.mark.parametrize(
    ("target", "location"),
    [
        ("/console/explain?principal=User%3Aa", "/console/explain?principal=User%3Aa"),
        ("/console/", "/console/"),
        ("", "/console/"),
        ("https://evil.example/", "/console/"),
        ("//evil.example/console/", "/console/"),
        ("/console/../metrics", "/console/"),
        ("/console/logout", "/console/"),
        ("/console/explain?a\r\nSet-Cookie: b=c", "/console/"),
    ],
)
async def test_log_in_leads_to_a_console_page(target: str, location: str, tmp_path: Path) -> None:
    answer = await ConsolePlace(tmp_path).log_in("root.secret", target)
    assert dict(answer.headers)[b"Location"].decode() == location


async def test_wrong_tokens_are_slow_and_keep_nobody_out(
    place: ConsolePlace, autojump_clock: trio.testing.MockClock
) -> None:
    answers: list[Response] = []

    async def guess(token: str) -> None:
        answers.append(await place.log_in(token))

    begun = trio.current_time()
    async with trio.open_nursery() as nursery:
        for token in ("root.wrong", "root.", "", "root", "x.secret", "ä.secret", "a" * 200, "."):
            nursery.start_soon(guess, token)
        await trio.testing.wait_all_tasks_blocked()
        assert not answers
        refused = await place.log_in("root.wrong")
        accepted = await place.log_in("root.secret")
    assert trio.current_time() == begun + FAILED_SECONDS
    assert (refused.status, accepted.status) == (429, 303)
    assert [each.status for each in answers] == [401] * FAILED_AT_ONCE_MAX
    assert all(b"not valid" in each.body for each in answers)
    assert not any(b"Set-Cookie" in dict(each.headers) for each in answers)
    assert (await place.log_in("root.wrong")).status == 401


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/console/", 405),
        ("PUT", EXPLAIN, 405),
        ("POST", "/console/static/console.css", 405),
        ("GET", "/console/login", 405),
        ("GET", "/console/logout", 405),
        ("GET", "/console/other", 404),
        ("GET", "/console/static/../handler.py", 404),
        ("HEAD", EXPLAIN, 200),
        ("GET", "/console/static/console.css", 200),
        ("GET", "/console/static/console.js", 200),
        ("GET", "/console/static/icon.svg", 200),
    ],
)
async def test_every_answer_forbids_foreign_code(method: str, path: str, status: int) -> None:
    answer = await ConsolePlace(None).send(method, path, headers=OWN_SITE | FORM)
    assert answer.status == status
    headers = dict(answer.headers)
    policy = headers[b"Content-Security-Policy"].decode()
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers[b"X-Content-Type-Options"] == b"nosniff"
    assert len(headers) == len(answer.headers)
    is_static = "/static/console." in path or "icon.svg" in path
    lasting = is_static and status == 200
    assert headers[b"Cache-Control"] == (b"max-age=31536000, immutable" if lasting else b"no-store")


@pytest.mark.parametrize("path", ["/console/login", "/console/logout", EXPLAIN])
async def test_page_of_another_site_is_refused(path: str, place: ConsolePlace) -> None:
    answer = await place.send(
        "POST",
        path,
        body="token=root.secret",
        headers=FORM | {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"},
    )
    assert answer.status == 403
    assert b"Set-Cookie" not in dict(answer.headers)


async def test_form_of_another_type_is_refused(tmp_path: Path) -> None:
    answer = await ConsolePlace(tmp_path).send(
        "POST", "/console/login", body="token=root.secret", headers=OWN_SITE
    )
    assert answer.status == 400


@pytest.mark.parametrize(
    ("path", "location"), [("/", "/console/"), ("/console", "/console/"), ("/metrics", None)]
)
async def test_console_leaves_other_paths_alone(path: str, location: str | None) -> None:
    async def answer_other(request: Request) -> Response:
        return Response(status=418, body=b"")

    handler = ConsolePlace(None).console.mount(answer_other)
    request = http_request(path, method="GET", headers={})
    answer = await complete(handler(request))
    if location is None:
        assert answer.status == 418
    else:
        assert dict(answer.headers)[b"Location"].decode() == location


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/console"),
        ("GET", "/console/"),
        ("GET", EXPLAIN),
        ("GET", "/console/other"),
        ("GET", "/console/static/console.css"),
        ("GET", "/console/static/other"),
        ("POST", "/console/login"),
        ("POST", "/console/logout"),
        ("POST", PLAN),
    ],
)
async def test_what_strangers_get_without_an_error_is_anonymous(
    method: str, path: str, autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    """Otherwise it would establish their connections, which could keep visitors out."""

    async def answer_other(request: Request) -> Response:
        return Response(status=418, body=b"")

    console = ConsolePlace(tmp_path).console
    headers = {b"content-type": FORM["content-type"].encode()} if method == "POST" else {}
    request = http_request(path, method=method, headers=headers)
    answer = await complete(console.mount(answer_other)(request))
    assert console.is_anonymous(request) is (answer.status < 400)
    assert not ConsolePlace(None).console.is_anonymous(request)


async def test_only_tls_has_a_cookie_that_plain_http_cannot_set(tmp_path: Path) -> None:
    text = f"node.id=1\nlog.dirs=/log\nauthorizerd.tokens.file={tmp_path}/tokens\n"
    keys = "authorizerd.http.ssl.keystore.location=/k.pem\nauthorizerd.http.ssl.keystore.type=PEM\n"
    secure = parse(f"{text}{keys}authorizerd.admin.http=https://127.0.0.1:0\n", source="test")
    for configuration, name in ((CONFIGURATION, COOKIE), (secure, f"__Secure-{COOKIE}")):
        place = ConsolePlace(tmp_path, ALICE, configuration=configuration)
        cookie = dict((await place.log_in("root.secret")).headers)[b"Set-Cookie"].decode()
        assert cookie.startswith(f"{name}=")
        pair = cookie.partition(";")[0]
        for sent, status in ((pair, 200), (f"x{pair}", 401)):
            answer = await place.send("GET", EXPLAIN, headers={"cookie": sent})
            assert answer.status == status


async def test_trusted_visitor_sees_which_pages_need_a_log_in(tmp_path: Path) -> None:
    for folder, caller in ((None, ""), (tmp_path, "root")):
        _, page = await ConsolePlace(folder, ALICE).get(EXPLAIN, caller)
        marked = re.findall(r">([^<]+)</a> <span class=\"muted\">\(needs login\)", page)
        assert marked == (["ACLs", "Verify", *ACLS_ONLY.values()] if folder is None else [])
    for path in (ACLS, PLAN):
        status, page = await ConsolePlace(None, ALICE).get(path)
        assert status == 403
        assert "set authorizerd.tokens.file" in page
