"""Carry out one change of ACLs: send it to the active controller, and wait until it is in force.

**Invariant:** a request that may have been applied is never sent again. It is retried only if it
was not sent, if its receiver was not ready, or if its receiver was not the active controller and
the log shows no trace of it. An item succeeds only after everything that the cluster had committed
by then is applied here, and by every worker.

After NOT_CONTROLLER, the log must be checked: a controller that loses its role while a change waits
to be committed also gives this answer, and the change may still be committed. But then a new epoch
has begun, so a change that is not visible after a confirmation never will be.

Source: KIP-590; Kafka 4.3 QuorumController (renounce), AclMutator.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, assert_never

import trio

from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.actors.acl_journal import AclJournal, ExpiredError
from authorizerd.actors.errors import UpdateRefusedError
from authorizerd.actors.published import View
from authorizerd.actors.steps import finish_in_turns
from authorizerd.actors.updates import UpdateStatistics
from authorizerd.daemon.sources.failure_log import FailureLog
from authorizerd.daemon.sources.source import Destination
from authorizerd.daemon.sources.writes.answers import (
    Answers,
    judge_created,
    judge_removed,
    leave_unread,
    read_answers,
    to_exception,
    unknown,
)
from authorizerd.daemon.sources.writes.evidence import find_created, find_removed
from authorizerd.daemon.sources.writes.requests import (
    Answered,
    Creations,
    Deletions,
    Denied,
    NotController,
    NotSent,
    Outcome,
    Rejected,
    Results,
    Unknown,
    Update,
    fail,
)
from authorizerd.daemon.sources.writes.submission import Submission
from authorizerd.kafka_client.address import Address
from authorizerd.protocol.kafka.error_codes import ApiError

SENT_AT_ONCE_MAX: Final = 16
"""The maximum number of requests on their way to the cluster. A controller commits simultaneous
requests together, so sending one at a time would reach only a fraction of its rate.
"""
INTERRUPTED: Final = "the daemon is shutting down"
_PAUSE_FIRST_SECONDS: Final = 0.05
_PAUSE_LAST_SECONDS: Final = 1.0
_NO_ANSWER: Final = "no answer came in time"
_NOBODY: Final = NotSent("no active controller or broker is known", is_lost=False)

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class ForwardStatistics(UpdateStatistics):
    """The counters of changes. ``results`` counts requests by their result.

    ``answered``: answered by the cluster and applied here, whatever the results of the items;
    ``denied``: the caller may not be forwarded; ``rejected``: the cluster rejected the request as a
    whole; ``not_sent``: no node accepted it in time; ``unread``: answered, but not applied here in
    time; ``unknown``: the answer is missing.
    """

    results: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """The parts shared by all deliveries.

    Args:
        journal: the latest changes that are applied here.
        request_timeout_ms: how long a node may take to answer.
        no_right: the text if the daemon's own principal lacks ALTER on the cluster; empty if
            the caller's right is checked.
        applied_everywhere: returns once every other deciding process has applied what is published.
    """

    destination: Destination
    submission: Submission
    snapshot: View[AclSnapshot | None]
    journal: AclJournal
    request_timeout_ms: int
    no_right: str
    applied_everywhere: Callable[[], Awaitable[None]]
    failures: FailureLog = field(default_factory=FailureLog)
    statistics: ForwardStatistics = field(default_factory=ForwardStatistics)
    limit: trio.CapacityLimiter = field(
        default_factory=lambda: trio.CapacityLimiter(SENT_AT_ONCE_MAX)
    )


class Delivery:
    """Carries out one request, and completes it in any case."""

    def __init__(self, means: Means, update: Update) -> None:
        self._means = means
        self._update = update
        self._trouble = _NO_ANSWER
        self._answers: Answers | None = None
        self._before: AclSnapshot | None = None
        self._sent_after = -1  # the offset applied here when the request was last sent

    async def run(self) -> None:
        """Return once the request is completed: at its deadline, or when it is cancelled."""
        try:
            with trio.move_on_at(self._update.deadline):
                await self._carry_out()
            if not self._update.completion.is_done:
                await self._expire()
        finally:
            is_sent = self._update.is_sent
            fail(self._update, unknown(INTERRUPTED) if is_sent else UpdateRefusedError(INTERRUPTED))

    async def _carry_out(self) -> None:
        pause = _PAUSE_FIRST_SECONDS
        while True:
            address, outcome = await self._send()
            match outcome:
                case Answered(results):
                    # Drop this state now: freeing it after the change is applied would block the
                    # loop.
                    self._before = None
                    assert address is not None
                    return await self._acknowledge(results, address)
                case Rejected(error):
                    return self._reject(error)
                case Denied(denial):
                    return self._end("denied", denial)
                case Unknown(reason):
                    return await self._report(reason)
                case NotController(reason):
                    assert address is not None
                    self._means.destination.report_lost(address)
                    if not await self._is_repeatable(reason):
                        return None
                case NotSent(reason, is_lost):
                    if is_lost and address is not None:
                        self._means.destination.report_lost(address)
                case _:
                    assert_never(outcome)
            self._trouble, self._update.is_sent = reason, False
            await trio.sleep(pause)
            pause = min(2 * pause, _PAUSE_LAST_SECONDS)

    async def _send(self) -> tuple[Address | None, Outcome]:
        """Return where the request was sent, if anywhere, and its outcome."""
        async with self._means.limit:  # also a trio checkpoint: nothing is sent after the deadline
            address = self._means.destination.address
            if address is None:
                return None, _NOBODY
            newest = self._means.snapshot.newest
            self._sent_after = -1 if newest is None else newest.offset
            if isinstance(self._update, Deletions):  # to find later what it may have removed
                self._before = newest
            del newest
            timeout_ms = self._means.request_timeout_ms
            return address, await self._means.submission.send(address, self._update, timeout_ms)

    async def _acknowledge(self, results: Results, answered_by: Address) -> None:
        """Complete the items once their changes are applied here, and by every worker."""
        no_right = self._means.no_right
        self._answers = answers = await finish_in_turns(
            read_answers(self._update, results, no_right=no_right)
        )
        if answers.is_forbidden and no_right and self._means.failures.is_due_again(no_right):
            _logger.warning("changes of ACLs are rejected: %s", no_right)
        if not answers.has_success or await self._confirm(answers, answered_by):
            self._complete("answered", answers.items)
        else:
            await self._expire()

    async def _confirm(
        self, answers: Answers | None = None, answered_by: Address | None = None
    ) -> bool:
        """Return True once everything committed is applied here, and by every worker."""
        created, deleted = ((), ()) if answers is None else (answers.created, answers.deleted)
        destination = self._means.destination
        if not await destination.confirm(created, deleted, acknowledged_by=answered_by):
            return False
        await self._means.applied_everywhere()
        return True

    def _reject(self, error: ApiError) -> None:
        if self._means.failures.is_due_again(error.name):
            _logger.warning("changes of ACLs are rejected: %s", error)
        self._end("rejected", to_exception(error))

    async def _report(self, reason: str) -> None:
        """Complete the items with what the log shows, since the answer is missing."""
        self._trouble = reason
        if self._means.failures.is_due_again(reason):
            _logger.warning("a change of ACLs was sent, and its outcome is not known: %s", reason)
        _, judged = await self._look(reason)
        self._complete("unknown", judged)

    async def _is_repeatable(self, reason: str) -> bool:
        """Return True if the log shows no trace of the request; otherwise complete it."""
        self._trouble = reason
        has_trace, judged = await self._look(reason)
        if not has_trace:
            return True
        is_done = judged is not None and isinstance(self._update, Creations)
        self._complete("answered" if is_done else "unknown", judged)
        return False

    async def _look(self, reason: str) -> tuple[bool, Sequence[object] | None]:
        """Return True if the log shows the change, and its evidence for each item.

        The state must include everything committed by now. If that is unknown, return True and
        None.
        """
        after = self._means.snapshot.newest if await self._confirm() else None
        match self._update:
            case Creations(items=acls) if after is not None:
                visible = await finish_in_turns(find_created(after, acls))
                try:
                    added = await finish_in_turns(
                        self._means.journal.find_added(self._sent_after, acls)
                    )
                except ExpiredError:
                    return True, judge_created(visible, reason)
                # An added ACL may since have been removed by another client.
                is_done = [each or acl in added for each, acl in zip(visible, acls, strict=True)]
                return bool(added) or all(is_done), judge_created(is_done, reason)
            case Deletions(items=filters) if after is not None and self._before is not None:
                removals = await finish_in_turns(find_removed(self._before, after, filters))
                judged = await finish_in_turns(judge_removed(removals, reason))
                return any(removal.gone for removal in removals), judged
        return True, None

    async def _expire(self) -> None:
        """Complete the items with what is known at the deadline."""
        if self._answers is not None:
            self._complete("unread", leave_unread(self._answers.items))
        elif self._update.is_sent:
            self._end("unknown", unknown(self._trouble))
        else:
            text = f"the change was not sent within the time limit: {self._trouble}"
            self._end("not_sent", UpdateRefusedError(text))

    def _complete(self, result: str, items: Sequence[object] | None) -> None:
        """Complete the items; None if nothing is known about them."""
        if items is None:
            self._end(result, unknown(self._trouble))
            return
        self._update.completion.succeed(items)
        self._means.statistics.results[result] += 1

    def _end(self, result: str, error: Exception) -> None:
        fail(self._update, error)
        self._means.statistics.results[result] += 1
