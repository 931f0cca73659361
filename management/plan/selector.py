"""Select the ACLs that a plan manages. A plan neither adds nor removes any other ACL.

An ACL is managed if it meets one of the entries, and it meets an entry if it meets every field that
the entry has. Without entries, all ACLs are managed.

**Invariant:** a prefix never selects ``User:*`` or the pattern ``*``, which apply beyond the
prefix. Only an entry that names them selects them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

import msgspec

from authorizerd.acl.index.filter_index import FilterIndex
from authorizerd.acl.model import (
    CLUSTER_NAME,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from authorizerd.management.plan import names
from authorizerd.management.plan.errors import PlanError

EVERYTHING: Final = "everything"
Everything: TypeAlias = Literal["everything"]

_ANY: Final = "ANY"


class Managed(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """One entry of what a plan manages.

    Attributes:
        principal: exactly this principal.
        principal_prefix: principals that begin with this text, such as ``User:team-a-``.
        resource_type: patterns of this type.
        resource_name: as in kafka-acls, the name of a pattern, or with MATCH, of a resource.
        resource_name_prefix: patterns, literal or prefixed, whose names begin with this text.
        pattern_type: how ``resource_name`` is compared; without it LITERAL.
        host, operation, permission_type: exactly these. With all fields, an entry is one ACL.
    """

    principal: str | None = None
    principal_prefix: str | None = None
    resource_type: names.ResourceTypeName | None = None
    resource_name: str | None = None
    resource_name_prefix: str | None = None
    pattern_type: names.PatternFilterName | None = None
    host: str | None = None
    operation: names.OperationName | None = None
    permission_type: names.PermissionName | None = None


def check_entry(entry: Managed, place: str = "manages") -> None:
    """Check that the fields of an entry can be combined."""
    if entry == Managed():
        raise PlanError(
            place, "expected at least one field: without entries, the plan manages all ACLs"
        )
    fields = msgspec.structs.asdict(entry)
    for name, value in fields.items():
        if value == "":
            raise PlanError(f"{place}.{name}", "expected a text, found an empty one")
    for exact in ("principal", "resource_name"):
        if None not in (fields[exact], fields[f"{exact}_prefix"]):
            raise PlanError(place, f"expected either {exact} or {exact}_prefix, found both")
    # Only an entry for one ACL may name a principal without a colon, to remove that ACL.
    is_one = None not in (entry.resource_name, entry.host, entry.operation, entry.permission_type)
    if entry.principal is not None and ":" not in entry.principal and not is_one:
        raise PlanError(
            f"{place}.principal",
            f"expected Type:name, for example User:alice, found '{entry.principal}'",
        )
    _check_resource(entry, place)


def _check_resource(entry: Managed, place: str) -> None:
    name = entry.resource_name
    if entry.resource_type is None and not (name is None and entry.resource_name_prefix is None):
        raise PlanError(place, "expected resource_type as well as the name of a resource")
    if name is None and entry.pattern_type is not None:
        raise PlanError(place, "expected resource_name as well as pattern_type")
    if entry.resource_type == ResourceType.CLUSTER.name and name not in (None, CLUSTER_NAME):
        raise PlanError(
            f"{place}.resource_name", f"expected {CLUSTER_NAME} for CLUSTER, found '{name}'"
        )


class Selector:
    """Decide which ACLs a plan manages.

    Args:
        entries: what is managed, checked by ``check_entry``; None: all ACLs.
    """

    def __init__(self, entries: Iterable[Managed] | None) -> None:
        # Imported here, because help texts import this module, and need no index of ACLs.
        from authorizerd.acl.grants.reading import follow_note

        self._follow = follow_note
        self.entries = None if entries is None else tuple(dict.fromkeys(entries))
        self._exact = FilterIndex()
        self._prefixed: list[tuple[Managed, FilterIndex]] = []
        for entry in self.entries or ():
            is_exact = entry.principal_prefix is None and entry.resource_name_prefix is None
            index = self._exact if is_exact else FilterIndex()
            index.add(_filter_of(entry))
            if not is_exact:
                self._prefixed.append((entry, index))

    @property
    def document(self) -> tuple[Managed, ...] | Everything:
        """The entries in the form of a plan."""
        return EVERYTHING if self.entries is None else self.entries

    def manages(self, acl: Acl) -> bool:
        """Return True if the plan may add or remove ``acl``.

        The note of a grant follows its ACL. Only a plan of everything manages other notes.
        """
        if self.entries is None:
            return True
        followed = self._follow(acl)
        return followed is not None and self._meets_any(followed)

    def _meets_any(self, acl: Acl) -> bool:
        if any(True for _ in self._exact.look_up(acl)):
            return True
        return any(
            _meets_prefixes(entry, acl) and any(True for _ in index.look_up(acl))
            for entry, index in self._prefixed
        )


def _filter_of(entry: Managed) -> AclFilter:
    """Return the filter for an entry's fields, except the prefixes."""
    by_name = PatternType.ANY if entry.resource_name is None else PatternType.LITERAL
    return AclFilter(
        resource_type=ResourceType[entry.resource_type or _ANY],
        resource_name=entry.resource_name,
        pattern_type=PatternType[entry.pattern_type or by_name.name],
        principal=entry.principal,
        host=entry.host,
        operation=Operation[entry.operation or _ANY],
        permission_type=PermissionType[entry.permission_type or _ANY],
    )


def _meets_prefixes(entry: Managed, acl: Acl) -> bool:
    if entry.principal_prefix is not None and (
        acl.principal == WILDCARD_PRINCIPAL or not acl.principal.startswith(entry.principal_prefix)
    ):
        return False
    if entry.resource_name_prefix is None:
        return True
    if acl.resource_name == WILDCARD and acl.pattern_type == PatternType.LITERAL:
        return False
    return acl.resource_name.startswith(entry.resource_name_prefix)


def manage_one(acl: Acl) -> Managed:
    """Return the entry of exactly one ACL, whose codes must be known."""
    return msgspec.convert(names.name_fields(acl), Managed)


def describe_selector(selector: Selector) -> list[str]:
    """Return what is managed: one item per entry, or none if all ACLs are managed."""
    entries = map(msgspec.structs.asdict, selector.entries or ())
    return [
        ", ".join(f"{name}={value}" for name, value in entry.items() if value is not None)
        for entry in entries
    ]
