"""The page *ACLs*: the ACLs that a filter matches, and their download."""

from __future__ import annotations

from typing import Final

from authorizerd.acl.model import Code, Operation, PatternType, PermissionType, ResourceType
from authorizerd.daemon.console.errors import QuestionRefusedError
from authorizerd.daemon.console.tables import TABLE_FIELDS
from authorizerd.daemon.console.visits import Asked, Shown, Visit
from authorizerd.daemon.queries.acl_list import ACLS_PATH
from authorizerd.daemon.queries.tables import ACL_COLUMNS
from authorizerd.protocol.decisions.acl_filters import (
    AS_OF_PARAMETER,
    FILTER_PARAMETERS,
    QueryError,
    check_names,
)
from authorizerd.protocol.http.streamed import StreamedResponse

_FIELDS: Final = (*FILTER_PARAMETERS, AS_OF_PARAMETER)


def _names(codes: type[Code]) -> tuple[str, ...]:
    """Return the valid names in a filter, except ANY."""
    return tuple(code.name for code in codes if code.name not in ("UNKNOWN", "ANY"))


_CHOICES: Final = {
    "resource_types": _names(ResourceType),
    "pattern_types": _names(PatternType),
    "operations": _names(Operation),
    "permission_types": _names(PermissionType),
}


def _read_request(visit: Visit) -> Asked:
    """Return the request for the ACLs that a visit asks for. Empty fields match every ACL.

    Raises:
        QueryError: a field is unknown.
    """
    fields = visit.parameters
    check_names(dict(fields), (*_FIELDS, *TABLE_FIELDS))
    return "GET", ACLS_PATH, {name: fields[name] for name in _FIELDS if fields.get(name)}, b""


class AclsPage:
    """Show the ACLs that match, sorted, page by page."""

    async def __call__(self, visit: Visit) -> Shown:
        """Show the form, and the table."""
        fields = visit.parameters
        table, begin, failure, status = None, None, "", 200
        try:
            begin, table = await visit.show(_read_request(visit), ACL_COLUMNS)
        except QueryError as error:
            failure, status = str(error), 400
        except QuestionRefusedError as error:
            failure, status = str(error), error.status
        return Shown(
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
    return await visit.download("acls", _read_request(visit))
