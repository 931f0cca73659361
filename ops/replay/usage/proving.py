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
from authorizerd.replay.text import format_count
from authorizerd.replay.usage.errors import UsageError
from authorizerd.replay.usage.report import Proof
from authorizerd.replay.usage.suggestions import Suggestions
from authorizerd.replay.usage.window import distinct

PASSES_MAX: Final = 3
"""The first pass puts back every ACL whose removal changed an answer; the second finds none."""


class Changed(NamedTuple):
    """Tuples that the suggested set answers differently, and one of them as an example."""

    newly_denied: Count
    newly_allowed: Count
    resource_name: str
    principal: str


class Comparison(NamedTuple):
    """The differences between two sets: in total, and by each removed ACL that contributed."""

    whole: Changed | None
    by_acl: Mapping[Acl, Changed]


Compare = Callable[[AclSet], Comparison]
"""A function that compares a suggested set with the old one on every recorded tuple."""


def prove(
    acl_set: AclSet, suggestions: Suggestions, compare: Compare, *, tuples: int
) -> tuple[Suggestions, Proof | None]:
    """Return the suggestions that change no answer, and the proof; None if none is left.

    Args:
        tuples: the number of tuples that ``compare`` evaluates.

    Raises:
        UsageError: a difference remains that no removed ACL explains.
    """
    for is_last in (False,) * (PASSES_MAX - 1) + (True,):
        if not (suggestions.removals or suggestions.narrowings):
            break
        suggested = suggested_set(acl_set, suggestions)
        whole, by_acl = compare(suggested)
        if whole is None:
            return suggestions, _proof(suggested, tuples)
        if is_last:
            raise UsageError(f"no suggestion is safe: with the suggested ACLs, {_reason(whole)}")
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
    """Return the suggested set, with the same settings."""
    acls = suggestions.resulting(item.acl for item in distinct(acl_set))
    return acl_set.with_acls(acls, source=f"{acl_set.source}, as suggested")


def _reason(changed: Changed) -> str:
    changes = " and ".join(
        f"{format_count(count.events, 'event')} would be newly {outcome}"
        for outcome, count in (("denied", changed.newly_denied), ("allowed", changed.newly_allowed))
        if count.events
    )
    return escape_unprintable(
        f"{changes}, such as those of {changed.principal} on {changed.resource_name}"
    )
