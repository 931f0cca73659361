"""Separate the ACLs that a format can say from those that it cannot."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Final

from authorizerd.acl.formats.model import Loss
from authorizerd.acl.model import Acl

_NAME_CHARACTERS_MAX: Final = 100
"""Of a key that we name. YAML's keys have at most 1,024 characters."""


def keep_writable(
    acls: Iterable[Acl], why_not: Callable[[Acl], str | None]
) -> tuple[list[Acl], tuple[Loss, ...]]:
    """Return the ACLs without a fault, and a loss for each other; each in order, without repeats.

    Args:
        why_not: returns why an ACL cannot be written, or None if it can.
    """
    kept: list[Acl] = []
    losses: list[Loss] = []
    for acl in dict.fromkeys(acls):
        reason = why_not(acl)
        if reason is None:
            kept.append(acl)
        else:
            losses.append(Loss(acl, reason))
    return kept, tuple(losses)


def free_name(text: str, taken: Container[str]) -> str:
    """Return the beginning of ``text``, with a number if the name is taken."""
    name = start = text[:_NAME_CHARACTERS_MAX]
    number = 1
    while name in taken:
        number += 1
        name = f"{start} ({number})"
    return name
