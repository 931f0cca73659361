"""The full explanation of one decision.

**Invariant:** the decision and its rule are those of ``acl.decision.explain``. The work is bounded
and done in short steps, however many ACLs there are.
"""

from __future__ import annotations

from authorizerd.acl.decision import AuthorizerSettings, Decision, explain, get_acl
from authorizerd.acl.explanation.changes import find_changes
from authorizerd.acl.explanation.default_access import find_default_access
from authorizerd.acl.explanation.matches import Matches, find_matches
from authorizerd.acl.explanation.model import Explanation, MatchingAclMeaning, NearMiss
from authorizerd.acl.explanation.near_misses import find_near_misses
from authorizerd.acl.grants.reading import describe_end, find_ends
from authorizerd.acl.model import Acl, Question
from authorizerd.acl.snapshot import AclSnapshot, is_grant


def explain_fully(
    snapshot: AclSnapshot, settings: AuthorizerSettings, question: Question
) -> Explanation:
    """Return why ``question`` is allowed or denied, and what would change that.

    Raises:
        InvalidQuestionError: the principal is ``User:*``, which means everyone.
    """
    decision = explain(snapshot, settings, question)
    matches = find_matches(snapshot, question)
    default = find_default_access(snapshot, settings, question)
    changes = find_changes(snapshot, question, decision, matches, default)
    acls = _describe_matches(snapshot, question, decision, matches)
    unsearched: list[str] = []
    near_misses: tuple[NearMiss, ...] = ()
    if not decision.allowed:
        near_misses = find_near_misses(snapshot, settings, question, matches, changes, unsearched)
    return Explanation(
        question=question,
        decision=decision,
        offset=snapshot.offset,
        acl_count=len(snapshot.acls),
        acls=acls,
        acls_left_out=matches.denial_count + matches.allow_count - len(acls),
        default=default,
        changes=changes,
        near_misses=near_misses,
        unsearched=tuple(unsearched),
        releases=snapshot.rules.releases,
    )


def _describe_matches(
    snapshot: AclSnapshot, question: Question, decision: Decision, matches: Matches
) -> tuple[MatchingAclMeaning, ...]:
    """Return what each listed ACL means. The ACL that decides is listed in any case."""
    deciding = get_acl(decision.rule)
    listed: tuple[Acl, ...] = matches.listed
    if deciding is not None and deciding not in listed:
        # Among several ALLOWs, the last one decides.
        listed = (*listed, deciding)
    grants = find_ends(snapshot, listed)
    return tuple(
        MatchingAclMeaning(
            acl=acl,
            allows=is_grant(acl),
            is_implied=acl.operation != question.operation,
            decides=acl == deciding,
            end=describe_end(grants[acl]) if acl in grants else "",
        )
        for acl in listed
    )
