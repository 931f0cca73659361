"""Select the tuples that two sets of ACLs may decide differently, without making the others.

**Invariant:** every tuple is selected for which ``whatif`` finds a change, or that ACLs cannot
decide. The functions of ``rows.SelectiveFind`` judge the selected ones by the whole rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import repeat

from authorizerd.acl.decision import authorize
from authorizerd.acl.model import WILDCARD
from authorizerd.replay.judging.asking import (
    OPERATION_CODES,
    RESOURCE_TYPE_CODES,
    can_decide_all,
)
from authorizerd.replay.judging.index import AclIndex
from authorizerd.replay.recorded.rows import Columns


def select_excluded(columns: Columns, super_users: frozenset[str]) -> Sequence[int] | None:
    """Return no row if ACLs can decide all of them, and must, else None for all."""
    is_needed = super_users.isdisjoint(columns.distinct("principal"))
    return () if is_needed and can_decide_all(columns.distinct) else None


def select_changed(
    columns: Columns, candidate: AclIndex, baseline: AclIndex | None
) -> Sequence[int] | None:
    """Return the rows that the candidate decides differently from the baseline or the record.

    None stands for all rows, if some need more than one answer, or none.
    """
    judging = (candidate,) if baseline is None else (candidate, baseline)
    if any(index.depends_on_release for index in judging) or not can_decide_all(columns.distinct):
        return None
    answers, *before = (_judge(index, columns) for index in judging)
    if before:
        return [n for n, (new, old) in enumerate(zip(answers, *before, strict=True)) if new != old]
    recorded = zip(
        answers, columns.values("allowed_events"), columns.values("denied_events"), strict=True
    )
    return [n for n, (is_allowed, *events) in enumerate(recorded) if events[is_allowed]]


def _judge(index: AclIndex, columns: Columns) -> Iterator[bool]:
    """Return the answer to each row, all of which ACLs can decide."""
    hosts: Iterable[str | None] = repeat(None)
    if any(acl.host != WILDCARD for acl in index.acls):
        hosts = columns.values("host")
    return map(
        partial(authorize, index.snapshot, index.settings),
        columns.values("principal"),
        hosts,
        map(OPERATION_CODES.__getitem__, columns.values("operation")),
        map(RESOURCE_TYPE_CODES.__getitem__, columns.values("resource_type")),
        columns.values("resource_name"),
    )
