"""The members of a directory's groups, from the entries that LDAP returned.

**Invariant:** an entry never becomes a principal that is not its own. A member that has no entry,
a value that would change what the principal means, two people with one name, and an attribute that
has only a part of its values are errors that name the entry.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

import msgspec

from authorizerd.acl.risks import ANONYMOUS
from authorizerd.acl.text.letter_case import ascii_lower
from authorizerd.management.groups.errors import GroupsError
from authorizerd.management.groups.file import LdapSettings
from authorizerd.management.groups.membership import GROUP

NameKey: TypeAlias = object
"""A value that is equal for equal names of entries, and only for these."""
ParseName: TypeAlias = Callable[[str], NameKey]
"""Return the key of a distinguished name; ValueError if it is not one."""

_VALUE: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._@$-]*[A-Za-z0-9_$-])?", re.ASCII)
"""What a principal may contain of a directory. So no value adds a type, a wildcard or a blank."""


class Entry(msgspec.Struct, frozen=True):
    """An entry of a directory: its distinguished name, and its attributes as they were returned."""

    name: str
    attributes: Mapping[str, list[bytes]]

    def get(self, attribute: str) -> list[str]:
        """Return all values of an attribute, whose letter case does not matter.

        Raises:
            GroupsError: not all values are there, or one is not text.
        """
        found: list[bytes] = []
        for key, values in self.attributes.items():
            word, option, _ = ascii_lower(key).partition(";")
            if word != ascii_lower(attribute):
                continue
            if option:
                raise GroupsError(
                    self.name,
                    f"the directory returned only a part of the values, {key}: let it return all "
                    "(MaxValRange of Active Directory), or split the group",
                    "partial",
                )
            found = values
        try:
            return [value.decode() for value in found]
        except UnicodeDecodeError:
            raise GroupsError(self.name, f"a value of {attribute} is not UTF-8") from None


def read_direct_members(
    settings: LdapSettings,
    groups: Iterable[Entry],
    people: Iterable[Entry],
    names: Collection[str],
    parse_name: ParseName,
) -> dict[str, tuple[str, ...]]:
    """Return the direct members of the groups ``names``, and of the groups within them.

    Other groups are not looked at, so their faults do not matter.
    """
    reader = _Reader(settings, groups, people, parse_name)
    direct: dict[str, tuple[str, ...]] = {}
    waiting = [name for name in names if name in reader.by_name]
    while waiting:
        name = waiting.pop()
        if name not in direct:
            direct[name] = tuple(reader.list_members(name))
            waiting += (each.removeprefix(GROUP) for each in direct[name] if each[:6] == GROUP)
    return direct


class _Reader:
    def __init__(
        self,
        settings: LdapSettings,
        groups: Iterable[Entry],
        people: Iterable[Entry],
        parse_name: ParseName,
    ) -> None:
        self._settings = settings
        self._before, self._attribute, self._after = settings.principal_parts
        self._parse_name = parse_name
        self._ignored = {self._parse(settings.url, each) for each in settings.ignored_members}
        self.by_name: dict[str, list[Entry]] = {}
        self._groups = self._index(groups)
        for entry in self._groups.values():
            for name in entry.get(settings.name):
                self.by_name.setdefault(name, []).append(entry)
        self._people = self._index(people)
        self._owners: dict[str, list[Entry]] = {}
        for entry in self._people.values():
            for value in entry.get(self._attribute):
                self._owners.setdefault(value.casefold(), []).append(entry)

    def _index(self, entries: Iterable[Entry]) -> dict[NameKey, Entry]:
        found: dict[NameKey, Entry] = {}
        for entry in entries:
            same = found.setdefault(self._parse(entry.name, entry.name), entry)
            if same is not entry:
                raise GroupsError(entry.name, f"equal to {same.name}, but for case")
        return found

    def _parse(self, place: str, name: str) -> NameKey:
        try:
            return self._parse_name(name)
        except ValueError:
            raise GroupsError(place, f"expected the name of an entry, found {name!r}") from None

    def list_members(self, name: str) -> Iterator[str]:
        entry, *others = self.by_name[name]
        if others:
            raise GroupsError(entry.name, f"{others[0].name} has the same name, {name}: rename it")
        self._get_one(entry, self._settings.name)
        members = entry.get(self._settings.member)
        if self._settings.people is None:
            yield from (self._new_principal(entry, member) for member in members)
            return
        for member in members:
            key = self._parse(entry.name, member)
            if key in self._ignored:
                continue
            group = self._groups.get(key)
            if group is None:
                person = self._find_person(entry, member, key)
                yield self._new_principal(person, self._get_one(person, self._attribute))
            else:
                yield GROUP + self._get_one(group, self._settings.name)

    def _get_one(self, entry: Entry, attribute: str) -> str:
        values = entry.get(attribute)
        if len(values) != 1:
            raise GroupsError(entry.name, f"expected one value of {attribute}, found {len(values)}")
        return values[0]

    def _find_person(self, group: Entry, member: str, key: NameKey) -> Entry:
        person = self._people.get(key)
        if person is None:
            raise GroupsError(
                group.name,
                f"the member {member} is neither one of people nor of groups: remove it from the "
                "group, or let base and filter include it",
            )
        return person

    def _new_principal(self, entry: Entry, value: str) -> str:
        attribute = self._attribute
        if not _VALUE.fullmatch(value):
            raise GroupsError(
                entry.name,
                f"{attribute} has {value!r}: expected ASCII letters and digits, and within them "
                "'.', '_', '@', '$' and '-'",
            )
        owners = self._owners.get(value.casefold(), ())
        if len(owners) > 1:
            names = " and ".join(each.name for each in owners[:2])
            raise GroupsError(entry.name, f"{names} have the same {attribute}, {value}")
        principal = f"{self._before}{value}{self._after}"
        if principal == ANONYMOUS:
            raise GroupsError(entry.name, f"{principal} is every client that does not log in")
        return principal
