"""Read a file of groups: YAML that has the members, or says how a directory has them.

Its form is in docs/governance.md.

**Invariant:** nothing is guessed. An unknown key, a repeated key and a value of the wrong type are
errors that name their place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final, TypeAlias

import msgspec

from authorizerd.management.formats.model import AclTextError
from authorizerd.management.formats.parsing import add_position, parse_yaml
from authorizerd.management.formats.values import DOCUMENT
from authorizerd.management.groups.claims import SET_NAME
from authorizerd.management.groups.errors import GroupsError
from authorizerd.management.groups.membership import GROUP, find_member_fault, resolve_groups

_PRINCIPAL: Final = r"([A-Za-z]+:[^{}]*)\{([A-Za-z][A-Za-z0-9-]*)\}([^{}]*)"
_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]


class Place(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a directory has entries: below ``base``, those that ``filter`` matches."""

    base: str
    filter: str


class LdapSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a directory is read.

    Attributes:
        principal: the principal of a person, with one attribute in braces. Without ``people``, it
            is the attribute with a group's members.
        bind_dn, password_file: for simple authentication.
        certificate, key: for SASL EXTERNAL.
        ca: the file with the certificates that are trusted; None: those of the system.
        name, member: the attributes with a group's name, and with its members: names of entries, or
            without ``people``, values for the principal.
        ignored_members: entries that are no members, such as the one that an empty group must have.
        page_size: entries in one answer.
        values_max: the maximum number of values of groups, and of people.
        timeout_seconds: for all of it.
    """

    url: Annotated[str, msgspec.Meta(pattern=r"^ldaps://[^\s/?#@]+/?$")]
    groups: Place
    people: Place | None = None
    principal: Annotated[str, msgspec.Meta(pattern=f"^{_PRINCIPAL}$")]
    bind_dn: str | None = None
    password_file: str | None = None
    certificate: str | None = None
    key: str | None = None
    ca: str | None = None
    name: str = "cn"
    member: str = "member"
    ignored_members: tuple[str, ...] = ()
    page_size: _Count = 500
    values_max: _Count = 1_000_000
    timeout_seconds: _Count = 60

    @property
    def principal_parts(self) -> tuple[str, str, str]:
        """The text before the attribute of the principal, the attribute, and the text after it."""
        found = re.fullmatch(_PRINCIPAL, self.principal)
        assert found is not None, "the pattern is checked"
        return found[1], found[2], found[3]


class GroupsFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of groups: the direct members of each, or where a directory has them."""

    set: Annotated[str, msgspec.Meta(pattern=f"^{SET_NAME.pattern}$")]
    may_be_empty: frozenset[str] = frozenset()
    groups: dict[str, tuple[str, ...]] | None = None
    ldap: LdapSettings | None = None


def read_groups_file(text: str) -> GroupsFile:
    """Return the content of a file.

    Raises:
        GroupsError: it has an error; ``place`` has the line, if it is known.
    """
    try:
        file: GroupsFile = msgspec.convert(parse_yaml(text), GroupsFile)
        if (file.groups is None) is (file.ldap is None):
            raise AclTextError(DOCUMENT, "expected either groups or ldap")
        if file.groups is not None:
            _check_groups(file.groups)
            resolve_groups(file.groups, file.groups, file.may_be_empty)  # also those not named
        if file.ldap is not None:
            _check_ldap(file.ldap)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$")
        place = path.strip(".`") or DOCUMENT
        raise _new_error(AclTextError(place, reason), text) from error
    except AclTextError as error:
        raise _new_error(error, text) from error
    return file


def _new_error(error: AclTextError, text: str) -> GroupsError:
    placed = add_position(error, text)
    return GroupsError(placed.place, placed.reason)


def _check_groups(groups: Mapping[str, tuple[str, ...]]) -> None:
    for name, members in groups.items():
        fault = find_member_fault(f"{GROUP}{name}")
        if fault is not None:
            raise AclTextError("groups", fault, key=name)
        for number, member in enumerate(members):
            fault = find_member_fault(member)
            if fault is None and member in members[:number]:
                fault = f"repeats {member}"
            if fault is not None:
                raise AclTextError(f"groups.{name}[{number}]", fault)


def _check_ldap(ldap: LdapSettings) -> None:
    has_password, has_certificate = ldap.bind_dn is not None, ldap.certificate is not None
    if has_password is has_certificate:
        raise AclTextError("ldap", "expected either bind_dn, or certificate for SASL EXTERNAL")
    if has_password is (ldap.password_file is None) or has_certificate is (ldap.key is None):
        raise AclTextError("ldap", "expected bind_dn with password_file, or certificate with key")
    before, attribute, after = ldap.principal_parts
    fault = find_member_fault(f"{before}x{after}")
    if before.startswith(GROUP):
        fault = "expected a principal of clients, not of a group"
    if fault is not None:
        raise AclTextError("ldap.principal", fault)
    if (ldap.people is None) is not (attribute == ldap.member):
        raise AclTextError(
            "ldap",
            f"expected people, who have {attribute}, or principal with {{{ldap.member}}}",
        )
