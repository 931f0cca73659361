"""The table that ``rpk security acl list`` of Redpanda prints.

    PRINCIPAL   HOST  RESOURCE-TYPE  RESOURCE-NAME  RESOURCE-PATTERN-TYPE  OPERATION  PERMISSION  ERROR
    User:alice  *     TOPIC          orders         LITERAL                READ       ALLOW

ACLs of a role are also losses, because Redpanda alone knows who has the role.

**Invariant:** a cell begins where its heading begins, after a blank. Any other line is an error.
"""  # noqa: E501 - as rpk prints it

from __future__ import annotations

import re
from typing import Final

from authorizerd.acl.formats.model import AclsRead, AclTextError, Loss, Scope
from authorizerd.acl.formats.values import read_named_acl
from authorizerd.acl.model import Acl

HEADING: Final = re.compile(r"^PRINCIPAL +HOST +RESOURCE-TYPE .*", re.MULTILINE)

_COLUMNS: Final = (
    "PRINCIPAL",
    "HOST",
    "RESOURCE-TYPE",
    "RESOURCE-NAME",
    "RESOURCE-PATTERN-TYPE",
    "OPERATION",
    "PERMISSION",
)
_ERROR: Final = "ERROR"
_FILTERS: Final = "FILTERS"
_MATCHES: Final = "MATCHES"
"""The titles of two tables, with --print-filters; the second one has the ACLs."""
_ROLE: Final = "RedpandaRole:"


def read_table(text: str) -> AclsRead:
    """Return the ACLs of a table; lines before its heading, and its filters, are passed over.

    Raises:
        AclTextError: the table has other columns, a line is malformed, or an ACL is invalid.
    """
    acls: dict[Acl, None] = {}
    columns: list[tuple[str, int]] = []
    in_filters = False
    for number, ended in enumerate(text.split("\n"), 1):
        line, place = ended.rstrip("\r "), f"line {number}"
        if in_filters or (line == _FILTERS and not columns):
            in_filters = line != _MATCHES
        elif not columns:
            if HEADING.fullmatch(line):
                columns = _find_columns(place, line)
        elif line:
            acls[_read_line(place, line, columns)] = None
    losses = (
        Loss(acl, "only Redpanda knows who has the role")
        for acl in acls
        if acl.principal.startswith(_ROLE)
    )
    return AclsRead(tuple(acls), tuple(losses), None if acls else Scope())


def _find_columns(place: str, line: str) -> list[tuple[str, int]]:
    columns = [(match[0], match.start()) for match in re.finditer(r"\S+", line)]
    names = tuple(name for name, _ in columns)
    if names not in (_COLUMNS, (*_COLUMNS, _ERROR)):
        raise AclTextError(place, f"expected the columns {', '.join(_COLUMNS)}")
    return columns


def _read_line(place: str, line: str, columns: list[tuple[str, int]]) -> Acl:
    ends = [start for _, start in columns[1:]] + [len(line)]
    cells: dict[str, str] = {}
    for (name, start), end in zip(columns, ends, strict=True):
        if start and line[start - 1 : start].strip():
            raise AclTextError(place, f"expected a blank before the column {name}")
        cells[name] = line[start:end].rstrip(" ")
    if cells.get(_ERROR):
        raise AclTextError(place, f"rpk has reported an error: {cells[_ERROR][:80]!r}")
    return read_named_acl(
        place,
        principal=cells["PRINCIPAL"],
        host=cells["HOST"],
        resource=(cells["RESOURCE-TYPE"], cells["RESOURCE-NAME"], cells["RESOURCE-PATTERN-TYPE"]),
        operation=cells["OPERATION"],
        permission_type=cells["PERMISSION"],
    )
