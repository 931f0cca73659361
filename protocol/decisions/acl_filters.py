"""The query of ``GET /v1/acls``: a filter of ACLs with Kafka's names."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl

from authorizerd.acl.as_of import AsOf, parse_as_of
from authorizerd.acl.errors import InvalidAsOfError
from authorizerd.acl.model import (
    AclFilter,
    Code,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from authorizerd.acl.text.letter_case import ascii_upper
from authorizerd.protocol.json_faults import quote

FILTER_PARAMETERS: Final = (
    "resource_type",
    "resource_name",
    "pattern_type",
    "principal",
    "host",
    "operation",
    "permission_type",
)
AS_OF_PARAMETER: Final = "as_of"
_PARAMETERS_MAX: Final = 16
_ANY: Final = "ANY"


class QueryError(Exception):
    """The query of a request is invalid. The text names the parameter and what was expected."""


def parse_query(query: str) -> dict[str, str]:
    """Return the parameters of a query, percent-decoded.

    Raises:
        QueryError: a parameter is repeated, there are too many, or one is not UTF-8.
    """
    try:
        pairs = parse_qsl(
            query, keep_blank_values=True, errors="strict", max_num_fields=_PARAMETERS_MAX
        )
    except ValueError:
        raise QueryError(
            f"invalid query: expected at most {_PARAMETERS_MAX} parameters in UTF-8"
        ) from None
    parameters: dict[str, str] = {}
    for name, value in pairs:
        if name in parameters:
            raise QueryError(f"the parameter {quote(name)} occurs twice")
        parameters[name] = value
    return parameters


def read_filter(parameters: dict[str, str]) -> AclFilter:
    """Return the filter in a query's parameters. An absent parameter matches every value.

    Raises:
        QueryError: a parameter or a name is unknown.
    """
    check_names(parameters, (*FILTER_PARAMETERS, AS_OF_PARAMETER))
    return AclFilter(
        resource_type=_read_code(parameters, "resource_type", ResourceType),
        resource_name=parameters.get("resource_name"),
        pattern_type=_read_code(parameters, "pattern_type", PatternType),
        principal=parameters.get("principal"),
        host=parameters.get("host"),
        operation=_read_code(parameters, "operation", Operation),
        permission_type=_read_code(parameters, "permission_type", PermissionType),
    )


def read_as_of(parameters: dict[str, str], name: str = AS_OF_PARAMETER) -> AsOf | None:
    """Return the moment that a field of a query names, None without the field.

    Raises:
        QueryError: it is neither an offset nor a time with its zone.
    """
    value = parameters.get(name)
    if value is None:
        return None
    try:
        return parse_as_of(value)
    except InvalidAsOfError as error:
        hint = "; in a URL, encode + as %2B" if _has_lost_plus(value) else ""
        raise QueryError(f"{name}: {error}{hint}") from None


def _has_lost_plus(time: str) -> bool:
    """Return True if a time would be valid with ``+`` instead of its last space.

    A ``+`` in a query means a space.
    """
    try:
        parse_as_of("+".join(time.rsplit(" ", 1)))
    except InvalidAsOfError:
        return False
    return True


def check_names(parameters: dict[str, str], expected: tuple[str, ...]) -> None:
    """Check that a query has only these parameters.

    Raises:
        QueryError: it has a different one.
    """
    for name in parameters:
        if name not in expected:
            names = f"one of {', '.join(expected)}" if expected else "none"
            raise QueryError(f"unknown parameter {quote(name)}: expected {names}")


def _read_code(parameters: dict[str, str], name: str, codes: type[Code]) -> Code:
    value = parameters.get(name, _ANY)
    code = codes.named(ascii_upper(value))
    if not code:  # UNKNOWN, whose code is 0, is not a filter
        expected = ", ".join(each.name for each in codes if each)
        raise QueryError(f"{name}: unknown value {quote(value)}: expected one of {expected}")
    return code
