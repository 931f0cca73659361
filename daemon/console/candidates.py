"""Candidate ACLs, as visitors paste them, and what they would change.

**Invariant:** the changes are computed on values of their own: nothing in force changes. What is
read, compared and judged is bounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from authorizerd.acl.decision import AuthorizerSettings, authorize
from authorizerd.acl.errors import PastMismatchError
from authorizerd.acl.filters import ACLS_PER_STEP
from authorizerd.acl.formats.catalogue import PASTED_FORMATS, read_acl_text
from authorizerd.acl.formats.model import AclTextError
from authorizerd.acl.listing import derive_id
from authorizerd.acl.model import WILDCARD_PRINCIPAL, Acl, Operation, ResourceType
from authorizerd.acl.past import PastChange, undo_change
from authorizerd.acl.plan.changes import AclChanges, make_changes
from authorizerd.acl.plan.errors import PlanError
from authorizerd.acl.plan.selector import Selector
from authorizerd.acl.snapshot import CHANGES_PER_STATE, AclSnapshot
from authorizerd.acl.steps import Steps
from authorizerd.daemon.audit.lines import Recorded
from authorizerd.protocol.decisions.acl_filters import QueryError

CANDIDATES_MAX: Final = 2_000
PRESENT_MAX: Final = 10_000
"""The maximum number of ACLs in force that candidates are compared with."""
_REQUESTS_PER_STEP: Final = 64


class ChangedRequest(msgspec.Struct, frozen=True):
    """A recorded request whose answer would be another one. ``count`` is how often it occurs."""

    recorded: Recorded
    count: int


class Traffic(msgspec.Struct, frozen=True):
    """What candidates would change for recorded requests.

    Attributes:
        requests: the number of recorded requests that were judged.
        allowed: how many of these were allowed when they were recorded.
        unread: the number of lines without a single reading.
    """

    requests: int
    allowed: int
    unread: int
    newly_denied: tuple[ChangedRequest, ...]
    newly_allowed: tuple[ChangedRequest, ...]


def read_candidates(text: str) -> tuple[Acl, ...]:
    """Return the ACLs of a text that somebody has pasted. It takes too long for the event loop.

    Raises:
        QueryError: the text has no format of ``PASTED_FORMATS``, no ACL, or too many; the error
            names the line.
    """
    try:
        acls = read_acl_text(text, "", PASTED_FORMATS).acls
    except AclTextError as error:
        raise QueryError(f"the candidates: {error}") from None
    if not acls:
        raise QueryError("the candidates: expected at least one ACL")
    if len(acls) > CANDIDATES_MAX:
        raise QueryError(f"the candidates: expected at most {CANDIDATES_MAX} ACLs")
    return acls


def find_present(
    snapshot: AclSnapshot, principals: frozenset[str]
) -> Steps[list[tuple[bytes, Acl]]]:
    """Return, in steps, the ids and ACLs of some principals.

    Raises:
        QueryError: they are too many.
    """
    present: list[tuple[bytes, Acl]] = []
    for number, item in enumerate(snapshot.acls.items(), 1):
        if item[1].principal in principals:
            present.append(item)
            if len(present) > PRESENT_MAX:
                raise QueryError(
                    f"the principals of the candidates have more than {PRESENT_MAX} ACLs in force:"
                    " paste those of fewer principals, or use `authorizerd acls plan`"
                )
        if number % ACLS_PER_STEP == 0:
            yield
    return present


def compare(
    present: Sequence[tuple[bytes, Acl]], candidates: Sequence[Acl], *, replaces: bool
) -> tuple[AclChanges, list[PastChange]]:
    """Return the changes, and the same as what `apply_candidates` takes.

    It takes too long for the event loop.

    Args:
        present: the ACLs of the candidates' principals.
        replaces: True if these should be the candidates and no others; False if they all stay.

    Raises:
        QueryError: Kafka would refuse a candidate.
    """
    ids = {acl: acl_id for acl_id, acl in present}
    desired = candidates if replaces else (*ids, *candidates)
    try:
        changes = make_changes(ids, desired, Selector(None))
    except PlanError as error:
        raise QueryError(f"the candidates: {error}") from None
    undone = [PastChange(0, 0, False, derive_id(acl), acl) for acl in changes.created]
    undone += [PastChange(0, 0, True, ids[acl], acl) for acl in changes.deleted]
    return changes, undone


def apply_candidates(
    snapshot: AclSnapshot, undone: Sequence[PastChange], states: list[AclSnapshot]
) -> Steps[AclSnapshot]:
    """Return, in steps, the state after the changes. Free ``states`` from its end, in steps.

    To add an ACL is to undo its removal, and the reverse.

    Raises:
        QueryError: the changes do not fit the state.
    """
    try:
        states.append(snapshot)
        for number, change in enumerate(reversed(undone), 1):
            snapshot = undo_change(snapshot, change)
            if not number % CHANGES_PER_STATE:
                states.append(snapshot)
                yield
        states.append(snapshot)
        return snapshot
    except PastMismatchError as error:
        raise QueryError(f"the candidates: {error}") from error


def _is_question(recorded: Recorded) -> bool:
    """Return False for a search, and for a caller that was refused: no ACL decided it."""
    return recorded.principal != WILDCARD_PRINCIPAL and recorded.operation != Operation.ANY.name


def judge(
    before: AclSnapshot,
    after: AclSnapshot,
    settings: AuthorizerSettings,
    lines: Sequence[Recorded | None],
) -> Steps[Traffic]:
    """Return, in steps, which recorded requests get another answer after the changes."""
    counts: dict[tuple[str, str | None, str, str, str], list[Recorded]] = {}
    unread = requests = allowed = 0
    for number, recorded in enumerate(lines, 1):
        if recorded is None or not _is_question(recorded):
            unread += 1
        else:
            requests += 1
            allowed += recorded.allowed
            key = (
                recorded.principal,
                recorded.host,
                recorded.operation,
                recorded.resource_type,
                recorded.resource_name,
            )
            counts.setdefault(key, []).append(recorded)
        if number % _REQUESTS_PER_STEP == 0:
            yield
    denied: list[ChangedRequest] = []
    granted: list[ChangedRequest] = []
    for number, ((principal, host, operation, kind, name), same) in enumerate(counts.items(), 1):
        question = (principal, host, Operation[operation], ResourceType[kind], name)
        was = authorize(before, settings, *question)
        if authorize(after, settings, *question) != was:
            (denied if was else granted).append(ChangedRequest(same[-1], len(same)))
        if number % _REQUESTS_PER_STEP == 0:
            yield
    return Traffic(requests, allowed, unread, tuple(denied), tuple(granted))
