"""A visit to one page: the visitor, the request, and the page shown."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar
from urllib.parse import urlencode

import msgspec

from authorizerd.daemon.console.errors import LoggedOutError, QuestionRefusedError
from authorizerd.daemon.console.tables import Table, make_table, read_view
from authorizerd.daemon.decisions.callers import Caller
from authorizerd.daemon.decisions.requester import AUDITED_HEADERS
from authorizerd.daemon.queries.tables import TablePage
from authorizerd.protocol.http.messages import JSON, LINES, Request, Response
from authorizerd.protocol.http.streamed import Handler, StreamedResponse, complete
from authorizerd.protocol.views import FileView, View

T = TypeVar("T")
CSV_SUFFIX: Final = ".csv"
LINES_SUFFIX: Final = ".jsonl"
_CSV: Final = "text/csv; charset=utf-8"
_OK: Final = 200
_UNAUTHORIZED: Final = 401

Asked: TypeAlias = tuple[str, str, Mapping[str, str], bytes]
"""The method, the path, the query and the body of a request to the decision port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What to show: a template, its context, and the status of the answer."""

    template: str
    context: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Visit:
    """A request for a page, by a known caller.

    Args:
        token: identifies the caller to the decision port; None if the connection's certificate
            does, or if there are no credentials.
        parameters: the fields of the query, or of the form that was sent.
    """

    def __init__(
        self,
        request: Request,
        caller: Caller,
        token: bytes | None,
        parameters: Mapping[str, str],
        decisions: Handler,
    ) -> None:
        self.request = request
        self.caller = caller
        self.parameters = parameters
        self._token = token
        self._decisions = decisions

    async def ask(self, path: str, document: object, answer: type[T]) -> T:
        """Send a JSON document to the decision port, as the caller, and return its answer.

        Raises:
            QuestionRefusedError: the port refuses, for example because of a missing right.
            LoggedOutError: the visitor must log in again.
        """
        response = await self.send("POST", path, body=msgspec.json.encode(document))
        assert isinstance(response, Response), "only files are streamed"
        return msgspec.json.decode(response.body, type=answer)

    async def show(self, asked: Asked, columns: Mapping[str, str]) -> tuple[TablePage, Table]:
        """Return the page of a table that the visit asks for, and the table to show.

        Raises:
            QuestionRefusedError, LoggedOutError: see ``ask``.
            QueryError: the column, the order or the page is invalid.
        """
        view = read_view(self.parameters, columns)
        response = await self.send(*asked, view=view)
        assert isinstance(response, Response), "only files are streamed"
        page = msgspec.json.decode(response.body, type=TablePage)
        return page, make_table(self.request.path, self.parameters, columns, page)

    async def download(self, name: str, asked: Asked) -> StreamedResponse:
        """Return a file with all rows; the visited path ends with its format.

        Args:
            name: the file's name, without the format.

        Raises:
            QuestionRefusedError, LoggedOutError: see ``ask``.
        """
        is_csv = self.request.path.endswith(CSV_SUFFIX)
        view = FileView(self.parameters.get("search", ""), is_csv)
        response = await self.send(*asked, view=view)
        assert isinstance(response, StreamedResponse), "a file has no fixed length"
        suffix, content_type = (CSV_SUFFIX, _CSV) if is_csv else (LINES_SUFFIX, LINES)
        name = f'attachment; filename="{name}{suffix}"'
        headers = ((b"Content-Disposition", name.encode()), *response.headers)
        return msgspec.structs.replace(response, content_type=content_type, headers=headers)

    async def send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: bytes = b"",
        view: View | None = None,
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
            principal=self.request.principal,
            address=self.request.address,
            view=view,
        )
        response = await complete(self._decisions(request))
        if response.status == _UNAUTHORIZED:
            raise LoggedOutError
        if isinstance(response, Response) and response.status != _OK:
            raise QuestionRefusedError(response)
        return response


Page: TypeAlias = Callable[[Visit], Awaitable["Shown | Response | StreamedResponse"]]
"""Answers the visits of one page."""
