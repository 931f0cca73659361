"""The pages *Who can* and *What can*: AuthZEN's searches as tables, and their downloads.

**Invariant:** all rows of a table or a download are of one state of the ACLs. If it changes in
between, the search fails, and the visitor asks again. A download has everything that is allowed
from any host, for every host that was not left out by the question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from operator import methodcaller
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from authorizerd.actors.steps import begin_turn, pause_if_due
from authorizerd.daemon.console.access_rows import (
    Row,
    read_operations,
    read_principals,
    read_resources,
)
from authorizerd.daemon.console.errors import QuestionRefusedError
from authorizerd.daemon.console.exports import Add, export
from authorizerd.daemon.console.questions import (
    OPERATION_NAMES,
    RESOURCE_TYPE_NAMES,
    Questions,
)
from authorizerd.daemon.console.tables import (
    ROWS_MAX,
    ROWS_PER_PAGE,
    TABLE_FIELDS,
    FullError,
    Rows,
    SortedRows,
    make_table,
    read_page_number,
)
from authorizerd.daemon.console.visits import View, Visit
from authorizerd.protocol.decisions.acl_filters import QueryError, check_names
from authorizerd.protocol.decisions.discovery import (
    SEARCH_ACTION_PATH,
    SEARCH_RESOURCE_PATH,
    SEARCH_SUBJECT_PATH,
)
from authorizerd.protocol.decisions.searches import (
    PAGE_LIMIT_MAX,
    ActionSearchAnswer,
    ResourceSearchAnswer,
    SearchContext,
    SubjectSearchAnswer,
)
from authorizerd.protocol.http.streamed import StreamedResponse

RESULTS_PER_REQUEST: Final = PAGE_LIMIT_MAX
"""As many as possible, because each request searches from the beginning."""
_ROWS_PER_STEP: Final = 16
WHO_FIELDS: Final = (
    "operation",
    "resource_type",
    "resource_name",
    "host",
    "principal_type",
    "as_of",
)
WHAT_FIELDS: Final = (
    "principal",
    "resource_type",
    "operation",
    "resource_name",
    "host",
    "as_of",
)

_Answer: TypeAlias = SubjectSearchAnswer | ResourceSearchAnswer | ActionSearchAnswer
_DEFAULTS: Final = {"operation": "READ", "resource_type": "TOPIC", "principal_type": "User"}


class ReadRows(Protocol):
    """Returns the rows of an answer."""

    def __call__(self, answer: Any, *, is_first: bool) -> Iterator[Row]: ...  # noqa: ANN401 - of the query's type


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A search: where it is sent, its document, and what its answers are.

    ``columns`` are the titles of the columns by name, in the order of the rows' cells.
    """

    path: str
    document: Mapping[str, Any]
    answer: type[_Answer]
    columns: Mapping[str, str]
    rows: ReadRows


MakeQuery: TypeAlias = Callable[[Questions, Mapping[str, str]], Query]


def ask_who(questions: Questions, fields: Mapping[str, str]) -> Query:
    """Return the search for the principals that may do something to a resource."""
    kind = fields.get("principal_type", "") or _DEFAULTS["principal_type"]
    return Query(
        path=SEARCH_SUBJECT_PATH,
        document={
            "subject": {"type": questions.subject_type(kind)},
            "action": questions.action(fields),
            "resource": questions.resource(fields),
            "context": _context(questions, fields),
        },
        answer=SubjectSearchAnswer,
        columns={"principal": "Principal", "hosts": "Hosts"},
        rows=partial(read_principals, kind, fields.get("host", "")),
    )


def ask_what(questions: Questions, fields: Mapping[str, str]) -> Query:
    """Return the search for a principal's resources, or for what it may do to a named one."""
    document = {"subject": questions.subject(fields), "context": _context(questions, fields)}
    if fields.get("resource_name"):
        return Query(
            path=SEARCH_ACTION_PATH,
            document={**document, "resource": questions.resource(fields)},
            answer=ActionSearchAnswer,
            columns={"operation": "Operation", "hosts": "Hosts"},
            rows=read_operations,
        )
    return Query(
        path=SEARCH_RESOURCE_PATH,
        document={
            **document,
            "resource": questions.resource_type(fields),
            "action": questions.action(fields),
        },
        answer=ResourceSearchAnswer,
        columns={"name": "Name", "pattern": "Meaning", "except": "Except", "hosts": "Hosts"},
        rows=partial(read_resources, fields["resource_type"]),
    )


def _context(questions: Questions, fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the context of a search that leaves out nothing because of hosts."""
    return {**questions.context(fields), "list_hosts": True}


class Search:
    """The results of a query, request after request."""

    def __init__(self, visit: Visit, query: Query) -> None:
        self._visit: Final = visit
        self._query: Final = query
        self._first: _Answer | None = None
        self._contexts: Final[list[SearchContext]] = []

    async def begin(self) -> None:
        """Ask for the first results, so that a refusal is known before anything is sent.

        Raises:
            QuestionRefusedError, LoggedOutError: see ``Visit.ask``.
        """
        self._first = await self._ask("")

    async def read(self, add: Add[Row]) -> None:
        """Pass on all rows, some at a time. Call ``begin`` before."""
        answer, self._first = self._first, None
        is_first = True
        while answer is not None:
            begin_turn()
            rows = self._query.rows(answer, is_first=is_first)
            while some := list(islice(rows, _ROWS_PER_STEP)):
                await add(some)
                await pause_if_due()
            token, is_first = answer.page.next_token, False
            answer = await self._ask(token) if token else None

    async def _ask(self, token: str) -> _Answer:
        page: dict[str, Any] = {"limit": RESULTS_PER_REQUEST}
        if token:
            page["token"] = token
        document = {**self._query.document, "page": page}
        answer: _Answer = await self._visit.ask(self._query.path, document, self._query.answer)
        self._contexts.append(answer.context)
        return answer

    @property
    def context(self) -> SearchContext:
        """The facts of all answers so far, as if they were one."""
        first, all_of_them = self._contexts[0], self._contexts
        return msgspec.structs.replace(
            first, other_types=sum(each.other_types for each in all_of_them)
        )


def _new_rows(fields: Mapping[str, str], columns: Mapping[str, str]) -> Rows | SortedRows:
    """Return rows for a page: only as many as it needs, if searches give them in its order."""
    if any(fields.get(name) for name in ("sort", "order", "after")):
        return SortedRows(fields, columns)
    if search := fields.get("search", ""):
        return Rows(search)
    end = read_page_number(fields) * ROWS_PER_PAGE
    return Rows("", min(ROWS_MAX, PAGE_LIMIT_MAX * (end // PAGE_LIMIT_MAX + 1)))


class AccessPage:
    """Show the results of a search, sorted, or send them as a file.

    Args:
        name: ``who`` or ``what``, the name of the template and of the files.
        fields: what the form has.
    """

    def __init__(
        self, questions: Questions, name: str, fields: tuple[str, ...], make_query: MakeQuery
    ) -> None:
        self._questions: Final = questions
        self._name: Final = name
        self._fields: Final = fields
        self._make_query: Final = make_query

    async def __call__(self, visit: Visit) -> View:
        """Show the form; with a question in the query, the table, too."""
        fields = visit.parameters
        context: dict[str, Any] = {"table": None, "facts": None, "failure": ""}
        status = 200
        if fields:
            try:
                context |= await self._make_table(visit)
            except QueryError as error:
                context["failure"], status = str(error), 400
            except QuestionRefusedError as error:
                context["failure"], status = str(error), error.status
        empty = dict.fromkeys((*self._fields, *TABLE_FIELDS), "") | _DEFAULTS
        return View(
            template=f"{self._name}.html.jinja",
            context={
                **context,
                "fields": {**empty, **fields},
                "operations": OPERATION_NAMES,
                "resource_types": RESOURCE_TYPE_NAMES,
                "principal_types": self._questions.principal_types,
                "query": visit.request.query,
            },
            status=status,
        )

    async def _make_table(self, visit: Visit) -> dict[str, Any]:
        query = self._read_query(visit)
        search = Search(visit, query)
        await search.begin()
        fields = visit.parameters
        rows = _new_rows(fields, query.columns)
        with suppress(FullError):  # the table says so
            await search.read(lambda some: rows.add([row.cells() for row in some]))
        if isinstance(rows, SortedRows):
            await rows.cut()
        table = await make_table(visit.request.path, visit.parameters, query.columns, rows)
        return {"table": table, "facts": search.context}

    def _read_query(self, visit: Visit) -> Query:
        check_names(dict(visit.parameters), (*self._fields, *TABLE_FIELDS))
        return self._make_query(self._questions, visit.parameters)

    async def download(self, visit: Visit) -> StreamedResponse:
        """Send all results as a file."""
        query = self._read_query(visit)
        search = Search(visit, query)
        await search.begin()
        return export(f"{self._name}-can", visit, query.columns, methodcaller("cells"), search.read)
