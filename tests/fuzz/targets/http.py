"""HTTP: the connection's bytes, and the requests to the decision port and the console."""

import json
import tempfile
from collections.abc import AsyncIterator, Generator, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from unittest.mock import patch
from urllib.parse import urlencode

from authorizerd.acl.steps import Steps
from authorizerd.daemon.console import sessions
from authorizerd.daemon.decisions.opa import HEALTH_PATH
from authorizerd.daemon.http.api_document import OPENAPI_PATH
from authorizerd.daemon.queries.acl_watch import WATCH_PATH
from authorizerd.protocol.decisions.acl_filters import (
    QueryError,
    parse_query,
    read_as_of,
    read_filter,
)
from authorizerd.protocol.decisions.discovery import DISCOVERY_PATH
from authorizerd.protocol.decisions.opa import OpaError, token_in_query
from authorizerd.protocol.http.connection import PAUSE, Event, Interim, Pause, ServerConnection
from authorizerd.protocol.http.messages import Request, Response
from authorizerd.protocol.http.request_head import BadRequest, HttpLimits
from authorizerd.protocol.http.streamed import Handler, StreamedResponse, complete
from tests.daemon.console.console_place import ConsolePlace
from tests.daemon.decision_place import ROOT, entry
from tests.daemon.decisions.acl_place import read_streamed
from tests.fuzz.target import (
    SECRET,
    Check,
    Target,
    check_message,
    in_pieces,
    reader,
    rejected_with,
)
from tests.loop.console_requests import console_requests
from tests.loop.http_requests import decision_requests, get, heads, post
from tests.support.acls import acl

TOKEN: Final = f"root.{SECRET}"
_AUTHORIZATION: Final = f"Authorization: Bearer {TOKEN}".encode()
SEED_BYTES_MAX: Final = 4_000
LIMITS: Final = HttpLimits(body_bytes_max=4_096, header_bytes_max=2_048, headers_max=20)
WORDS: Final = (
    *(b"Content-Length: ", b"Transfer-Encoding: chunked\r\n", b"0\r\n\r\n", b"5;a=b\r\nhello\r\n"),
    *(b"Expect: 100-continue\r\n", b"Connection: keep-alive\r\n", b"HTTP/1.0", b"Host: a\r\n"),
    *(b"POST /v1/data HTTP/1.1\r\n", b"OPTIONS * HTTP/1.1\r\n", b"GET http://localhost/ HTTP/1.1"),
    *(b"X-Request-ID: 7\r\n", b"Upgrade: h2c\r\n", b"Cookie: authorizerd_console=", b"%2e", b"\n "),
)
_OPEN: Final = frozenset((DISCOVERY_PATH, HEALTH_PATH, OPENAPI_PATH))
"""The paths of the decision port that need no token."""
_OF_DAEMON: Final = frozenset(("/console/", "/console/live"))
_OK: Final = Response(status=200, body=b"ok")


def _events(pieces: list[bytes]) -> Iterator[Event]:
    """Yield what a connection reads, and a pause after each piece. Each request is answered."""
    connection = ServerConnection(LIMITS)
    for piece in pieces:
        connection.receive_data(piece)
        while (event := connection.next_event()) is not None:
            yield event
            yield PAUSE
            if not isinstance(event, Interim | Pause):
                assert connection.send(_OK).startswith(b"HTTP/1.1 200")
        yield PAUSE
        assert connection.bytes_held <= len(b"".join(pieces))


def _check_connection(data: bytes) -> Generator[None, None, None]:
    """The same bytes give the same events, however they are split."""
    whole = yield from _in_steps(_events([data]))
    assert (yield from _in_steps(_events(in_pieces(data)))) == whole
    for event in whole:
        if isinstance(event, BadRequest):
            assert 400 <= event.status < 600
            check_message(event.reason)


def _in_steps(events: Iterable[Event]) -> Steps[list[Event]]:
    found: list[Event] = []
    for event in events:
        if isinstance(event, Pause):
            yield
        else:
            found.append(event)
    return found


def _check_query(data: bytes) -> None:
    query = data.decode("ascii", "ignore")
    with rejected_with(OpaError):
        token_in_query(query)
    with rejected_with(QueryError):
        parameters = parse_query(query)
        read_as_of(parameters)
        read_filter(parameters)


def decision_seeds() -> Iterator[bytes]:
    """Yield requests to every path of the decision port."""
    for request in (*decision_requests(TOKEN), *heads()):
        if len(request.data) < SEED_BYTES_MAX:
            yield request.data
    body = json.dumps({"subject": {"type": "user", "id": "a"}}).encode()
    yield post("/access/v1/evaluation", body, f"Cookie: authorizerd_console={SECRET}")


def console_seeds() -> Iterator[bytes]:
    """Yield requests for every page of the console."""
    for request in console_requests(TOKEN):
        if len(request.data) < SEED_BYTES_MAX:
            yield request.data
    form = "Content-Type: application/x-www-form-urlencoded", "Sec-Fetch-Site: same-origin"
    fields = {"token": TOKEN, "next": "/console/acls"}, {"mode": "add", "acls": _LISTING}
    for path, body in zip(("/console/login", "/console/plan"), fields, strict=True):
        data = urlencode(body).encode()
        head = get(path, *form, f"Content-Length: {len(data)}", token=TOKEN)
        yield head.replace(b"GET", b"POST", 1) + data


_LISTING: Final = (
    "Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name=a, "
    "patternType=LITERAL)`:\n"
    "\t(principal=User:a, host=*, operation=READ, permissionType=ALLOW)\n"
)


async def _answers(handler: Handler, data: bytes) -> AsyncIterator[tuple[Request, int, bytes]]:
    """Yield each request of a connection with the status and the body of its answer."""
    connection = ServerConnection(HttpLimits(body_bytes_max=1 << 16))
    connection.receive_data(data)
    while (event := connection.next_event()) is not None:
        if isinstance(event, BadRequest):
            connection.send(_OK)
        elif isinstance(event, Request):
            answer = await complete(handler(event))
            if isinstance(answer, Response):
                connection.send(answer)
                yield event, answer.status, answer.body
            else:
                connection.send(_OK)
                is_endless = event.path == WATCH_PATH
                yield event, answer.status, b"" if is_endless else await read_streamed(answer)
                answer.close()


@asynccontextmanager
async def _decision_port() -> AsyncIterator[Check]:
    """Without a token, the port tells nothing; no answer shows one."""
    with tempfile.TemporaryDirectory() as folder:
        place = _Place(Path(folder))

        async def check(data: bytes) -> None:
            async for request, status, body in _answers(place.decisions, data):
                assert status != 500, body
                is_in_head_only = data.count(SECRET.encode()) == data.count(_AUTHORIZATION)
                assert not (is_in_head_only and SECRET.encode() in body), body
                if TOKEN.encode() not in data and status == 200:
                    assert request.path in _OPEN, f"{request.path}: answered without a token"
            place.audit_log.events.clear()

        yield check


@asynccontextmanager
async def _console() -> AsyncIterator[Check]:
    """Without a token, a visitor sees only the form that asks for it. No login has to wait."""
    with tempfile.TemporaryDirectory() as folder, patch.object(sessions, "FAILED_SECONDS", 0):
        place = _Place(Path(folder))

        async def check(data: bytes) -> None:
            async for request, status, body in _answers(place.answer, data):
                assert status != 500, body
                if TOKEN.encode() not in data and status == 200:
                    is_open = request.path.startswith("/console/static/")
                    assert is_open or request.path in _OF_DAEMON, request.path
            place.audit_log.events.clear()

        yield check


class _Place(ConsolePlace):
    """A console and a decision port on which only ``TOKEN`` counts."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, acl("User:alice", "READ", topic="topic-1"), topics=("topic-1",))
        self.rewrite_tokens(entry("root", ROOT, SECRET))
        self.callers.prepare_reload()()

    async def answer(self, request: Request) -> Response | StreamedResponse:
        """Answer by the console, except its pages about the daemon itself, which it lacks."""
        return _OK if request.path in _OF_DAEMON else await self.console(request)


HTTP_TARGETS: Final = (
    reader("http-connection", _check_connection, lambda: (*decision_seeds(), *console_seeds()),
           words=WORDS, weight=30),
    reader("http-query", _check_query,
           lambda: (
               b"principal=User%3Aa&host=*&operation=READ&resource_type=TOPIC&resource_name=t",
               b"pattern_type=MATCH&permission_type=DENY&as_of=2026-01-02T03:04:05%2B01:00",
               b"token=abc.def",
           ),
           words=(b"&", b"=", b"%00", b"%ff", b"+", b";"), weight=20),
    Target(name="decision-port", place=_decision_port, seeds=decision_seeds,
           words=(*WORDS, TOKEN.encode(), b'"as_of":1', b'"explain":true'), weight=8,
           lines_max=40 * 50_000),
    Target(name="console", place=_console, seeds=console_seeds,
           words=(*WORDS, TOKEN.encode(), b"search=", b"&page=", b"&as_of=1", b"&sort="), weight=8,
           lines_max=40 * 50_000),
)  # fmt: skip
