"""The pages *Who can* and *What can*: AuthZEN's searches as tables, and their downloads.

**Invariant:** all rows of a table or a download come from one state of the ACLs. A download has
everything that is allowed from any host that the question does not exclude.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from authorizerd.daemon.console.errors import QuestionRefusedError
from authorizerd.daemon.console.questions import (
    OPERATION_NAMES,
    RESOURCE_TYPE_NAMES,
    Questions,
)
from authorizerd.daemon.console.tables import TABLE_FIELDS
from authorizerd.daemon.console.visits import Asked, Shown, Visit
from authorizerd.daemon.queries.tables import (
    OPERATION_COLUMNS,
    PRINCIPAL_COLUMNS,
    RESOURCE_COLUMNS,
)
from authorizerd.protocol.decisions.acl_filters import QueryError, check_names
from authorizerd.protocol.decisions.discovery import (
    SEARCH_ACTION_PATH,
    SEARCH_RESOURCE_PATH,
    SEARCH_SUBJECT_PATH,
)
from authorizerd.protocol.http.streamed import StreamedResponse

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

_DEFAULTS: Final = {"operation": "READ", "resource_type": "TOPIC", "principal_type": "User"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A search: the path that it is sent to, and its document.

    ``columns`` are the titles of the columns by name, in the order of the rows' cells.
    """

    path: str
    document: Mapping[str, Any]
    columns: Mapping[str, str]

    @property
    def request(self) -> Asked:
        return "POST", self.path, {}, msgspec.json.encode(self.document)


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
        columns=PRINCIPAL_COLUMNS,
    )


def ask_what(questions: Questions, fields: Mapping[str, str]) -> Query:
    """Return the search for a principal's resources, or for its operations on a named resource."""
    document = {"subject": questions.subject(fields), "context": _context(questions, fields)}
    if fields.get("resource_name"):
        return Query(
            path=SEARCH_ACTION_PATH,
            document={**document, "resource": questions.resource(fields)},
            columns=OPERATION_COLUMNS,
        )
    return Query(
        path=SEARCH_RESOURCE_PATH,
        document={
            **document,
            "resource": questions.resource_type(fields),
            "action": questions.action(fields),
        },
        columns=RESOURCE_COLUMNS,
    )


def _context(questions: Questions, fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the context of a search that excludes nothing by host."""
    return {**questions.context(fields), "list_hosts": True}


class AccessPage:
    """Show the results of a search, sorted, or send them as a file.

    Args:
        name: ``who`` or ``what``, the name of the template and of the files.
        fields: the fields of the form.
    """

    def __init__(
        self, questions: Questions, name: str, fields: tuple[str, ...], make_query: MakeQuery
    ) -> None:
        self._questions: Final = questions
        self._name: Final = name
        self._fields: Final = fields
        self._make_query: Final = make_query

    async def __call__(self, visit: Visit) -> Shown:
        """Show the form; with a question in the query, also the table."""
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
        return Shown(
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
        page, table = await visit.show(query.request, query.columns)
        return {"table": table, "facts": page.facts}

    def _read_query(self, visit: Visit) -> Query:
        check_names(dict(visit.parameters), (*self._fields, *TABLE_FIELDS))
        return self._make_query(self._questions, visit.parameters)

    async def download(self, visit: Visit) -> StreamedResponse:
        """Send all results as a file."""
        return await visit.download(f"{self._name}-can", self._read_query(visit).request)
