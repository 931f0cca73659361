"""ACLs as CSV, as Kafka UI, Kafka Security Manager and AKHQ export them.

    Principal,ResourceType,PatternType,ResourceName,Operation,PermissionType,Host
    "User:CN=a,OU=b",TOPIC,LITERAL,orders,READ,ALLOW,*

The first line names the columns, in any order. Without ``PatternType``, as before Kafka 2.0, all
patterns are literal.

**Invariant:** names are neither trimmed nor guessed: a blank around a name is an error, because
some of these tools would keep it and others would not.

Source: AclCsv of Kafka UI; CsvAclParser of Kafka Security Manager; RFC 4180.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import astuple

from authorizerd.acl.model import Acl
from authorizerd.management.formats import values
from authorizerd.management.formats.model import AclsRead, AclsWritten, AclTextError, Scope

_SHAPE: Final = values.AclShape(
    {
        "Principal": "principal",
        "ResourceType": "resource_type",
        "PatternType": "pattern_type",
        "ResourceName": "resource_name",
        "Operation": "operation",
        "PermissionType": "permission_type",
        "Host": "host",
    },
    is_line=True,
)
_COLUMNS: Final = tuple(_SHAPE.keys)
_TEXTS: Final = ("Principal", "ResourceName", "Host")
_PATTERN_TYPE: Final = "PatternType"
_OTHER_PRINCIPAL: Final = "KafkaPrincipal"


def read(text: str) -> AclsRead:
    """Return the ACLs of a CSV."""
    acls = tuple(dict.fromkeys(_read_rows(text)))
    return AclsRead(acls, scope=None if acls else Scope())


def _read_rows(text: str) -> Iterator[Acl]:
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    columns: list[str] = []
    while True:
        place = f"line {rows.line_num + 1}"
        try:
            row = next(rows, None)
        except csv.Error as error:
            raise AclTextError(place, f"not CSV: {error}") from error
        if row is None:
            return
        if not row:
            continue
        if columns:
            yield _read_row(place, columns, row)
        else:
            columns = _read_heading(place, row)


def _read_heading(place: str, row: list[str]) -> list[str]:
    columns = ["Principal" if each == _OTHER_PRINCIPAL else each for each in map(str.strip, row)]
    if sorted({*columns, _PATTERN_TYPE}) != sorted(_COLUMNS) or len(columns) != len({*columns}):
        raise AclTextError(place, f"expected the columns {', '.join(_COLUMNS)} in the first line")
    return columns


def _read_row(place: str, columns: list[str], row: list[str]) -> Acl:
    if len(row) != len(columns):
        raise AclTextError(place, f"expected {len(columns)} values, found {len(row)}")
    cells = {_PATTERN_TYPE: "LITERAL", **dict(zip(columns, row, strict=True))}
    for name, cell in cells.items():
        if name not in _TEXTS:
            cells[name] = cell.strip()
        elif cell != cell.strip(" \t"):
            raise AclTextError(place, f"expected no blanks around {name}, found {cell!r}")
    return values.check_creatable(place, _SHAPE.read(place, cells))


def write(acls: Sequence[Acl]) -> AclsWritten:
    """Return a line for each ACL, sorted, in the form of Kafka UI."""
    kept, losses = values.keep_writable(
        acls, lambda acl: values.why_not_creatable(acl) or _why_not_cells(acl)
    )
    file = io.StringIO(newline="")
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(_COLUMNS)
    rows.writerows(_SHAPE.write(acl).values() for acl in sorted(kept, key=astuple))
    return AclsWritten(file.getvalue(), losses)


def _why_not_cells(acl: Acl) -> str | None:
    texts = (acl.principal, acl.resource_name, acl.host)
    if any(text != text.strip(" \t") for text in texts):
        return "some tools trim names in CSV"
    if any(character in text for text in texts for character in '"\n\r\0'):
        return "not every tool reads quotes and line breaks in CSV"
    return None
