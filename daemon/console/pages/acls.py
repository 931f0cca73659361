"""The page *ACLs*: those that a filter matches, and their downloads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from authorizerd.acl.model import Code, Operation, PatternType, PermissionType, ResourceType
from authorizerd.actors.steps import begin_turn, pause_if_due
from authorizerd.daemon.console.errors import QuestionRefusedError
from authorizerd.daemon.console.exports import Add, export
from authorizerd.daemon.console.tables import (
    TABLE_FIELDS,
    SortedRows,
    make_table,
)
from authorizerd.daemon.console.visits import View, Visit
from authorizerd.daemon.decisions.acl_list import ACLS_PATH
from authorizerd.daemon.errors import ClosingError
from authorizerd.protocol.decisions.acl_answers import AclAnswer
from authorizerd.protocol.decisions.acl_feed import ListedAcl, ListingBegin
from authorizerd.protocol.decisions.acl_filters import (
    AS_OF_PARAMETER,
    FILTER_PARAMETERS,
    QueryError,
    check_names,
)
from authorizerd.protocol.http.streamed import StreamedResponse

COLUMNS: Final = {
    "principal": "Principal",
    "permission_type": "Permission",
    "operation": "Operation",
    "resource_type": "Resource",
    "resource_name": "Name",
    "pattern_type": "Pattern",
    "host": "Host",
}
_FIELDS: Final = (*FILTER_PARAMETERS, AS_OF_PARAMETER)
_ACLS_PER_STEP: Final = 64
_decode_acl: Final = msgspec.json.Decoder(ListedAcl).decode
_decode_begin: Final = msgspec.json.Decoder(ListingBegin).decode


def _names(codes: type[Code]) -> tuple[str, ...]:
    """Return the names that a filter may have, but for ANY."""
    return tuple(each.name for each in codes if each.name not in ("UNKNOWN", "ANY"))


_CHOICES: Final = {
    "resource_types": _names(ResourceType),
    "pattern_types": _names(PatternType),
    "operations": _names(Operation),
    "permission_types": _names(PermissionType),
}


def read_cells(acl: AclAnswer) -> tuple[str, ...]:
    """Return the texts of an ACL's columns."""
    return (
        acl.principal,
        acl.permission_type,
        acl.operation,
        acl.resource_type,
        acl.resource_name,
        acl.pattern_type,
        acl.host,
    )


class LineSelection:
    """Leave out lines of JSON that cannot have a text, before they are decoded.

    Each ACL that has the text in a column, in any case, has it in its line, too.
    """

    def __init__(self, search: str) -> None:
        self._wanted: Final = search.casefold()
        # Lines may have other characters of a name as escapes.
        self._is_usable: Final = self._wanted.isprintable() and not {*'"\\'} & {*self._wanted}

    def __call__(self, lines: Sequence[bytes]) -> Sequence[bytes]:
        """Return the lines that may have the text; call it with few at a time."""
        if not (self._wanted and self._is_usable):
            return lines
        if not self._may_have(b"\n".join(lines)):  # the usual case, and much quicker
            return ()
        return [line for line in lines if self._may_have(line)]

    def _may_have(self, data: bytes) -> bool:
        return self._wanted in data.decode().casefold()


class Listing:
    """A listing of ``GET /v1/acls``. Use ``read`` once, or ``close``.

    Args:
        search: ACLs without this text may be left out.
    """

    def __init__(self, response: StreamedResponse, search: str) -> None:
        self._response: Final = response
        self._select: Final = LineSelection(search)
        self.begin: ListingBegin | None = None

    @property
    def close(self) -> Callable[[], None]:
        return self._response.close

    async def read(self, add: Add[AclAnswer]) -> None:
        """Pass on all ACLs, some at a time."""

        async def take(data: bytes) -> None:
            lines = data.split(b"\n")
            if self.begin is None:
                self.begin = _decode_begin(lines.pop(0))
            for start in range(0, len(lines), _ACLS_PER_STEP):
                some = self._select(lines[start : start + _ACLS_PER_STEP])
                await add([_decode_acl(each).acl for each in some if each.startswith(b'{"id"')])
                await pause_if_due()

        begin_turn()
        await self._response.write(take)


async def open_listing(visit: Visit) -> Listing:
    """Return the listing that a visit asks for. Empty fields match every ACL.

    Raises:
        QuestionRefusedError, LoggedOutError: see ``Visit.ask``.
        QueryError: a field is unknown.
    """
    fields = visit.parameters
    check_names(dict(fields), (*_FIELDS, *TABLE_FIELDS))
    query = {name: fields[name] for name in _FIELDS if fields.get(name)}
    response = await visit.send("GET", ACLS_PATH, query)
    assert isinstance(response, StreamedResponse), "a listing has no fixed length"
    return Listing(response, fields.get("search", ""))


class AclsPage:
    """Show the ACLs that match, sorted, page by page."""

    async def __call__(self, visit: Visit) -> View:
        """Show the form, and the table."""
        fields = visit.parameters
        table, begin, failure, status = None, None, "", 200
        try:
            listing = await open_listing(visit)
            try:
                rows = SortedRows(fields, COLUMNS)
                await listing.read(lambda acls: rows.add([*map(read_cells, acls)]))
            finally:
                listing.close()
            await rows.cut()
            begin = listing.begin
            table = await make_table(visit.request.path, fields, COLUMNS, rows)
        except QueryError as error:
            failure, status = str(error), 400
        except QuestionRefusedError as error:
            failure, status = str(error), error.status
        except ClosingError as error:
            failure, status = f"{error}: try again", 503
        return View(
            template="acls.html.jinja",
            context={
                "fields": dict.fromkeys((*_FIELDS, *TABLE_FIELDS), "") | dict(fields),
                **_CHOICES,
                "table": table,
                "begin": begin,
                "failure": failure,
                "query": visit.request.query,
            },
            status=status,
        )


async def download_acls(visit: Visit) -> StreamedResponse:
    """Send all ACLs that match."""
    listing = await open_listing(visit)
    return export("acls", visit, COLUMNS, read_cells, listing.read, listing.close)
