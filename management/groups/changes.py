"""The changes that lead to desired ACLs, with those that groups give, and the notes about these.

**Invariant:** of what groups give, only an ACL that a note claims is ever removed, and only by the
plan of its set. An ACL is claimed before it is created, in the same request or an earlier one, and
the claim is deleted after it. So a plan that stops halfway leaves no ACL that nobody removes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from authorizerd.acl.grants.reading import read_grants
from authorizerd.acl.model import Acl
from authorizerd.acl.notes import is_note
from authorizerd.management.groups.claims import (
    Claims,
    claim,
    find_sets,
    is_made_note,
    read_claims,
    write_claims,
)
from authorizerd.management.groups.expansion import Expansion
from authorizerd.management.plan.changes import AclChanges, arrange, make_changes
from authorizerd.management.plan.selector import Selector


class GroupSet(msgspec.Struct, frozen=True):
    """What the groups of one set give, and the set's name."""

    name: str
    expansion: Expansion


class GroupOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan does with what its set's groups give.

    Attributes:
        set: the name of the set.
        members: the number of principals in its groups.
        given: the number of ACLs that the groups give.
        made_before: the number of ACLs that the groups have made by now.
        made_after: their number after the plan.
        removed: how many of those made by now the plan deletes.
        losses: for each group of which it deletes some, how many the group has made by now, and how
            many of them are deleted.
        there_before: the ACLs that the groups give, but did not make, and that stay when a member
            leaves.
    """

    set: str
    members: int
    given: int
    made_before: int
    made_after: int
    removed: int
    losses: Mapping[str, tuple[int, int]]
    there_before: tuple[Acl, ...]


class GovernedChanges(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of a plan.

    Attributes:
        changes: all of them.
        reasons: the groups that are the reason, for each ACL that groups make or no longer make.
        permanent: the number of ACLs that groups made, and that are now desired by themselves.
        kept: the number of ACLs that the plan would delete if other sets had not made them, by set.
        outcome: None without a set.
    """

    changes: AclChanges
    reasons: Mapping[Acl, tuple[str, ...]] = {}
    permanent: int = 0
    kept: Mapping[str, int] = {}
    outcome: GroupOutcome | None = None


def make_governed_changes(
    present: Collection[Acl], desired: Collection[Acl], selector: Selector, own: GroupSet | None
) -> GovernedChanges:
    """Return the changes after which the ACLs are the desired ones, and those that groups give.

    Args:
        desired: the ACLs that are desired by themselves. Notes of claims among them create
            nothing: they only say that the ACLs that they claim are not permanent.
        selector: what else may be deleted; it does not apply to ACLs that groups made.
        own: what the groups of the plan's set give; None if the plan is not about groups.
    """
    claims = read_claims(present)
    held = {acl for acl in present if not is_made_note(acl)}
    written = dict.fromkeys(acl for acl in desired if not is_made_note(acl)).keys()
    sets = find_sets(held, claims)
    # They end by themselves, and are claimed until then: afterwards, groups may make them again.
    granted = sets.keys() & _find_granted(held, written, selector)
    lasting = written - granted
    given = set() if own is None else own.expansion.given.keys() - lasting
    made = {acl for acl in given if acl not in held or acl in sets}
    made |= {acl for acl in granted if own is not None and own.name in sets[acl]}
    dropped, kept = _find_unwanted(sets.keys() - lasting - made - granted, sets, own)
    # Ones that others have made are neither deleted by a scope, nor created again.
    base = make_changes(held - (sets.keys() - written), written, selector)
    created = [*base.created, *(made - held)]
    deleted = [*(acl for acl in base.deleted if acl not in given), *dropped]
    permanent = _find_permanent(sets.keys() & lasting, desired)
    notes = _list_notes(claims, sets, permanent, made, own)
    outcome = None
    if own is not None:
        own_acls = [acl for acl, names in sets.items() if own.name in names]
        outcome = GroupOutcome(
            set=own.name,
            members=own.expansion.members,
            given=len(own.expansion.given),
            made_before=len(own_acls),
            made_after=len(made),
            removed=len(dropped),
            losses=_count_losses(own_acls, dropped, own.expansion),
            there_before=tuple(acl for acl in given - made if not selector.manages(acl)),
        )
    return GovernedChanges(
        changes=arrange(
            [*created, *(notes - set(present))],
            [*deleted, *(_notes_of(claims) - notes)],
        ),
        reasons={}
        if own is None
        else {acl: own.expansion.find_reason(acl) for acl in (*(made - held), *dropped)},
        permanent=len(permanent),
        kept=Counter(name for acl in kept if selector.manages(acl) for name in sets[acl]),
        outcome=outcome,
    )


def _count_losses(
    made: Iterable[Acl], dropped: Iterable[Acl], expansion: Expansion
) -> dict[str, tuple[int, int]]:
    """Return the numbers of made and of dropped ACLs of each group that loses one."""
    lost = Counter(group for acl in dropped for group in expansion.find_makers(acl))
    before = (
        Counter(group for acl in made for group in expansion.find_makers(acl)) if lost else lost
    )
    return {group: (before[group], number) for group, number in lost.items()}


def _find_granted(
    held: Iterable[Acl], written: Collection[Acl], selector: Selector
) -> Iterator[Acl]:
    """Yield the ACLs of the grants that the plan keeps."""
    for acl in filter(is_note, held):
        grants = read_grants([acl]).grants
        if acl in written or not selector.manages(acl):
            yield from (grant.acl for grant in grants if not grant.is_waiting)


def _find_unwanted(
    acls: Iterable[Acl], sets: Mapping[Acl, tuple[str, ...]], own: GroupSet | None
) -> tuple[list[Acl], list[Acl]]:
    """Separate the ACLs that only the plan's set has made from those of other sets."""
    dropped: list[Acl] = []
    kept: list[Acl] = []
    for acl in acls:
        (dropped if own and sets[acl] == (own.name,) else kept).append(acl)
    return dropped, kept


def _find_permanent(acls: Iterable[Acl], desired: Iterable[Acl]) -> set[Acl]:
    """Return the ACLs that are desired without a note that claims them."""
    carried = read_claims(desired).sets
    return {acl for acl in acls if claim(acl) not in carried}


def _list_notes(
    claims: Claims,
    sets: Mapping[Acl, tuple[str, ...]],
    permanent: Collection[Acl],
    made: Iterable[Acl],
    own: GroupSet | None,
) -> set[Acl]:
    """Return the notes after the plan. Those of other sets change only by permanent ACLs."""
    notes: set[Acl] = set() if own is None else set(write_claims(own.name, made))
    changed = {name for acl in permanent for name in sets[acl]}
    for name, present in claims.notes.items():
        if own is not None and name == own.name:
            continue
        if name in changed:
            rest = (acl for acl, names in sets.items() if name in names and acl not in permanent)
            notes.update(write_claims(name, rest))
        else:
            notes.update(present)
    return notes


def _notes_of(claims: Claims) -> set[Acl]:
    return {note for notes in claims.notes.values() for note in notes}
