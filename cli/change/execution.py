"""Carry out a plan on a server: send its requests one by one, and stop at anything unexpected.

**Invariant:** a request is sent only if the listing, or the answer before it, shows exactly the
state that the plan expects there. A server that compares offsets rejects it if an ACL has changed
since. With any other server, the ACLs are listed again after each request, before the next one: a
change by someone else is found and reported, and ends the plan. A change is reported as done only
if the server has acknowledged it or a listing shows it.

Whether or not an answer comes, the next listing shows what has happened. So a request may be
retried: if the first attempt was applied after all, the retry is rejected or changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

import trio

from authorizerd.acl.model import Acl
from authorizerd.cli.change.apply_server import AclServer, Answered, Listed, Unanswered
from authorizerd.cli.errors import CommandError
from authorizerd.management.plan import state
from authorizerd.management.plan.changes import AclRequest, split_requests
from authorizerd.management.plan.document import Plan
from authorizerd.protocol.kafka.error_codes import ErrorCode

SETTLE_SECONDS: Final = 5.0
"""How long a broker may take until its listings show an acknowledged change."""
ATTEMPTS_MAX: Final = 5
"""How often a request is sent if nothing shows that it was applied."""
ACLS_NAMED_MAX: Final = 20
"""The maximum number of ACLs of one kind in a reason or line. The JSON document names all."""

_PAUSE_FIRST_SECONDS: Final = 0.05
_PAUSE_LAST_SECONDS: Final = 1.0
_TEMPORARY: Final = frozenset(
    (
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.AUTHORIZER_NOT_READY,
    )
)
"""Errors after which the same request may succeed, if the state is still as expected."""


class Ending(Enum):
    """How the execution ended."""

    RUNNING = "interrupted"
    NOTHING_TO_DO = "nothing to do"
    POSSIBLE = "possible"
    """A dry run: the plan could be applied."""
    APPLIED = "applied"
    MOVED = "moved"
    """The ACLs are not those that the plan expects. The request was not applied."""
    RACED = "raced"
    """Someone else has changed ACLs around a request that was applied."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Done:
    """A request that is applied; ``offset`` is None if the server does not compare."""

    request: AclRequest
    offset: int | None


@dataclass(slots=True)
class Progress:
    """The progress of an execution, valid at any time.

    Attributes:
        requests: those that the plan needs, in order.
        made_before: the number of the plan's changes that were present at the start.
        in_doubt: the request that was sent, until its outcome is known.
        left: the changes that were not made, or are in doubt.
        others: changes by others, and the invisible changes of the request in doubt.
    """

    left: int
    requests: tuple[AclRequest, ...] = ()
    ending: Ending = Ending.RUNNING
    compares: bool = False
    made_before: int = 0
    done: list[Done] = field(default_factory=list)
    in_doubt: AclRequest | None = None
    reasons: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    others: state.Comparison = state.NO_CHANGE


class _Stop(Exception):
    """The plan cannot continue."""

    def __init__(
        self, ending: Ending, *reasons: str, others: state.Comparison = state.NO_CHANGE
    ) -> None:
        super().__init__(*reasons)
        self.ending = ending
        self.reasons = reasons
        self.others = others


class Execution:
    """Carries out one plan. ``progress`` is valid at any time, even after an error.

    Args:
        is_stopped: asked before each request. Once it returns True, no further one is sent.
    """

    def __init__(
        self,
        plan: Plan,
        server: AclServer,
        *,
        report: Callable[[Done], None],
        settle_seconds: float = SETTLE_SECONDS,
        acls_max: int | None = None,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._plan: Final = plan
        self._server: Final = server
        self._report: Final = report
        self._settle_seconds: Final = settle_seconds
        self._limit: Final = {} if acls_max is None else {"acls_max": acls_max}
        self._is_stopped: Final = is_stopped
        self.progress: Final = Progress(left=plan.changes.count)

    async def run(self, *, is_dry: bool = False) -> None:
        """Carry out the plan, or find out whether that is possible.

        Raises:
            CommandError: the ACLs cannot be listed at all. Nothing was sent.
        """
        progress = self.progress
        listed = await self._server.list_acls()
        progress.compares = listed.offset is not None
        try:
            progress.requests = self._find_requests(listed)
            if not progress.requests:
                progress.ending = Ending.NOTHING_TO_DO
            elif is_dry:
                progress.ending = Ending.POSSIBLE
            else:
                for request in progress.requests:
                    if self._is_stopped():
                        return
                    listed = await self._carry_out(request, listed)
                progress.ending = Ending.APPLIED
        except _Stop as stop:
            progress.ending, progress.others = stop.ending, stop.others
            progress.reasons += stop.reasons

    def _find_requests(self, listed: Listed) -> tuple[AclRequest, ...]:
        """Return the requests that lead from a state of the plan to its end."""
        changes = self._plan.changes
        made = state.make_states(self._plan.made_for.digest, changes).get(listed.digest)
        if made is None:
            raise _new_move(self._plan, listed)
        left = state.skip_changes(changes, made)
        self.progress.made_before, self.progress.left = made, left.count
        return tuple(split_requests(left, **self._limit))

    async def _carry_out(self, request: AclRequest, before: Listed) -> Listed:
        """Apply a request to exactly the state ``before``, and return the state after it."""
        expected = state.apply_request(before.acls, request)
        digest = state.digest_ids(expected)
        pause = _PAUSE_FIRST_SECONDS
        reason = ""
        for attempt in range(ATTEMPTS_MAX):
            answer = await self._send(request, before)
            if isinstance(answer, Answered) and not answer.errors and answer.offset is not None:
                self._add(request, answer.offset)
                return Listed(expected, answer.offset, digest)
            after = await self._look(request, before, answer, digest)
            if after.digest == digest:
                if not attempt:  # otherwise, a lost attempt may have deleted them
                    self._note_unmatched(answer)
                self._add(request, after.offset)
                return after
            reason = _describe_failure(answer)
            self._check_unchanged(request, before, after, answer)
            before = after
            await trio.sleep(pause)
            pause = min(2 * pause, _PAUSE_LAST_SECONDS)
        raise _Stop(Ending.FAILED, f"the request failed after {ATTEMPTS_MAX} attempts: {reason}")

    async def _send(self, request: AclRequest, before: Listed) -> Answered | Unanswered:
        """Send the request once. It is in doubt until its outcome is known."""
        was_in_doubt = self.progress.in_doubt is not None
        self.progress.in_doubt = request
        try:
            answer = await self._server.send(request, before.offset)
        except CommandError as error:
            if not was_in_doubt:
                self.progress.in_doubt = None
            raise _Stop(Ending.FAILED, str(error)) from error
        if not was_in_doubt and isinstance(answer, Answered) and _is_rejected(answer):
            self.progress.in_doubt = None
        return answer

    def _check_unchanged(
        self, request: AclRequest, before: Listed, after: Listed, answer: Answered | Unanswered
    ) -> None:
        """Return if the request can be sent again, because nothing has changed and it may
        succeed."""
        failure = _describe_failure(answer)
        found = state.compare(before.acls, request, after.acls)
        errors = answer.errors if isinstance(answer, Answered) else ()
        if after.digest == before.digest:
            if isinstance(answer, Answered) and not errors:
                # The change is acknowledged but not visible: someone has undone it, or the server
                # is behind.
                raise _Stop(Ending.RACED, failure, others=found)
            if any(error.code not in _TEMPORARY for error in errors):
                self.progress.in_doubt = None
                raise _Stop(Ending.FAILED, failure)
        elif isinstance(answer, Answered) and _is_rejected(answer):
            made = [acl for acl in request.acls if acl not in found.unseen]
            if not made:
                # An earlier attempt can no longer be applied: it expects an older offset.
                self.progress.in_doubt = None
            is_certain = self.progress.in_doubt is None
            reasons = name_some("made by someone else", made if is_certain else ())
            raise _Stop(Ending.MOVED, failure, *reasons, others=found)
        elif found.is_raced or not errors:
            raise _Stop(Ending.RACED, failure, others=found)
        else:
            raise _Stop(Ending.FAILED, failure, others=found)

    async def _look(
        self, request: AclRequest, before: Listed, answer: Answered | Unanswered, digest: str
    ) -> Listed:
        """Return the ACLs after a request.

        A server that does not compare may list an older state for a short time. So wait until it
        shows the whole request, unless all items have failed.
        """
        has_failed = isinstance(answer, Answered) and len(answer.errors) >= len(request.acls)
        pause = _PAUSE_FIRST_SECONDS
        end = trio.current_time() + self._settle_seconds
        while True:
            after = await self._list_again()
            if self.progress.compares or has_failed or after.digest == digest:
                return after
            if not state.compare(before.acls, request, after.acls).unseen:
                return after
            if trio.current_time() + pause > end:
                return after
            await trio.sleep(pause)
            pause = min(2 * pause, _PAUSE_LAST_SECONDS)

    async def _list_again(self) -> Listed:
        try:
            listed = await self._server.list_acls()
        except CommandError as error:
            raise _Stop(Ending.FAILED, str(error)) from error
        if (listed.offset is not None) is not self.progress.compares:
            raise _Stop(
                Ending.FAILED,
                "a different server answers now: only one of the two compares offsets. Name "
                "servers of one kind",
            )
        return listed

    def _add(self, request: AclRequest, offset: int | None) -> None:
        done = Done(request, offset)
        self.progress.in_doubt = None
        self.progress.done.append(done)
        self.progress.left -= len(request.acls)
        self._report(done)

    def _note_unmatched(self, answer: Answered | Unanswered) -> None:
        if isinstance(answer, Answered):
            self.progress.notes += [
                f"someone else deleted it first: {acl}" for acl in answer.unmatched
            ]


def _is_rejected(answer: Answered) -> bool:
    """Return True if the server compares, and so has changed nothing."""
    return any(error.code == ErrorCode.INVALID_UPDATE_VERSION for error in answer.errors)


def _describe_failure(answer: Answered | Unanswered) -> str:
    if isinstance(answer, Unanswered):
        return f"no answer to the request: {answer.reason}"
    if answer.errors:
        more = len(answer.errors) - 1
        return f"{answer.errors[0]}{f' (and {more} more errors)' if more else ''}"
    return "the request was acknowledged, but the ACLs are not as expected"


def _new_move(plan: Plan, listed: Listed) -> _Stop:
    """Return the known changes since the plan was made or applied, as a reason to stop."""
    held = set(listed.acls.values())
    made_for, changes = plan.made_for, plan.changes
    there = [acl for acl in changes.created if acl in held]
    gone = [acl for acl in changes.deleted if acl not in held]
    at = "" if made_for.offset is None else f" at offset {made_for.offset}"
    now = "" if listed.offset is None else f" at offset {listed.offset}"
    first = (
        f"the plan was made for {made_for.acls} ACLs{at}; now there are different ones: "
        f"{len(held)} ACLs{now}"
    )
    if changes.count and len(there) + len(gone) == changes.count:
        # Omit the plan's own changes, and report only later ones.
        since = state.find_added(plan.leads_to.digest, listed.acls, listed.digest)
        reasons = ["all changes of the plan are already there: it was applied before"]
        gone = []
    else:
        since = [
            acl
            for acl in state.find_added(made_for.digest, listed.acls, listed.digest)
            if acl not in changes.created
        ]
        reasons = [*name_some("already there", there), *name_some("no longer there", gone)]
        if len(there) == len(changes.created):
            gone = []  # perhaps by this plan, which deletes after all creations
    others = state.Comparison(unseen=(), created=tuple(since), deleted=tuple(gone))
    return _Stop(Ending.MOVED, first, *reasons, *name_some("created since", since), others=others)


def name_some(what: str, acls: Sequence[Acl], more: str = "more") -> Iterator[str]:
    """Yield the first ACLs, one per line, and the number of further ones."""
    for acl in acls[:ACLS_NAMED_MAX]:
        yield f"{what}: {acl}"
    if len(acls) > ACLS_NAMED_MAX:
        yield f"{what}: {len(acls) - ACLS_NAMED_MAX} {more}"
