"""Candidate ACLs, as visitors of the console paste them, and what they would change.

**Invariant:** the changes are computed on copies: nothing in force changes. The amount of text,
ACLs and requests is bounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.acl.decision import AuthorizerSettings, authorize
from authorizerd.acl.errors import PastMismatchError
from authorizerd.acl.grants.reading import read_grants
from authorizerd.acl.listing import derive_id
from authorizerd.acl.model import WILDCARD_PRINCIPAL, Acl, Operation, ResourceType
from authorizerd.acl.notes import is_note, list_notes
from authorizerd.acl.past import PastChange, undo_changes
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.acl.text.named_acl import NamedAcl, name_acl
from authorizerd.daemon.audit.lines import Recorded, parse_lines, read_last_lines
from authorizerd.management.formats.catalogue import PASTED_FORMATS, read_acl_text
from authorizerd.management.formats.model import AclTextError
from authorizerd.management.plan.changes import AclChanges, make_changes
from authorizerd.management.plan.errors import PlanError
from authorizerd.management.plan.selector import Selector
from authorizerd.protocol.decisions.acl_filters import QueryError
from authorizerd.protocol.queries import PlanQuestion

CANDIDATES_MAX: Final = 2_000
PRESENT_MAX: Final = 10_000
"""The maximum number of ACLs in force that candidates are compared with."""
SHOWN_MAX: Final = 200
"""The maximum number of changes of each kind that are listed."""


class ChangedRequest(msgspec.Struct, frozen=True):
    """A recorded request whose answer would change. ``count`` is how often it occurs."""

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


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What candidates would change.

    Attributes:
        created, deleted: the numbers of ACLs. ``changes`` lists the first of each kind.
        principals: the number of principals whose ACLs were compared.
        offset: the log offset of these ACLs.
        traffic: the effect on recorded requests, or None; ``note`` may say why.
    """

    created: int
    deleted: int
    changes: tuple[tuple[str, NamedAcl], ...]
    principals: int
    offset: int
    traffic: Traffic | None
    note: str


def read_candidates(text: str) -> tuple[Acl, ...]:
    """Return the ACLs of a pasted text.

    Raises:
        QueryError: the text has no format of ``PASTED_FORMATS``, no ACL, or too many; the error
            names the line.
    """
    try:
        acls = read_acl_text(text, "", PASTED_FORMATS).acls
    except AclTextError as error:
        raise QueryError(f"the candidates: {error}") from None
    acls = tuple(acl for acl in acls if not is_note(acl))  # notes decide nothing
    if not acls:
        raise QueryError("the candidates: expected at least one ACL")
    if len(acls) > CANDIDATES_MAX:
        raise QueryError(f"the candidates: expected at most {CANDIDATES_MAX} ACLs")
    return acls


def find_present(snapshot: AclSnapshot, principals: frozenset[str]) -> list[tuple[bytes, Acl]]:
    """Return the ids and ACLs of some principals.

    Raises: QueryError: there are too many.
    """
    present = [item for item in snapshot.acls.items() if item[1].principal in principals]
    if len(present) > PRESENT_MAX:
        raise QueryError(
            f"the principals of the candidates have more than {PRESENT_MAX} ACLs in force:"
            " paste the ACLs of fewer principals, or use `authorizerd acls plan`"
        )
    return present


def compare(
    present: Sequence[tuple[bytes, Acl]], candidates: Sequence[Acl], *, replaces: bool
) -> tuple[AclChanges, list[PastChange]]:
    """Return the changes, and the argument that `apply_candidates` needs.

    Args:
        present: the ACLs of the candidates' principals.
        replaces: True if the candidates replace these ACLs; False if these all stay.

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


def apply_candidates(snapshot: AclSnapshot, undone: Sequence[PastChange]) -> AclSnapshot:
    """Return the state after the changes: adding an ACL means undoing its removal, and vice versa.

    Raises:
        QueryError: the changes do not fit the state.
    """
    try:
        return undo_changes(snapshot, undone, snapshot.offset)
    except PastMismatchError as error:
        raise QueryError(f"the candidates: {error}") from error


def _is_question(recorded: Recorded) -> bool:
    """Return False for a search and for a refused caller: no ACL decided those."""
    return recorded.principal != WILDCARD_PRINCIPAL and recorded.operation != Operation.ANY.name


def judge(
    before: AclSnapshot,
    after: AclSnapshot,
    settings: AuthorizerSettings,
    lines: Iterable[Recorded | None],
) -> Traffic:
    """Return the recorded requests whose answer would change."""
    groups: dict[tuple[str, str | None, str, str, str], list[Recorded]] = {}
    unread = requests = allowed = 0
    for recorded in lines:
        if recorded is None or not _is_question(recorded):
            unread += 1
            continue
        requests += 1
        allowed += recorded.allowed
        key = (
            recorded.principal,
            recorded.host,
            recorded.operation,
            recorded.resource_type,
            recorded.resource_name,
        )
        groups.setdefault(key, []).append(recorded)
    denied: list[ChangedRequest] = []
    granted: list[ChangedRequest] = []
    for (principal, host, operation, kind, name), same in groups.items():
        question = (principal, host, Operation[operation], ResourceType[kind], name)
        was = authorize(before, settings, *question)
        if authorize(after, settings, *question) != was:
            (denied if was else granted).append(ChangedRequest(same[-1], len(same)))
    return Traffic(requests, allowed, unread, tuple(denied), tuple(granted))


def make_plan(question: PlanQuestion, snapshot: AclSnapshot) -> Plan:
    """Return the effect of pasted ACLs.

    Raises:
        QueryError: they cannot be used.
    """
    candidates = read_candidates(question.text)
    principals = frozenset(acl.principal for acl in candidates)
    present = find_present(snapshot, principals)
    granted = {each.acl for each in read_grants(list_notes(snapshot)).grants if not each.is_waiting}
    # As in plans: grants end by themselves.
    kept = (acl for _, acl in present if acl in granted)
    changes, undone = compare(present, (*candidates, *kept), replaces=question.replaces)
    traffic, note = None, ""
    if question.audit_file is not None:
        after = apply_candidates(snapshot, undone)
        try:
            lines = parse_lines(read_last_lines(Path(question.audit_file)))
            traffic = judge(snapshot, after, question.settings, lines)
        except OSError as error:
            reason = error.strerror or "it is not a file"
            note = f"The audit log's file cannot be read: {reason}."
    return Plan(
        created=len(changes.created),
        deleted=len(changes.deleted),
        changes=(
            *(("add", name_acl(acl)) for acl in changes.created[:SHOWN_MAX]),
            *(("remove", name_acl(acl)) for acl in changes.deleted[:SHOWN_MAX]),
        ),
        principals=len(principals),
        offset=snapshot.offset,
        traffic=traffic,
        note=note,
    )
