"""The request of ``acls grant``, and what to change for one ACL, by the ACLs that are listed.

**Invariant:** an ACL that the listing has without a grant is neither given an end nor deleted. A
grant that may be deleted at any moment is neither extended nor made permanent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from authorizerd.acl.grants.model import Grant, make_grant_note
from authorizerd.acl.grants.reading import describe_end, format_utc
from authorizerd.acl.model import Acl
from authorizerd.cli.flags import Refuse

LATE_MS: Final = 30_000
"""So long before its end, a grant can no longer be kept: another process may already end it."""


class GrantRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request of ``acls grant``.

    Attributes:
        acls: the ACLs that are granted, each once.
        begin_ms: a later begin; None for now.
        end_ms: None if ``action`` needs no end.
        by: the author; None for the principal that the command logs in as.
        reason: None if an extension keeps the reason of the grant.
    """

    refuse: Refuse
    bootstrap_server: str | None = None
    command_config: str | None = None
    action: Literal["make", "extend", "permanent", "revoke"] = "make"
    acls: tuple[Acl, ...] = ()
    begin_ms: int | None = None
    end_ms: int | None = None
    by: str | None = None
    reason: str | None = None
    json: bool = False


class RefusedError(Exception):
    """The present ACLs do not permit the request. The text says why, and what to do."""


class Change(msgspec.Struct, frozen=True):
    """What to create and delete for one grant.

    Attributes:
        grant: the one afterwards, or the one that goes.
        is_last: False if the listing afterwards must show whether more is left to do.
    """

    grant: Grant
    create: tuple[Acl, ...] = ()
    delete: tuple[Acl, ...] = ()
    is_last: bool = True


class Listed(msgspec.Struct, frozen=True):
    """What a listing has for one ACL: its grants, the one that ends last at the end."""

    grants: Sequence[Grant]
    is_present: bool


def find_new(listed: Listed, new: Grant) -> Change:
    """Return how to make a grant, of which an earlier attempt may have made a part.

    Raises:
        RefusedError: the ACL exists, or is granted.
    """
    others = [grant for grant in listed.grants if grant.id != new.id]
    for other in others:
        if listed.is_present or other.is_waiting:
            waits = " and waiting" if other.is_waiting else ""
            raise RefusedError(
                f"use --extend for a later end: it is granted{waits} {describe_end(other)}"
            )
    if listed.is_present and not listed.grants:
        raise RefusedError("this ACL exists without an end, so there is nothing to grant")
    if others:
        # Their ACL was deleted, and nobody has deleted the notes yet. They must not last longer.
        return Change(new, delete=tuple(map(make_grant_note, others)), is_last=False)
    note = make_grant_note(new)
    return Change(new, (note,) if new.is_waiting else (new.acl, note))


def find_change(listed: Listed, request: GrantRequest, author: str, now_ms: int) -> Change:
    """Return how to extend or revoke a grant, or to make its ACL permanent.

    Raises:
        RefusedError: there is no such grant, or it ends too soon.
    """
    grants = [grant for grant in listed.grants if grant.is_waiting or listed.is_present]
    if not grants:
        found = "this ACL exists without an end" if listed.is_present else "this is not granted"
        raise RefusedError(f"expected a grant, but {found}")
    last = grants[-1]
    is_active = not all(grant.is_waiting for grant in grants)
    notes = tuple(map(make_grant_note, listed.grants))
    if request.action == "revoke":
        return Change(last, delete=(last.acl, *notes) if is_active else notes)
    if last.end_ms - now_ms < LATE_MS:
        raise RefusedError(
            f"it ends at {format_utc(last.end_ms)}, so it may be deleted at any moment: wait until "
            "it is gone, and grant or add it again"
        )
    if request.action == "permanent":
        if not is_active:
            raise RefusedError("it has not begun: --revoke it, and add the ACL")
        # Another daemon that identifies or begins grants may just be writing a note again.
        return Change(last, delete=notes, is_last=False)
    assert request.end_ms is not None, "the flags are checked"
    texts = {"author": author, "reason": request.reason or last.reason}
    longer = replace(last, end_ms=request.end_ms, **texts)
    # An earlier attempt may have made it, but not deleted the earlier ends.
    if longer != last and request.end_ms <= last.end_ms:
        raise RefusedError(f"expected a later end: it is granted {describe_end(last)}")
    new = make_grant_note(longer)
    return Change(longer, (new,), tuple(note for note in notes if note != new))


def is_reached(listed: Listed, request: GrantRequest, grant: Grant) -> bool:
    """Return True if a listing shows the result, no matter who caused it."""
    match request.action:
        case "permanent":
            return listed.is_present and not listed.grants
        case "revoke":
            return not (listed.is_present or listed.grants)
        case _:
            # The note may have changed since: it has begun, or the id of its ACL was added.
            return bool(listed.grants) and all(
                (each.id, each.end_ms) == (grant.id, grant.end_ms)
                and (each.is_waiting or listed.is_present)
                for each in listed.grants
            )
