"""``authorizerd acls apply PLAN``: make exactly the changes of a plan, or report which were made.

Exit codes: 0 applied, or nothing to do; 1 a fault; 2 invalid arguments; 3 the plan would break its
tests or traffic; 4 the ACLs are not those that the plan was made for, or someone else has changed
ACLs in the meantime.

**Invariant:** the report states for each change whether it was made, not made, or unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.acl.explanation.words import count_of
from authorizerd.acl.model import Acl
from authorizerd.acl.notes import is_note
from authorizerd.acl.text.named_acl import NamedAcl, name_acl
from authorizerd.cli.broker_acls import BrokerReader, run_on_brokers
from authorizerd.cli.change.apply_server import AclServer, KafkaAclServer
from authorizerd.cli.change.execution import Done, Ending, Execution, Progress, name_some
from authorizerd.cli.errors import CommandError
from authorizerd.cli.output import print_document, print_lines, warn
from authorizerd.management.plan.changes import AclRequest, check_size
from authorizerd.management.plan.document import Plan, decode_plan
from authorizerd.management.plan.errors import PlanError
from authorizerd.management.plan.names import has_known_codes
from authorizerd.metadata.bounded_file import read_file

_MORE: Final = "more (--json lists all)"
_AGAIN: Final = "Run the same command again: it continues from the state that it finds."


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


def _name_all(acls: Iterable[Acl]) -> tuple[NamedAcl | str, ...]:
    """Return ACLs with names; an ACL with codes unknown to this version becomes a text."""
    return tuple(name_acl(acl) if has_known_codes(acl) else str(acl) for acl in acls)


def describe_start(progress: Progress) -> Iterator[str]:
    """Yield how the server guards the plan against changes by others."""
    if progress.made_before:
        yield f"{count_of(progress.made_before, 'change')} of the plan are already there"
    if progress.compares:
        yield "the server compares: it rejects a request if an ACL has changed in the meantime"
    else:
        yield (
            "the server does not compare: the ACLs are listed before and after each request, and"
            " changes by others are reported"
        )


def describe_done(done: Done) -> str:
    at = "" if done.offset is None else f", at offset {done.offset}"
    return f"{_describe_request(done.request)}{at}"


def _describe_request(request: AclRequest) -> str:
    """Return "2 DENY ACLs created"."""
    permission = request.step.rpartition("_")[2].upper()
    verb = "created" if request.is_creation else "deleted"
    notes = sum(map(is_note, request.acls))
    acls = len(request.acls) - notes
    named = [count_of(acls, f"{permission} ACL")] if acls or not notes else []
    named += [count_of(notes, "note")] if notes else []
    return f"{' and '.join(named)} {verb}"


def describe_ending(plan: Plan, progress: Progress) -> Iterator[str]:
    yield from (f"note: {note}" for note in progress.notes)
    yield from _describe_result(plan, progress)
    yield from progress.reasons
    others = progress.others
    if progress.ending is not Ending.MOVED:
        yield from name_some("not visible", others.unseen, _MORE)
    if progress.requests:  # otherwise the reasons name the ACLs
        yield from name_some("created by someone else", others.created, _MORE)
        yield from name_some("deleted by someone else", others.deleted, _MORE)
    if progress.in_doubt is not None:
        yield (
            f"not known: whether the last request was applied"
            f" ({_describe_request(progress.in_doubt)})"
        )
    if remedy := _REMEDIES.get(progress.ending):
        yield remedy


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
            yield "applied, but someone else has changed ACLs in the meantime"
        case ending:
            made = total - progress.left
            yield (
                f"{_WORDS[ending]}: {made} of {count_of(total, 'change')} made,"
                f" {progress.left} left"
            )


_WORDS: Final = {
    Ending.RUNNING: "interrupted",
    Ending.MOVED: "stopped, because the ACLs have changed",
    Ending.RACED: "stopped, because someone else has changed ACLs in the meantime",
    Ending.FAILED: "failed",
}


_REMEDIES: Final = {
    **dict.fromkeys(
        (Ending.MOVED, Ending.RACED),
        "Make the plan again with 'authorizerd acls plan', and review it.",
    ),
    **dict.fromkeys((Ending.FAILED, Ending.RUNNING), _AGAIN),
}


EXIT_FAULT: Final = 1
EXIT_BREAKS: Final = 3
EXIT_MOVED: Final = 4

_EXIT_CODES: Final[Mapping[Ending, int]] = {
    Ending.NOTHING_TO_DO: 0,
    Ending.POSSIBLE: 0,
    Ending.APPLIED: 0,
    Ending.MOVED: EXIT_MOVED,
    Ending.RACED: EXIT_MOVED,
    Ending.FAILED: EXIT_FAULT,
}


class ApplyRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request of ``acls apply``, and its fields that ``acls remove`` shares."""

    bootstrap_server: str | None
    command_config: str | None
    dry_run: bool
    batches: bool
    json: bool
    plan: Path = Path()
    accept_breaking: bool = False


def apply_plan(request: ApplyRequest) -> int:
    """Apply the plan, print what was done, and return the exit code.

    Raises:
        CommandError: the file cannot be read, or the servers cannot be asked. Nothing was sent.
    """
    plan = _read(request)
    if plan.breaks and not request.accept_breaking:
        for check in plan.checks:
            if check.breaks:
                warn(f"{request.plan}: {check.summary}")
        warn("nothing was changed. To apply this plan anyway, pass --accept-breaking")
        return EXIT_BREAKS
    return execute_plan(plan, request)


def execute_plan(plan: Plan, request: ApplyRequest) -> int:
    """Carry out a plan on the servers of ``--bootstrap-server``, print it, return the exit code.

    Raises:
        CommandError: the servers cannot be asked. Nothing was sent.
    """
    runner = _Runner(plan, request)
    assert request.bootstrap_server is not None, "the flags are checked"
    try:
        run_on_brokers(request.bootstrap_server, request.command_config, runner.run)
    except BaseException:
        # After an interruption or a defect, the user must still learn what was done.
        runner.print_interrupted()
        raise
    runner.print_ending()
    return _EXIT_CODES[runner.execution.progress.ending]


def _read(request: ApplyRequest) -> Plan:
    path = request.plan
    try:
        plan = decode_plan(read_file(path))
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}") from error
    except PlanError as error:
        raise PlanError(
            f"{path}: {error.place}" if error.place else str(path), error.reason
        ) from None
    check_size(plan.changes, str(path), batches=request.batches)
    return plan


class _Runner:
    """Executes a plan on a cluster, and prints its progress."""

    def __init__(self, plan: Plan, request: ApplyRequest) -> None:
        self._plan = plan
        self._request = request
        self.execution: Execution

    async def run(self, reader: BrokerReader) -> None:
        await self.execute(KafkaAclServer(reader))

    async def execute(self, server: AclServer) -> None:
        self.execution = Execution(self._plan, server, report=self._report)
        self._note_origin()
        await self.execution.run(is_dry=self._request.dry_run)

    def _note_origin(self) -> None:
        """If the plan was made for a different cluster, name that cluster: this may be a
        mistake."""
        origin = self._plan.made_for.name
        if origin == self._request.bootstrap_server:
            return
        note = f"the plan was made for {origin}, and is applied to {self._request.bootstrap_server}"
        if self._request.json:
            self.execution.progress.notes.append(note)
        else:
            warn(f"note: {note}")

    def _report(self, done: Done) -> None:
        """Print a request at once, so that it is known even if this process is killed."""
        if not self._request.json:
            progress = self.execution.progress
            if len(progress.done) == 1:
                print_lines(describe_start(progress))
            print_lines([describe_done(done)])

    def print_ending(self) -> None:
        progress = self.execution.progress
        if self._request.json:
            print_document(new_document(self._plan, progress))
        else:
            print_lines(describe_ending(self._plan, progress))

    def print_interrupted(self) -> None:
        execution = getattr(self, "execution", None)
        if execution is not None and (execution.progress.done or execution.progress.in_doubt):
            self.print_ending()
