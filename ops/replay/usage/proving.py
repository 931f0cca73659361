"""Compare the suggested set with the old one; drop each suggestion that would change an answer.

**Invariant:** the final suggestions were evaluated on every recorded tuple, and changed no answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from authorizerd.acl.model import Acl
from authorizerd.acl.printable import escape_unprintable
from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.judging.report import Count
from authorizerd.replay.usage.errors import UsageError
from authorizerd.replay.usage.matching import distinct
from authorizerd.replay.usage.report import Proof
from authorizerd.replay.usage.suggestions import Suggestions

PASSES_MAX: Final = 3
"""Putting back what allowed a tuple settles it, so the second pass finds nothing."""


class Changed(NamedTuple):
    """Tuples that the suggested set answers otherwise, with the name and principal of one."""

    newly_denied: Count
    newly_allowed: Count
    resource_name: str
    principal: str


class Comparison(NamedTuple):
    """Where two sets differ: in all, and by each ACL taken away that had a part in it."""

    whole: Changed | None
    by_acl: Mapping[Acl, Changed]


Compare = Callable[[AclSet], Comparison]
"""Run the recorded tuples through the old set and this one."""


def prove(
    acl_set: AclSet, suggestions: Suggestions, compare: Compare, *, tuples: int
) -> tuple[Suggestions, Proof | None]:
    """Return the suggestions that change no answer, and the proof; no proof where there are none.

    Args:
        tuples: how many ``compare`` runs through.

    Raises:
        UsageError: a difference is left that no ACL taken away explains.
    """
    for is_last in (False,) * (PASSES_MAX - 1) + (True,):
        if not (suggestions.removals or suggestions.narrowings):
            break
        suggested = suggested_set(acl_set, suggestions)
        whole, by_acl = compare(suggested)
        if whole is None:
            return suggestions, _proof(suggested, tuples)
        if is_last:
            raise UsageError(f"nothing can be suggested: of the suggested ACLs, {_reason(whole)}")
        suggestions = suggestions.without({acl: _reason(by_acl[acl]) for acl in by_acl})
    return suggestions, None


def _proof(suggested: AclSet, tuples: int) -> Proof:
    return Proof(
        digest=suggested.digest,
        acls=len(suggested.acls),
        tuples=tuples,
        newly_denied=Count(),
        newly_allowed=Count(),
    )


def suggested_set(acl_set: AclSet, suggestions: Suggestions) -> AclSet:
    """Return what the set would become, under the same settings."""
    acls = suggestions.resulting(item.acl for item in distinct(acl_set))
    return acl_set.with_acls(acls, source=f"{acl_set.source}, as suggested")


def _reason(changed: Changed) -> str:
    told = " and ".join(
        f"{count.events} events would be newly {outcome}"
        for outcome, count in (("denied", changed.newly_denied), ("allowed", changed.newly_allowed))
        if count.events
    )
    return escape_unprintable(f"{told}, such as of {changed.principal} on {changed.resource_name}")
