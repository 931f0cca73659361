"""What ``acls apply`` has done, as lines for people and as a JSON document.

**Invariant:** the report says of each change of the plan that it was made, that it was not, or that
this is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from authorizerd.acl.explanation.words import count_of
from authorizerd.acl.model import Acl
from authorizerd.acl.plan.changes import AclRequest
from authorizerd.acl.plan.document import Plan
from authorizerd.acl.plan.names import PlannedAcl, has_known_codes, name_acl
from authorizerd.cli.change.execution import Done, Ending, Progress

ACLS_SHOWN_MAX: Final = 20
"""The most ACLs of one kind that lines for people name. The JSON document names all."""

_AGAIN: Final = "Run the same command again: it goes on from the state that it finds."


def new_document(plan: Plan, progress: Progress) -> dict[str, object]:
    """Return the document of an execution, which docs/change.md describes."""
    return {
        "result": progress.ending.value,
        "compares": progress.compares,
        "made_before": progress.made_before,
        "done": [
            {"step": each.request.step, "acls": len(each.request.acls), "offset": each.offset}
            for each in progress.done
        ],
        "left": progress.left,
        "in_doubt": None if progress.in_doubt is None else progress.in_doubt.step,
        "reasons": progress.reasons,
        "notes": progress.notes,
        "unseen": _name_all(progress.others.unseen),
        "created_by_others": _name_all(progress.others.created),
        "deleted_by_others": _name_all(progress.others.deleted),
    }


def _name_all(acls: Iterable[Acl]) -> tuple[PlannedAcl | str, ...]:
    """Return ACLs with names; one whose codes this version does not know is a text."""
    return tuple(name_acl(acl) if has_known_codes(acl) else str(acl) for acl in acls)


def describe_start(progress: Progress) -> Iterator[str]:
    """Yield how the server guards the plan against changes by others."""
    if progress.made_before:
        yield f"{count_of(progress.made_before, 'change')} of the plan are there already"
    if progress.compares:
        yield "the server compares: it rejects a request if an ACL has changed meanwhile"
    else:
        yield (
            "the server does not compare: the ACLs are listed before and after each request, and"
            " changes by others are reported"
        )


def describe_done(done: Done) -> str:
    """Return the line of a request that is applied."""
    at = "" if done.offset is None else f", at offset {done.offset}"
    return f"{_describe_request(done.request)}{at}"


def _describe_request(request: AclRequest) -> str:
    """Return "2 DENY ACLs created"."""
    permission = request.step.rpartition("_")[2].upper()
    verb = "created" if request.is_creation else "deleted"
    return f"{count_of(len(request.acls), f'{permission} ACL')} {verb}"


def describe_ending(plan: Plan, progress: Progress) -> Iterator[str]:
    """Yield the result: what was done, what was not, and why."""
    yield from (f"note: {note}" for note in progress.notes)
    yield from _describe_result(plan, progress)
    yield from progress.reasons
    others = progress.others
    if progress.ending is not Ending.MOVED:
        yield from _list_acls("not visible", others.unseen)
    if progress.requests:  # else the reasons name them
        yield from _list_acls("created by somebody else", others.created)
        yield from _list_acls("deleted by somebody else", others.deleted)
    if progress.in_doubt is not None:
        yield (
            f"not known: whether the last request is applied"
            f" ({_describe_request(progress.in_doubt)})"
        )
    yield from _describe_remedy(progress)


def _describe_result(plan: Plan, progress: Progress) -> Iterator[str]:
    total = plan.changes.count
    match progress.ending:
        case Ending.NOTHING_TO_DO:
            yield f"nothing to do: the ACLs are those of the plan ({plan.leads_to.acls} ACLs)"
        case Ending.POSSIBLE:
            yield from describe_start(progress)
            for request in progress.requests:
                yield f"to be sent: {_describe_request(request)}"
            yield f"dry run: {count_of(progress.left, 'change')} would be made, nothing was sent"
        case Ending.APPLIED:
            yield f"applied: {plan.leads_to.acls} ACLs now, as planned"
        case Ending.RACED if not progress.left:
            yield "applied, but somebody else has changed ACLs meanwhile"
        case ending:
            made = total - progress.left
            yield (
                f"{_WORDS[ending]}: {made} of {count_of(total, 'change')} made,"
                f" {progress.left} left"
            )


_WORDS: Final = {
    Ending.RUNNING: "interrupted",
    Ending.MOVED: "stopped, because the ACLs have changed",
    Ending.RACED: "stopped, because somebody else has changed ACLs meanwhile",
    Ending.FAILED: "failed",
}


def _list_acls(what: str, acls: tuple[Acl, ...]) -> Iterator[str]:
    for acl in acls[:ACLS_SHOWN_MAX]:
        yield f"{what}: {acl}"
    if len(acls) > ACLS_SHOWN_MAX:
        yield f"{what}: {len(acls) - ACLS_SHOWN_MAX} more (--json lists all)"


def _describe_remedy(progress: Progress) -> Iterator[str]:
    match progress.ending:
        case Ending.MOVED | Ending.RACED:
            yield "Make the plan again with 'authorizerd acls plan', and review it."
        case Ending.FAILED | Ending.RUNNING:
            yield _AGAIN
        case _:
            pass
