"""Describe a principal: whether it is a super user, or whether any ACL names it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Final

from authorizerd.acl.model import WILDCARD_PRINCIPAL
from authorizerd.acl.similar_principals import Likeness, Lookalikes
from authorizerd.acl.typos import shorten
from authorizerd.cli.acl_source import AclSource

COMPARED_MAX: Final = 100_000
"""The most principals that are compared with an unknown one. It takes less than a second."""


def is_named(source: AclSource, principal: str) -> bool:
    """Return True if an ACL or ``super.users``, if it is known, names exactly this principal."""
    if source.settings.is_super_user(principal):
        return True
    return any(index.principals.get(principal) is not None for index in source.snapshot.types)


def describe_principal(source: AclSource, principal: str) -> str:
    """Return the principal, with what explains its rights."""
    if source.settings.is_super_user(principal):
        return f"{principal} (a super user)"
    if is_named(source, principal):
        return principal
    similar = find_similar(source, principal)
    meant = "" if similar is None else f"; did you mean {similar}?"
    return f"{principal} (no ACL names it: this holds for everyone{meant})"


def find_similar(source: AclSource, principal: str) -> str | None:
    """Return the named principal that resembles this one most, or else differs by one typo."""
    asked, lookalikes = frozenset(shorten(principal)), Lookalikes(principal)
    similar: dict[Likeness, str] = {}
    close: str | None = None
    for other in islice(_list_principals(source), COMPARED_MAX):
        if lookalikes.may_be_among(other.casefold()):
            likeness = lookalikes.compare(other)
            if likeness is Likeness.SAME:
                return other
            if likeness is not None and other != WILDCARD_PRINCIPAL:
                similar.setdefault(likeness, other)
        if abs(len(other) - len(principal)) > 1:  # so for nearly all principals
            continue
        if close is None and not asked.isdisjoint(shorten(other)):
            close = other
    return similar[min(similar)] if similar else close


def _list_principals(source: AclSource) -> Iterator[str]:
    types = (index.principals for index in source.snapshot.types)
    return chain(sorted(source.settings.super_users or ()), chain.from_iterable(types))
