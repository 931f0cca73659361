"""Assertions about access, as values.

An assertion says who may do what, where, and from which hosts:

- ``Each`` of some principals may do all of the operations on all of the resources, or none of them
  on any.
- ``Everyone`` may: every principal, whether an ACL names it or not.
- ``AtMost`` a number of principals may do any of the operations on any of the resources. "Nobody
  but X" is at most none besides X.

**Invariant:** both written forms, fields and sentences, are read into these values, so equal
assertions are judged in the same way.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class Names(msgspec.Struct, frozen=True):
    """Names of resources: ``text`` itself, or every name that begins with it.

    Names that begin with ``*`` are part of a prefix only for assertions that nobody may: Kafka's
    own wildcard does not match them.
    """

    text: str
    is_prefix: bool = False


class Each(msgspec.Struct, frozen=True, tag=True):
    """Each of these principals, and nobody else is spoken of."""

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
        hosts: addresses as Kafka compares them. Empty: access is asserted from every host, and its
            absence from every host, too.
    """

    who: Who
    is_allowed: bool
    operations: tuple[int, ...]
    resource_type: int
    names: tuple[Names, ...]
    hosts: tuple[str, ...] = ()
