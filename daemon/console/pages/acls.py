"""The page *ACLs*: those that a filter matches, and their downloads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from authorizerd.acl.model import Code, Operation, PatternType, PermissionType, ResourceType
from authorizerd.actors.steps import begin_turn, pause_if_due
from authorizerd.daemon.console.errors import QuestionRefusedError
from authorizerd.daemon.console.exports import Add, export
from authorizerd.daemon.console.tables import (
    TABLE_FIELDS,
    FullError,
    Rows,
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


class Listing:
    """A listing of ``GET /v1/acls``. Use ``read`` once, or ``close``."""

    def __init__(self, response: StreamedResponse) -> None:
        self._response: Final = response
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
                some = lines[start : start + _ACLS_PER_STEP]
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
    return Listing(response)


class AclsPage:
    """Show the first ACLs that match, sorted."""

    async def __call__(self, visit: Visit) -> View:
        """Show the form, and the table."""
        fields = visit.parameters
        table, begin, failure, status = None, None, "", 200
        try:
            listing = await open_listing(visit)
            rows = Rows(fields.get("search", ""))
            try:
                await listing.read(lambda acls: rows.add([*map(read_cells, acls)]))
            except FullError:
                pass  # the table says so
            finally:
                listing.close()
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
