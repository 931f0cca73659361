"""What the owners' decisions remove from the present ACLs.

**Invariant:** an ACL is removed only if every owner of it says so, and it is still the ACL that was
reviewed. Otherwise it is kept, and named with the reason.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from authorizerd.acl.explanation.words import join_words
from authorizerd.acl.model import Acl
from authorizerd.management.plan.errors import PlanError
from authorizerd.management.plan.names import has_known_codes
from authorizerd.management.plan.state import digest_acls
from authorizerd.management.review.sheet import (
    KEEP,
    REMOVE,
    UUID,
    Row,
    Sheet,
    name_cells,
    name_id,
)  # fmt: skip


class Decisions(NamedTuple):
    """The ACLs to remove, each with the owners' reason, and the reviewed ones that stay.

    ``notes`` are sentences about all that differs from the review.
    """

    removed: dict[Acl, str]
    kept: list[Acl]
    notes: list[str]

    @property
    def managed(self) -> list[Acl]:
        """What a plan manages: the ACLs to remove, or if there are none, all reviewed ones."""
        return list(self.removed) or self.kept


NO_DECISIONS: Final = Decisions({}, [], [])


def decide(
    sheets: Sequence[tuple[str, Sheet]], present: Mapping[bytes, Acl], *, has_ids: bool
) -> Decisions:
    """Return what the sheets remove from the present ACLs.

    Args:
        sheets: each with the name of its file.
        present: the ACLs by id.
        has_ids: whether the ids are those of the cluster, as a log has them.

    Raises:
        PlanError: an ACL has two decisions.
    """
    state = digest_acls(present.values())
    decisions = Decisions({}, [], [])
    votes: defaultdict[tuple[str, ...], list[tuple[str, Row]]] = defaultdict(list)
    for name, sheet in sheets:
        for row in sheet.rows:
            votes[row.acl].append((f"{name}: line {row.line}", row))
        if sheet.rows and sheet.state != state:
            decisions.notes.append(f"{name}: the ACLs have changed since the review")
    found: defaultdict[tuple[str, ...], list[tuple[bytes, Acl]]] = defaultdict(list)
    for acl_id, acl in present.items():
        found[name_cells(acl)].append((acl_id, acl))
    for cells, of_acl in votes.items():
        places = {row.decision: place for place, row in of_acl}
        if {KEEP, REMOVE} <= places.keys():
            raise PlanError(
                places[REMOVE],
                f"two decisions about {_name(*cells)}: remove here, keep in {places[KEEP]}: let the"
                " owners agree",
            )
        removing = [row for _, row in of_acl if row.decision == REMOVE]
        why = _why_not(removing, found[cells], has_ids=has_ids) if removing else ""
        if why is None:
            decisions.removed[found[cells][0][1]] = "; ".join(map(_describe, removing))
            continue
        decisions.kept.extend(acl for _, acl in found[cells] if has_known_codes(acl))
        if why:
            decisions.notes.append(f"{_name(*cells)} is not removed: {why}")
    return decisions


def _why_not(removing: list[Row], found: list[tuple[bytes, Acl]], *, has_ids: bool) -> str | None:
    """Return the reason why the ACL cannot be removed; None if it can."""
    others = {other for row in removing for other in row.also_owned_by}
    others -= {row.owner for row in removing}
    if not found:
        return "it is gone since the review"
    if len(found) > 1:
        return "several ACLs look like it, because unprintable characters are escaped"
    ((acl_id, acl),) = found
    if not has_known_codes(acl):
        return "it has a code of a later Kafka version"
    uuid = name_id(acl, acl_id)
    if has_ids and any(row.id.startswith(UUID) and row.id != uuid for row in removing):
        return "it was removed and made again since the review"
    if others:
        return f"it also belongs to {join_words(sorted(others))}, who did not decide to remove it"
    return None


def _describe(row: Row) -> str:
    return f"{row.owner or 'no owner'}: {row.comment or 'removed in an access review'}"


def _name(
    principal: str, host: str, operation: str, permission: str, kind: str, name: str, pattern: str
) -> str:
    """Return an ACL in a sentence, by the cells of ``ACL_COLUMNS``."""
    where = "" if host == "*" else f" from {host}"
    return f"{permission} {principal} {operation}{where} on {kind} {pattern} {name}"
