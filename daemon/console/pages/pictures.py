"""The pages *Matrix*, *Reach* and *Risks*, which show all ACLs at a glance.

**Invariant:** a visitor needs the right to read ACLs, and each visit is audited like a listing. The
query process does the work, and a thread draws, so no step of the event loop is long.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias
from urllib.parse import urlencode

import msgspec
from markupsafe import Markup

from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.errors import InvalidQuestionError, NotReadyError, SearchLimitError
from authorizerd.acl.model import OPERATION_NAMES, OPERATIONS
from authorizerd.acl.risks import Level, RiskKind
from authorizerd.actors.standard_authorizer import StandardAuthorizer
from authorizerd.config.configuration import Configuration
from authorizerd.daemon.console.svg import Cell, Picture, draw_cells, draw_shares
from authorizerd.daemon.console.tables import TABLE_FIELDS, make_table, read_view
from authorizerd.daemon.console.visits import Shown, Visit
from authorizerd.daemon.decisions.access_audit import audit_access
from authorizerd.daemon.decisions.requester import PortRequester
from authorizerd.daemon.errors import BusyError, ForbiddenError
from authorizerd.daemon.process.threads import run_in_thread
from authorizerd.daemon.queries.acl_surface import check_may_list
from authorizerd.daemon.queries.client import Queries
from authorizerd.daemon.queries.listings import new_check
from authorizerd.daemon.queries.matrix import Access, Matrix, MatrixRow
from authorizerd.daemon.queries.reach import Reach
from authorizerd.daemon.queries.risk_table import RISK_COLUMNS, UNUSED_KIND, RiskTable
from authorizerd.daemon.queries.tables import CUT_CHARACTERS
from authorizerd.protocol.decisions.acl_filters import QueryError, check_names
from authorizerd.protocol.http.rights import ACLS
from authorizerd.protocol.queries import (
    MatrixQuestion,
    PictureQuestion,
    ReachQuestion,
    RisksQuestion,
)

Fields: TypeAlias = Mapping[str, str]
PICTURED_MAX: Final = 20
"""The maximum number of rows in the picture of a reach."""
_USER: Final = "User"
_FULL: Final = Cell("all", 3)
_PARTIAL: Final = Cell("some", 1)
_KINDS: Final = (*(each.value for each in RiskKind), UNUSED_KIND)


class PicturePage:
    """A page of which the query process computes the content.

    Args:
        name: the name of the template, and of the request in the audit log.
        fields: the fields of the form.
        ask: returns the question; None if the form is empty.
        describe: returns the context of the template for the answer. It runs in a thread.
    """

    def __init__(
        self,
        name: str,
        authorizer: StandardAuthorizer,
        queries: Queries,
        fields: tuple[str, ...],
        ask: Callable[[Fields, AuthorizerSettings], PictureQuestion | None],
        describe: Callable[[bytes, Visit], dict[str, Any]],
    ) -> None:
        self._name: Final = name
        self._authorizer: Final = authorizer
        self._queries: Final = queries
        self._fields: Final = fields
        self._ask: Final = ask
        self._describe: Final = describe

    async def __call__(self, visit: Visit) -> Shown:
        """Show the form, and the answer."""
        context: dict[str, Any] = {"found": None, "kinds": _KINDS}
        failure, status = "", 200
        try:
            context |= await self._find(visit)
        except (QueryError, InvalidQuestionError, SearchLimitError) as error:
            failure, status = str(error), 400
        except ForbiddenError as error:
            failure, status = str(error), 403
            audit_access(self._authorizer, _requester(visit), self._surface, allowed=False)
        except (NotReadyError, BusyError) as error:
            failure, status = str(error), 503
        fields = dict.fromkeys(self._fields, "") | dict(visit.parameters)
        return Shown(
            template=f"{self._name}.html.jinja",
            context={**context, "failure": failure, "fields": fields},
            status=status,
        )

    @property
    def _surface(self) -> str:
        return self._name.capitalize()

    async def _find(self, visit: Visit) -> dict[str, Any]:
        check_names(dict(visit.parameters), self._fields)
        state = check_may_list(self._authorizer, visit.caller)
        question = self._ask(visit.parameters, state.settings)
        if question is None:
            return {}
        audit_access(self._authorizer, _requester(visit), self._surface, allowed=True)
        check = new_check(self._authorizer, state, lambda: visit.caller.check(ACLS))
        offset, settings = state.offset, state.settings
        del state  # otherwise it would be kept alive for too long
        answer = await self._queries.ask(question, caller=visit.caller.principal, offset=offset)
        context = await run_in_thread(self._describe, answer.bodies[0], visit)
        check()
        return {**context, "settings": settings}


def _requester(visit: Visit) -> PortRequester:
    return PortRequester(visit.caller, visit.request.address, visit.request.headers)


def new_pages(
    configuration: Configuration, authorizer: StandardAuthorizer, queries: Queries
) -> dict[str, PicturePage]:
    """Return the pages by name."""
    usage_file = configuration.console_usage_file

    def ask_risks(fields: Fields, settings: AuthorizerSettings) -> RisksQuestion:
        kind = fields.get("kind", "")
        if kind and kind not in _KINDS:
            raise QueryError(f"kind: expected one of {', '.join(_KINDS)}")
        return RisksQuestion(kind, usage_file, read_view(fields, RISK_COLUMNS), settings)

    def describe_risks(body: bytes, visit: Visit) -> dict[str, Any]:
        return {**_describe_risks(body, visit), "has_usage": usage_file is not None}

    parts = {
        "matrix": (("principal", "topic"), _ask_matrix, _describe_matrix),
        "reach": (("principal",), _ask_reach, _describe_reach),
        "risks": (("kind", *TABLE_FIELDS), ask_risks, describe_risks),
    }
    return {name: PicturePage(name, authorizer, queries, *part) for name, part in parts.items()}


def _ask_matrix(fields: Fields, settings: AuthorizerSettings) -> MatrixQuestion:
    principal = fields.get("principal", "")
    if principal and ":" not in principal:
        principal = f"{_USER}:{principal}"
    return MatrixQuestion(principal, fields.get("topic", ""), settings)


def _describe_matrix(body: bytes, visit: Visit) -> dict[str, Any]:
    matrix = msgspec.json.decode(body, type=Matrix)
    here, fields = visit.request.path, visit.parameters
    rows = matrix.rows if matrix.everyone is None else (matrix.everyone, *matrix.rows)
    names = [f"{each}…" if each else "any topic" for each in matrix.columns]
    cells = [[_draw_access(Access(cell)) for cell in row.cells] for row in rows]
    picture = Picture(
        "matrix",
        "Principals by prefixes of topics",
        "R: may read, W: may write, A: all operations, D: something is denied, ?: not known",
    )
    return {
        "found": matrix,
        "columns": names,
        "links": [_make_link(here, **{**fields, "topic": each}) for each in matrix.columns],
        "picture": draw_cells(picture, [_name_row(each) for each in rows], names, cells),
        "rows": [
            (row, _link(here, row, fields), each) for row, each in zip(rows, cells, strict=True)
        ],
    }


def _name_row(row: MatrixRow) -> str:
    return row.name if row.principals == 1 else f"{row.name}…"


def _link(here: str, row: MatrixRow, fields: Fields) -> str:
    """Return the address of a principal's reach, or of the matrix of a group."""
    if row.principals == 1:
        return _make_link(f"{here.removesuffix('matrix')}reach", principal=row.name)
    return _make_link(here, **{**fields, "principal": row.name})


def _make_link(path: str, **fields: str) -> str:
    """Return an address, or nothing if it would be very long."""
    query = {name: value for name, value in fields.items() if value}
    is_short = all(len(value) <= CUT_CHARACTERS for value in query.values())
    return f"{path}?{urlencode(query)}" if is_short else ""


def _draw_access(access: Access) -> Cell | None:
    if not access:
        return None
    letters = "A" if Access.ALL in access else ""
    if not letters:
        letters = "R" * (Access.READ in access) + "W" * (Access.WRITE in access)
    level = {"": 0, "R": 1, "W": 2, "RW": 3, "A": 4}[letters]
    marks = "D" * (Access.DENIED in access) + "?" * (Access.UNKNOWN in access)
    return Cell(letters + marks, level)


def _ask_reach(fields: Fields, settings: AuthorizerSettings) -> ReachQuestion | None:
    principal = fields.get("principal", "")
    if not principal:
        return None
    return ReachQuestion(principal if ":" in principal else f"{_USER}:{principal}", settings)


def _describe_reach(body: bytes, visit: Visit) -> dict[str, Any]:
    reach = msgspec.json.decode(body, type=Reach)
    shown = reach.rows[:PICTURED_MAX]
    used = {name for row in shown for name in row.operations}
    operations = [name for code in OPERATIONS if (name := OPERATION_NAMES[code]) in used]
    picture: Markup | None = None
    if shown:
        picture = draw_cells(
            Picture("reach", "Resources by operations", "all: from every host; some: from some"),
            [f"{row.resource_type} {row.name}" for row in shown],
            operations,
            [
                [
                    None
                    if each not in row.operations
                    else _FULL
                    if row.operations[each]
                    else _PARTIAL
                    for each in operations
                ]
                for row in shown
            ],
        )
    question = _ask_reach(visit.parameters, AuthorizerSettings())
    assert question is not None, "there is an answer"
    return {
        "found": reach,
        "asked": question.principal,
        "picture": picture,
        "pictured": len(shown),
    }


def _describe_risks(body: bytes, visit: Visit) -> dict[str, Any]:
    found = msgspec.json.decode(body, type=RiskTable)
    shares = [
        (kind, sum(levels.values()), _say_counts(levels)) for kind, levels in found.counts.items()
    ]
    shares.sort(key=lambda share: -share[1])
    picture = Picture("risks", "ACLs by kind of risk", "The longest bar is the most frequent kind")
    return {
        "found": found,
        "shares": shares,
        "picture": draw_shares(picture, shares) if shares else None,
        "table": make_table(visit.request.path, visit.parameters, RISK_COLUMNS, found.page),
    }


def _say_counts(levels: Mapping[str, int]) -> str:
    return ", ".join(f"{levels[each]:,} {each}" for each in Level if each in levels)
