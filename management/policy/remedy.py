"""Find changes of ACLs after which a failed assertion holds.

**Invariant:** every result is proven: the assertion holds after all of the changes, and no longer
if one of them is left out. If a few changes are not enough, there is no result.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.explanation.changes import why_not_creatable
from authorizerd.acl.explanation.model import AclChange
from authorizerd.acl.listing import derive_id
from authorizerd.acl.matching import matching_acls
from authorizerd.acl.model import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    AclAdded,
    AclRemoved,
    PatternType,
    PermissionType,
)
from authorizerd.acl.snapshot import AclSnapshot, apply_changes, contains, is_grant
from authorizerd.management.policy.judging import Finding, Verdict, judge, judged_by
from authorizerd.management.policy.words import Assertion, AtMost, Names

CHANGES_MAX: Final = 5


def find_remedy(
    snapshot: AclSnapshot, settings: AuthorizerSettings, assertion: Assertion, verdict: Verdict
) -> tuple[AclChange, ...]:
    """Return the changes, or none if a few changes do not suffice.

    For ``AtMost``, there are none: it is unknown whose access is excessive.
    """
    if isinstance(assertion.who, AtMost) and assertion.who.count > 0:
        return ()
    if verdict.count > CHANGES_MAX:  # most findings need separate changes
        return ()
    proof = _Proof(snapshot, settings, assertion)
    changes = _search(proof, verdict, removes=True)
    if len(changes) == 1 or not any(finding.is_allowed for finding in verdict.findings):
        return changes
    denials = _search(proof, verdict, removes=False)
    return min(filter(None, (changes, denials)), key=len, default=())


def _search(proof: _Proof, verdict: Verdict, *, removes: bool) -> tuple[AclChange, ...]:
    """Return changes, or none.

    Args:
        removes: whether to remove ALLOW rules, rather than to override them by a DENY.
    """
    changes: list[AclChange] = []
    while not verdict.passed:
        changed = proof.apply(changes)
        proposed = _propose(changed, proof.assertion, verdict.findings[0], removes=removes)
        known = {each.acl for each in changes}
        index = changed.types[proof.assertion.resource_type]
        is_futile = any(
            each.acl in known or (each.adds and contains(index, each.acl)) for each in proposed
        )
        if not proposed or is_futile or len(changes) + len(proposed) > CHANGES_MAX:
            return ()
        changes += proposed
        verdict = proof.judge(changes)
    for change in tuple(changes):
        rest = [each for each in changes if each != change]
        if proof.judge(rest).passed:
            changes = rest
    return tuple(changes)


class _Proof:
    """Judges one assertion after changes of the ACLs."""

    def __init__(
        self, snapshot: AclSnapshot, settings: AuthorizerSettings, assertion: Assertion
    ) -> None:
        self._snapshot = snapshot
        self._settings = settings
        self.assertion = assertion
        self._ids: dict[Acl, bytes] = {}

    def judge(self, changes: Iterable[AclChange]) -> Verdict:
        return judge(self.apply(changes), self._settings, self.assertion)

    def apply(self, changes: Iterable[AclChange]) -> AclSnapshot:
        return apply_changes(
            self._snapshot,
            [
                AclAdded(derive_id(change.acl), change.acl)
                if change.adds
                else AclRemoved(self._find_id(change.acl))
                for change in changes
            ],
        )

    def _find_id(self, acl: Acl) -> bytes:
        if acl not in self._ids:
            acls = self._snapshot.acls
            self._ids[acl] = next(acl_id for acl_id, each in acls.items() if each == acl)
        return self._ids[acl]


def _propose(
    snapshot: AclSnapshot, assertion: Assertion, finding: Finding, *, removes: bool
) -> list[AclChange]:
    names = next(
        name
        for name in assertion.names
        if name == finding.names or (name.is_prefix and finding.names.text.startswith(name.text))
    )
    matching = matching_acls(judged_by(snapshot, finding), finding.question)
    allows = [acl for acl in matching if is_grant(acl)]
    denials = [acl for acl in matching if not is_grant(acl)]
    if not finding.is_allowed:
        changes = [AclChange(False, acl) for acl in denials[: CHANGES_MAX + 1]]
        return changes if allows else changes + _add(finding, names, PermissionType.ALLOW)
    is_for_everyone = finding.principal is None
    is_removable = removes and all(_is_within(acl, assertion, names) for acl in allows)
    if allows and (is_for_everyone or is_removable):
        return [AclChange(False, acl) for acl in allows[: CHANGES_MAX + 1]]
    # A DENY for everyone would also affect principals outside the assertion.
    return [] if is_for_everyone else _add(finding, names, PermissionType.DENY)


def _is_within(acl: Acl, assertion: Assertion, names: Names) -> bool:
    """Return True if an ALLOW allows only what the assertion excludes."""
    if acl.principal == WILDCARD_PRINCIPAL or acl.operation not in assertion.operations:
        return False
    if assertion.hosts and acl.host not in assertion.hosts:
        return False
    if acl.pattern_type == PatternType.LITERAL and acl.resource_name != WILDCARD:
        return acl.resource_name == names.text or (
            names.is_prefix and acl.resource_name.startswith(names.text)
        )
    is_prefix = acl.pattern_type == PatternType.PREFIXED
    return is_prefix and names.is_prefix and acl.resource_name.startswith(names.text)


def _add(finding: Finding, names: Names, permission_type: PermissionType) -> list[AclChange]:
    """Return the addition of an ACL for all of ``names``, if Kafka accepts it."""
    question = finding.question
    is_everything = names.is_prefix and not names.text
    is_prefix = names.is_prefix and not is_everything
    acl = Acl(
        question.resource_type,
        WILDCARD if is_everything else names.text,
        int(PatternType.PREFIXED if is_prefix else PatternType.LITERAL),
        WILDCARD_PRINCIPAL if finding.principal is None else finding.principal,
        WILDCARD
        if question.host is None or permission_type == PermissionType.DENY
        else question.host,
        question.operation,
        int(permission_type),
    )
    return [] if why_not_creatable(acl) else [AclChange(True, acl)]
