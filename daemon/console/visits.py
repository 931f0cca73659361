"""A visit of one page: who visits it, what it asks, and what is shown."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar
from urllib.parse import urlencode

import msgspec

from authorizerd.actors.steps import pause_if_due
from authorizerd.daemon.console.errors import LoggedOutError, QuestionRefusedError
from authorizerd.daemon.decisions.callers import Caller
from authorizerd.daemon.decisions.requester import AUDITED_HEADERS
from authorizerd.protocol.http.messages import JSON, Request, Response
from authorizerd.protocol.http.streamed import StreamedResponse

T = TypeVar("T")
_OK: Final = 200
_UNAUTHORIZED: Final = 401

DecisionHandler: TypeAlias = Callable[[Request], Awaitable[Response | StreamedResponse]]
"""The handler of the decision port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What to show: a template, its context, and the status of the answer."""

    template: str
    context: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Visit:
    """A request for a page, by a known caller.

    Args:
        token: what identifies the caller to the decision port, None if that is the certificate of
            its connection, or nothing.
        parameters: the fields of the query, or of the form that was sent.
    """

    def __init__(
        self,
        request: Request,
        caller: Caller,
        token: bytes | None,
        parameters: Mapping[str, str],
        decisions: DecisionHandler,
    ) -> None:
        self.request = request
        self.caller = caller
        self.parameters = parameters
        self._token = token
        self._decisions = decisions

    async def ask(self, path: str, document: object, answer: type[T]) -> T:
        """Send a JSON document to the decision port, as the caller, and return its answer.

        Raises:
            QuestionRefusedError: the port refuses, for lack of a right, for example.
            LoggedOutError: the visitor must log in again.
        """
        response = await self.send("POST", path, body=msgspec.json.encode(document))
        assert isinstance(response, Response), "only listings are streamed"
        await pause_if_due()  # a page of results takes a step to write, and another one to read
        return msgspec.json.decode(response.body, type=answer)

    async def send(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: bytes = b""
    ) -> Response | StreamedResponse:
        """Send a request to the decision port, as the caller, and return what it answers.

        Raises:
            QuestionRefusedError, LoggedOutError: see ``ask``.
        """
        visit = self.request.headers
        headers = {name: visit[name] for name in AUDITED_HEADERS if name in visit}
        headers[b"content-type"] = JSON.encode()
        if self._token is not None:
            headers[b"authorization"] = b"Bearer " + self._token
        request = Request(
            method=method,
            path=path,
            query=urlencode(query or {}),
            headers=headers,
            body=body,
            keep_alive=True,
            principal=self.request.principal,
            address=self.request.address,
        )
        response = await self._decisions(request)
        if response.status == _UNAUTHORIZED:
            raise LoggedOutError
        if isinstance(response, Response) and response.status != _OK:
            raise QuestionRefusedError(response)
        return response


Page: TypeAlias = Callable[[Visit], Awaitable["View | Response | StreamedResponse"]]
"""Answers the visits of one page."""
