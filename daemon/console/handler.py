"""The console's handler: it finds the page, the visitor and the rights, and sends HTML.

**Invariant:** a page is rendered only for a known caller, and shows only what the decision port
gives this caller. No request changes anything but the visitor's own session. No page can run or
load code that is not the console's own, even if it shows a hostile name. A page has a bounded
number of rows and characters; the query process bounds the questions in progress.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec
import trio

from authorizerd.daemon.console.cluster import Cluster
from authorizerd.daemon.console.errors import LoggedOutError, QuestionRefusedError
from authorizerd.daemon.console.rendering import StaticFile, render
from authorizerd.daemon.console.requests import (
    COOKIE,
    find_session_secret,
    is_refused_as_foreign,
    read_form,
)
from authorizerd.daemon.console.sessions import LogInLimit, Sessions
from authorizerd.daemon.console.visits import (
    Page,
    Shown,
    Visit,
)
from authorizerd.daemon.decisions.callers import Caller, Callers
from authorizerd.daemon.errors import ForbiddenError
from authorizerd.daemon.process.threads import run_in_thread
from authorizerd.protocol.decisions.acl_filters import QueryError, parse_query
from authorizerd.protocol.http.messages import (
    GET,
    Request,
    Response,
    bearer_token,
    method_not_allowed,
    text_response,
)
from authorizerd.protocol.http.streamed import AnyResponse, Handler, StreamedResponse

ROOT_PATH: Final = "/console/"
LOG_IN_PATH: Final = f"{ROOT_PATH}login"
LOG_OUT_PATH: Final = f"{ROOT_PATH}logout"
_STATIC_PATH: Final = f"{ROOT_PATH}static/"
_REDIRECTED: Final = ("/", ROOT_PATH.removesuffix("/"))
_HTML: Final = "text/html; charset=utf-8"
_POLICY: Final = (
    b"default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self';"
    b" form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_SAFETY: Final = (
    (b"Content-Security-Policy", _POLICY),
    (b"X-Content-Type-Options", b"nosniff"),
    # Not no-referrer: then a form's Origin would be null.
    (b"Referrer-Policy", b"same-origin"),
    (b"Cross-Origin-Opener-Policy", b"same-origin"),
    (b"Cross-Origin-Resource-Policy", b"same-origin"),
)
_NO_STORE: Final = (b"Cache-Control", b"no-store")
_LASTING: Final = (b"Cache-Control", b"max-age=31536000, immutable")
_COOKIE_FLAGS: Final = f"Path={ROOT_PATH}; Secure; HttpOnly; SameSite=Strict"
_LOG_IN_BYTES_MAX: Final = 16 * 1024
"""The token, and the address of the page to show."""
_QUERY: Final = re.compile(r"[!-~]*")
_UNAUTHORIZED: Final = 401


class Console:
    """Answer the requests whose path is ``/console/`` or below.

    Args:
        callers: the callers of the decision port.
        decisions: the handler of the decision port.
        pages: the pages by path. ``navigation`` lists the pages that every page links to, with
            titles.
        posted: the paths of the pages that also answer POST requests.
        log_in_only: the paths of the pages that refuse all visitors if the port needs no login.
        describe_cluster: returns what every page says of the cluster to known callers.
        cookie: the name of the cookie.
    """

    def __init__(
        self,
        callers: Callers,
        decisions: Handler,
        statics: Mapping[str, StaticFile],
        pages: Mapping[str, Page],
        navigation: Mapping[str, str],
        describe_cluster: Callable[[], Cluster],
        posted: frozenset[str] = frozenset(),
        log_in_only: frozenset[str] = frozenset(),
        cookie: str = COOKIE,
    ) -> None:
        self._callers: Final = callers
        self._decisions: Final = decisions
        self._statics: Final = {_STATIC_PATH + name: each for name, each in statics.items()}
        self._anonymous_paths: Final = frozenset((*self._statics, *_REDIRECTED, LOG_OUT_PATH))
        self._pages: Final = dict(pages)
        self._navigation: Final = dict(navigation)
        self._describe_cluster: Final = describe_cluster
        self._posted: Final = posted
        self._log_in_only: Final = log_in_only
        self._cookie: Final = cookie
        self._sessions: Final = Sessions()
        self._limit: Final = LogInLimit()

    def mount(self, other: Handler) -> Handler:
        """Return a handler that answers the console's requests, and passes on all others."""

        def answer(request: Request) -> AnyResponse | Awaitable[AnyResponse]:
            if request.path.startswith(ROOT_PATH):
                return self(request)
            if request.path in _REDIRECTED and request.method in GET:
                return _redirect(ROOT_PATH)
            return other(request)

        return answer

    def is_anonymous(self, request: Request) -> bool:
        """Return True if ``request`` needs no login on a port that has one; see ``HttpServer``."""
        return request.path in self._anonymous_paths and self._callers.may_be_anyone(request)

    async def __call__(self, request: Request) -> Response | StreamedResponse:
        """Answer one request."""
        await trio.lowlevel.checkpoint()  # like the admin port: one answer per turn and connection
        response = await self._answer(request)
        headers = (*_SAFETY, *response.headers)
        if not any(name == _NO_STORE[0] for name, _ in headers):
            headers += (_NO_STORE,)
        return msgspec.structs.replace(response, headers=headers)

    async def _answer(self, request: Request) -> Response | StreamedResponse:
        static = self._statics.get(request.path)
        if static is not None:
            if request.method not in GET:
                return method_not_allowed(", ".join(GET).encode())
            return Response(
                status=200, body=static.body, content_type=static.media_type, headers=(_LASTING,)
            )
        if is_refused_as_foreign(request):
            return text_response(403, "a page of another site must not send requests to this one")
        if request.path in (LOG_IN_PATH, LOG_OUT_PATH):
            if request.method != "POST":
                return method_not_allowed(b"POST")
            is_log_in = request.path == LOG_IN_PATH
            return await self._log_in(request) if is_log_in else self._log_out(request)
        token, caller = self._identify(request)
        return await self._make_page(request, token, caller)

    async def _make_page(
        self, request: Request, token: bytes | None, caller: Caller | None
    ) -> Response | StreamedResponse:
        if caller is None:
            return await self._ask_to_log_in(request)
        page = self._pages.get(request.path)
        if page is None:
            view = _describe_error(404, "This page does not exist.")
            return await self._show(request, view, caller)
        methods = ("GET", "HEAD", "POST") if request.path in self._posted else GET
        if request.method not in methods:
            return method_not_allowed(", ".join(methods).encode())
        try:
            if request.method == "POST":  # in a thread: a form may be long
                fields = await run_in_thread(read_form, request)
            else:
                fields = parse_query(request.query)
            visit = Visit(request, caller, token, fields, self._decisions)
            view_or_answer = await page(visit)
        except QueryError as error:
            view_or_answer = _describe_error(400, str(error))
        except LoggedOutError:
            return await self._ask_to_log_in(request)
        except ForbiddenError as error:
            view_or_answer = _describe_error(403, str(error))
        except QuestionRefusedError as error:
            view_or_answer = _describe_error(error.status, str(error), error.headers)
        if isinstance(view_or_answer, Shown):
            return await self._show(request, view_or_answer, caller)
        return view_or_answer

    def _identify(self, request: Request) -> tuple[bytes | None, Caller | None]:
        """Return the visitor's token and the visitor; either is None if missing or unknown."""
        token = bearer_token(request)
        secret = find_session_secret(request, self._cookie)
        if token is None and secret is not None and not self._callers.trusts_all:
            token = self._sessions.find(secret)
            if token is not None and self._callers.identify(token) is None:
                self._sessions.close(secret)
                token = None
        return token, self._callers.identify(token, certified=request.principal)

    async def _ask_to_log_in(self, request: Request, failure: str = "") -> Response:
        target = request.path if request.path in self._pages else ROOT_PATH
        if request.path in self._pages and request.query:
            target += f"?{request.query}"
        view = Shown(
            template="login.html.jinja",
            context={"target": target, "failure": failure},
            status=_UNAUTHORIZED,
            headers=((b"WWW-Authenticate", b"Bearer"),),
        )
        return await self._show(request, view, None)

    async def _log_in(self, request: Request) -> Response:
        if len(request.body) > _LOG_IN_BYTES_MAX:
            return text_response(413, "expected a token")
        try:
            fields = read_form(request)
        except QueryError as error:
            return text_response(400, str(error))
        target = self._check_target(fields.get("next", ""))
        if self._callers.trusts_all:
            return _redirect(target)
        token = fields.get("token", "").strip().encode()
        if self._callers.identify(token) is None:
            if self._limit.is_reached:
                refused = text_response(429, "too many failed logins: try again in a few seconds")
                return msgspec.structs.replace(refused, headers=((b"Retry-After", b"2"),))
            await self._limit.delay()
            path, _, query = target.partition("?")
            asked = msgspec.structs.replace(request, path=path, query=query)
            return await self._ask_to_log_in(asked, "This token is not valid.")
        secret = self._sessions.open(token)
        return _redirect(target, f"{self._cookie}={secret}; {_COOKIE_FLAGS}")

    def _log_out(self, request: Request) -> Response:
        secret = find_session_secret(request, self._cookie)
        if secret is not None:
            self._sessions.close(secret)
        return _redirect(ROOT_PATH, f"{self._cookie}=; Max-Age=0; {_COOKIE_FLAGS}")

    def _check_target(self, target: str) -> str:
        """Return the page to show after a login: one of the console's, whatever the form says."""
        path, _, query = target.partition("?")
        return target if path in self._pages and _QUERY.fullmatch(query) else ROOT_PATH

    async def _show(self, request: Request, view: Shown, caller: Caller | None) -> Response:
        """Return a page with the elements that all pages share."""
        context: dict[str, Any] = {
            "navigation": self._navigation if caller is not None else {},
            "cluster": self._describe_cluster() if caller is not None else None,
            "here": request.path,
            "locked": self._log_in_only if self._callers.trusts_all else (),
            "principal": None if caller is None else caller.principal,
            "is_known": caller is not None,
            "has_session": caller is not None
            and find_session_secret(request, self._cookie) is not None,
            **view.context,
        }
        body = await render(view.template, context)
        return Response(
            status=view.status, body=body, content_type=_HTML, headers=(_NO_STORE, *view.headers)
        )


def _describe_error(
    status: int, reason: str, headers: tuple[tuple[bytes, bytes], ...] = ()
) -> Shown:
    return Shown(
        template="error.html.jinja",
        context={"status": status, "reason": reason},
        status=status,
        headers=headers,
    )


def _redirect(path: str, cookie: str | None = None) -> Response:
    """Return a redirect to a page of the console, which the browser requests with GET."""
    cookies = () if cookie is None else ((b"Set-Cookie", cookie.encode()),)
    location = (b"Location", path.encode())
    return Response(status=303, body=b"", headers=(location, _NO_STORE, *cookies))
