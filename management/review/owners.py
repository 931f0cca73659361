"""Read a file that says who owns which ACLs.

    owners:
      orders:
        - {resource_type: TOPIC, resource_name_prefix: orders-}
        - principal_prefix: User:orders-

An entry has the fields of an entry of a plan's ``manages``. An owner owns the ACLs that meet one of
its entries.

**Invariant:** nothing in a file is ignored; an error names the place and the line.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

import msgspec

from authorizerd.management.formats.model import AclTextError
from authorizerd.management.plan.errors import PlanError
from authorizerd.management.plan.selector import Managed, Selector, check_entry

NO_OWNER: Final = "no-owner"
"""The name of the files about ACLs that no owner owns."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}", re.ASCII)
_EXAMPLE: Final = "such as {resource_type: TOPIC, resource_name_prefix: orders-}"


class Owner(NamedTuple):
    """An owner, and the ACLs that it owns."""

    name: str
    selector: Selector


def read_owners(text: str) -> tuple[Owner, ...]:
    """Return the owners, in the order of the file.

    Raises:
        AclTextError: the text is not such a file.
    """
    # Imported here, because it loads PyYAML, which is slow.
    from authorizerd.management.formats.parsing import add_position, parse_document

    try:
        return tuple(_read(parse_document(text)))
    except AclTextError as error:
        raise add_position(error, text) from None


def _read(document: Any) -> list[Owner]:  # noqa: ANN401 - a YAML value
    if not isinstance(document, dict) or set(document) != {"owners"}:
        raise AclTextError("document", "expected one key, owners, with a list for each owner")
    owners = document["owners"]
    if not isinstance(owners, dict) or not owners:
        raise AclTextError("owners", "expected the names of owners, with a list for each")
    found: dict[str, Owner] = {}
    for name, entries in owners.items():
        place = f"owners.{name}"
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name.lower() == NO_OWNER:
            expected = f"at most 100 letters, digits, '-' and '_', and not {NO_OWNER}"
            raise AclTextError(place, f"files get this name: expected {expected}; quote a number")
        if name.lower() in found:
            raise AclTextError(place, f"expected one {name}: some systems ignore case in files")
        if not isinstance(entries, list) or not entries:
            raise AclTextError(place, f"expected a list of entries, {_EXAMPLE}")
        managed = (_read_entry(f"{place}[{number}]", each) for number, each in enumerate(entries))
        found[name.lower()] = Owner(name, Selector(managed))
    return list(found.values())


def _read_entry(place: str, value: Any) -> Managed:  # noqa: ANN401 - a YAML value
    try:
        entry = msgspec.convert(value, Managed)
        if entry == Managed():
            raise AclTextError(place, f"expected at least one field, {_EXAMPLE}")
        check_entry(entry, place)
    except msgspec.ValidationError as error:
        fields = ", ".join(Managed.__struct_fields__)
        raise AclTextError(place, f"{error}; the fields are {fields}") from error
    except PlanError as error:
        raise AclTextError(error.place, error.reason) from error
    return entry
