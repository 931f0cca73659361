"""Assertions about access, as values, and their words: principals, operations, names, hosts.

An assertion says who may do what, where, and from which hosts. Both written forms, fields and
sentences, are read into these values, so equal assertions are judged in the same way.

**Invariant:** nothing is guessed. A word that could be a typo is an error, and the error names the
closest known word. Every function that reads raises ``WordError`` for what it cannot read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Final, TypeAlias

import msgspec

from authorizerd.acl.hosts import host_address
from authorizerd.acl.model import WILDCARD, WILDCARD_PRINCIPAL, Operation, ResourceType
from authorizerd.acl.operations import SUPPORTED
from authorizerd.acl.text.kafka_acls import RESOURCE_FLAGS
from authorizerd.acl.text.letter_case import ascii_lower, ascii_upper


class Names(msgspec.Struct, frozen=True):
    """Names of resources: ``text`` itself, or every name that begins with it.

    A prefix includes names that begin with ``*`` only in assertions that nobody may do something:
    Kafka's own wildcard does not match them.
    """

    text: str
    is_prefix: bool = False


class Each(msgspec.Struct, frozen=True, tag=True):
    """Each of these principals; nothing is said about others."""

    principals: tuple[str, ...]


class Everyone(msgspec.Struct, frozen=True, tag=True):
    """Every principal, including those that no ACL names."""


class AtMost(msgspec.Struct, frozen=True, tag=True):
    """At most ``count`` principals, without those of ``besides``.

    With ``besides_super_users``, super users do not count either.
    """

    count: int
    besides: tuple[str, ...] = ()
    besides_super_users: bool = False


Who: TypeAlias = Each | Everyone | AtMost


class Assertion(msgspec.Struct, frozen=True, kw_only=True):
    """One assertion.

    Attributes:
        is_allowed: whether ``who`` may; False only with ``Each``.
        operations: codes that the resource type supports.
        hosts: addresses as Kafka compares them. Empty: access, or its absence, is asserted from
            every host.
    """

    who: Who
    is_allowed: bool
    operations: tuple[int, ...]
    resource_type: int
    names: tuple[Names, ...]
    hosts: tuple[str, ...] = ()


GROUP_SIGN: Final = "$"
SUPER_USERS: Final = "$super_users"
COUNT_MAX: Final = 1_000_000
SUGGESTED_CHARACTERS_MAX: Final = 64
"""The maximum length to compare: longer words would take long, and no known word resembles them."""

Groups: TypeAlias = Mapping[str, tuple[str, ...]]
"""Named groups of principals, without the ``$`` that refers to one."""

_USER: Final = "User"

RESOURCE_WORDS: Final[Mapping[str, ResourceType]] = RESOURCE_FLAGS
"""The types whose resources have names. The words are those of kafka-acls' flags."""

_OPERATIONS: Final[Mapping[str, Operation]] = {
    each.name.replace("_", ""): each for each in Operation if each >= Operation.ALL
}


class WordError(Exception):
    """A word that cannot be read; the text says what was expected and what was found."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `` (did you mean X?)`` with the closest known word, or an empty text."""
    if len(word) > SUGGESTED_CHARACTERS_MAX:
        return ""
    close = get_close_matches(word, list(known), n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def read_principal(text: str) -> str:
    """Return the principal ``Type:name``; a name alone is that of a ``User``."""
    kind, colon, name = text.partition(":")
    if not colon:
        kind, name = _USER, text
    if not (kind and name):
        raise WordError(f"expected a principal, Type:name or a user's name, found {text!r}")
    principal = f"{kind}:{name}"
    if principal == WILDCARD_PRINCIPAL:
        raise WordError(
            f"{WILDCARD_PRINCIPAL} is not one principal: write 'everyone', or 'nobody but …'"
        )
    if kind != _USER and ascii_lower(kind) == ascii_lower(_USER):
        raise WordError(
            f"unknown principal type {kind!r}: Kafka distinguishes upper and lower case (did you "
            f"mean {_USER}:{name}?)"
        )
    if name.endswith(WILDCARD):
        raise WordError(f"expected one principal, found {text!r}: principals have no patterns")
    return principal


def read_principals(text: str, groups: Groups) -> tuple[str, ...]:
    """Return the principal, or those of the group ``$name``. ``$super_users`` stays as it is."""
    if not text.startswith(GROUP_SIGN):
        return (read_principal(text),)
    if text == SUPER_USERS:
        return (SUPER_USERS,)
    members = groups.get(text.removeprefix(GROUP_SIGN))
    if members is None:
        known = [SUPER_USERS, *(f"{GROUP_SIGN}{name}" for name in groups)]
        raise WordError(
            f"unknown group {text!r}{did_you_mean(text, known)}: expected one of {', '.join(known)}"
        )
    return members


def read_operation(text: str, resource_type: int | None = None) -> tuple[int, ...]:
    """Return the operation's code; with a resource type, ``ALL`` gives all its operations.

    Upper and lower case, ``_`` and ``-`` do not matter.
    """
    operation = _OPERATIONS.get(ascii_upper(text).replace("_", "").replace("-", ""))
    names = [each.name for each in _OPERATIONS.values()]
    if operation is None:
        meant = did_you_mean(ascii_upper(text).replace("-", "_"), names)
        raise WordError(f"unknown operation {text!r}{meant}: expected one of {', '.join(names)}")
    if resource_type is None:
        return (int(operation),)
    supported = SUPPORTED[ResourceType(resource_type)]
    if operation is Operation.ALL:
        return tuple(map(int, supported))
    if operation not in supported:
        raise WordError(
            f"{operation.name} does not apply to {ResourceType(resource_type).name}: expected one "
            f"of {', '.join(each.name for each in supported)}, ALL"
        )
    return (int(operation),)


def read_names(text: str) -> Names:
    """Return the names that ``text`` stands for: one, or with a ``*`` at its end a prefix."""
    if not text:
        raise WordError("expected a name, found an empty text")
    name = text.removesuffix(WILDCARD)
    if WILDCARD in name:
        raise WordError(
            f"expected '*' only at the end, found {text!r}: Kafka has prefixes, and no other "
            "patterns"
        )
    return Names(name, is_prefix=name != text)


def read_host(text: str) -> str:
    """Return the address as Kafka compares it."""
    host = host_address(text)
    if host is None:
        raise WordError(
            f"expected an IP address, found {text!r}: Kafka compares addresses, not host names "
            "or networks"
        )
    return host


def read_count(text: str) -> int:
    # Check the length first: Python's int rejects a text of thousands of digits.
    is_plain = text.isascii() and text.isdigit() and len(text) <= len(str(COUNT_MAX))
    if not is_plain or int(text) > COUNT_MAX:
        raise WordError(f"expected a number from 0 to {COUNT_MAX}, found {text!r}")
    return int(text)


def new_at_most(count: int, besides: tuple[str, ...]) -> AtMost:
    """Return the quantifier of at most ``count`` principals; ``besides`` may have $super_users."""
    named = tuple(principal for principal in besides if principal != SUPER_USERS)
    return AtMost(count, named, besides_super_users=SUPER_USERS in besides)
