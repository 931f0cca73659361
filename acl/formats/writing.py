"""Separate the ACLs that a format can say from those that it cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from authorizerd.acl.formats.model import Loss
from authorizerd.acl.model import Acl


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
