"""What a plan does about grants: ACLs with an end, which notes record.

**Invariant:** a plan never changes the end of a grant. It keeps the grants that the desired ACLs do
not name, with their notes. It deletes the notes of a grant only if its ACL is desired without them,
so that the ACL becomes permanent. It never gives an end to an ACL that has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from msgspec.structs import replace

from authorizerd.acl.grants.model import Grant, make_grant_note, read_grant_note
from authorizerd.acl.grants.reading import describe_grant, format_utc, read_grants
from authorizerd.acl.model import Acl
from authorizerd.acl.notes import NoteError, is_note
from authorizerd.management.plan.errors import PlanError
from authorizerd.management.plan.selector import Selector

_SHOWN_MAX: Final = 20


class Settled(msgspec.Struct, frozen=True):
    """The ACLs and notes that a plan should lead to, and sentences for its reviewer.

    Attributes:
        left_out: which desired grants are not made, and why.
        kept: how many grants are kept that are not desired.
    """

    desired: tuple[Acl, ...]
    left_out: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        return self.left_out + self.kept


def settle_grants(
    present: Iterable[Acl], desired: Iterable[Acl], selector: Selector, now_ms: int
) -> Settled:
    """Return what a plan should lead to, if these ACLs are desired.

    Args:
        now_ms: a desired grant that has ended by then is left out.

    Raises:
        PlanError: a desired note cannot be read, and is not present.
    """
    held = frozenset(present)
    wanted = dict.fromkeys(desired)
    asked = _read_desired(wanted, held)
    there: dict[Acl, list[Grant]] = {}
    for grant in read_grants(held).grants:
        there.setdefault(grant.acl, []).append(grant)
    wanted |= dict.fromkeys(acl for acl in held if _is_other(acl) and selector.manages(acl))
    left_out: list[str] = []
    kept: list[Grant] = []
    for acl in filter(selector.manages, dict.fromkeys((*asked, *there))):
        asking, grants = asked.get(acl, []), there.get(acl, [])
        for note in map(make_grant_note, asking):
            del wanted[note]
        if not asking and acl in wanted:
            continue  # without its notes, it becomes permanent
        # An active grant has its ACL, unless somebody has deleted it.
        has_begun = (now_ms >= each.begin_ms or not each.is_waiting for each in asking)
        is_active = any(has_begun) or not all(each.is_waiting for each in grants)
        if is_active and acl in held:
            wanted[acl] = None
        elif is_active:
            wanted.pop(acl, None)
        if grants:
            wanted |= dict.fromkeys(map(make_grant_note, grants))
            kept += () if asking else grants
        else:
            left_out += _settle_new(asking[-1], wanted, now_ms)
    return Settled(tuple(wanted), tuple(left_out), tuple(_describe_kept(kept)))


def _settle_new(grant: Grant, wanted: dict[Acl, None], now_ms: int) -> Iterator[str]:
    """Add a grant that is not present, unless it must be left out; yield why it is."""
    if grant.acl in wanted:
        yield f"this ACL has no end, and the plan gives it none: {describe_grant(grant)}"
    elif now_ms >= grant.end_ms:
        yield f"this grant has ended, and is left out: {describe_grant(grant)}"
    else:
        is_waiting = now_ms < grant.begin_ms
        new = make_grant_note(replace(grant, is_waiting=is_waiting, acl_id=None))
        wanted |= dict.fromkeys((new,) if is_waiting else (grant.acl, new))


def _is_other(acl: Acl) -> bool:
    """Return True for a note that is not one of a grant, or cannot be read."""
    try:
        return is_note(acl) and read_grant_note(acl) is None
    except NoteError:
        return True


def _read_desired(wanted: Iterable[Acl], held: frozenset[Acl]) -> dict[Acl, list[Grant]]:
    """Return the desired grants of each ACL, the one that ends last at the end."""
    found = read_grants(acl for acl in wanted if acl not in held)
    if found.faults:
        raise PlanError("", found.faults[0])
    asked: dict[Acl, list[Grant]] = {}
    for grant in read_grants(wanted).grants:
        asked.setdefault(grant.acl, []).append(grant)
    return asked


def _describe_kept(grants: list[Grant]) -> Iterator[str]:
    if grants:
        last = max(grant.end_ms for grant in grants)
        are = "grant is" if len(grants) == 1 else "grants are"
        yield (
            f"{len(grants)} {are} kept although no file has them, because they end by themselves,"
            f" at the latest {format_utc(last)}: 'authorizerd acls grants' lists them"
        )
