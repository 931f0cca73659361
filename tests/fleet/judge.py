"""The judge: does the log, as another reader sees it, bear out everything that clients were told?

It knows nothing of the daemon, and nothing of the faults. What it demands:

- The log has each acknowledged update, whole, once, and after all updates that were acknowledged
  before it was sent. It has nothing of a refused update, and nothing that no client has sent.
- What was acknowledged or shown stays in the log, and a group that was deleted does not come back.
- Each decision is that of the state whose offset it names: one that includes all updates that were
  acknowledged before the question was sent, and none that was sent after the answer. A decision
  without an offset is that of one of these states. So is each listing of the ACLs.
- The answers on one connection never go back to an older state.
- If the offsets are the daemon's own, each means one state, and a higher one no older state. All
  answers of one life of the daemon are compared, whichever process gave them.

A broker applies the ACLs of a batch one by one, and its listing may show a part of them. So for a
follower of brokers, there is a state after each ACL. An update was acknowledged once all of its
ACLs were visible.
"""

from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from math import isinf
from operator import attrgetter
from typing import Final

from authorizerd.acl.model import Acl, Operation, Question
from tests.fleet.journal import Answer, Journal, Listing, Outcome, Update
from tests.fleet.log_reader import LogBatch, ReadLog
from tests.fleet.log_state import LogState, OwnOffsets, Step, Window, split
from tests.fleet.universe import named

SHOWN: Final = 50
"""Violations whose texts are kept."""
_UPDATES_SHOWN: Final = 6
_NEAR_SECONDS: Final = 2.0
"""A violation is told with the updates of this time before it."""


class LogJudge:
    """Compare a journal with the log, again and again.

    ``violations`` has texts, ``counts`` says how much was checked.

    Args:
        given_offset: what the log has up to here is not of these clients.
        starts: the times at which the daemon was started, if its offsets are its own; None if they
            are those of the log. It may grow.
    """

    def __init__(
        self, journal: Journal, given_offset: int = -1, starts: Sequence[float] | None = None
    ) -> None:
        self.violations: list[str] = []
        self.counts: Counter[str] = Counter()
        self._journal = journal
        self._given_offset = given_offset
        self._starts = starts
        self._begin_anew()
        self._own_offsets: dict[int, OwnOffsets] = {}
        """By the number of starts before."""
        self._entered = 0
        self._open: list[Update] = []
        """Updates that no client was told about in the last check."""
        self._by_marker: dict[Acl, list[Update]] = {}
        self._kept = -1
        """The highest offset that was acknowledged or shown."""
        self._connections: dict[int, int] = {}

    def _begin_anew(self) -> None:
        self.state = LogState()
        self._visible = self.state if self._starts is None else LogState()
        """The states that may be visible: those of ``state``, or one after each ACL."""

    def check(self, read: ReadLog) -> None:
        """Check all that is new. The log is read after what it must bear out was told."""
        answers = [self._journal.answers.popleft() for _ in range(len(self._journal.answers))]
        listings = [self._journal.listings.popleft() for _ in range(len(self._journal.listings))]
        self._enter_updates()
        told = [update for update in self._open if not isinf(update.answered)]
        batches, lost = read()
        self._enter_updates()
        found = [*self._forget(batches, lost)]
        for batch in batches[len(self.state.steps) :]:
            found += self._apply(batch)
            found += self._check_step(self.state.steps[-1])
        window = self._window()
        for update in told:
            found += self._check_update(update, window)
        for answer in answers:
            found += self._tell(answer, self._check_answer(answer, window))
        for offsets in self._own_offsets.values():
            found += offsets.order()
        found += self._check_listings(listings, window)
        self.counts["violations"] += len(found)
        self.violations += found[: SHOWN - len(self.violations)]

    def _apply(self, batch: LogBatch) -> Iterator[str]:
        yield from self.state.apply(batch)
        if self._visible is not self.state:
            for part in split(batch):
                deque(self._visible.apply(part), 0)

    def _forget(self, batches: Sequence[LogBatch], lost: Sequence[LogBatch]) -> Iterator[str]:
        """Go back to the state before ``lost``."""
        if not lost:
            return
        begin = min(batch.first_offset for batch in lost)
        if begin <= self._kept:
            yield f"offset {begin} is lost, but offset {self._kept} was acknowledged or shown"
        self.counts["unfinished writes that a start has cut"] += len(lost)
        self._begin_anew()
        for offsets in self._own_offsets.values():
            yield from offsets.forget_from(begin)
        for batch in batches:
            if batch.last_offset < begin:
                yield from self._apply(batch)

    def _enter_updates(self) -> None:
        entered = self._journal.updates[self._entered :]
        self._entered += len(entered)
        self._open += entered
        for update in entered:
            self._by_marker.setdefault(update.marker, []).append(update)

    def _check_step(self, step: Step) -> Iterator[str]:
        """Check that a batch has whole requests, which clients have sent."""
        self.counts["batches of the log"] += 1
        if step.last_offset <= self._given_offset:
            return
        after = self.state.acls
        created = self._find_requests(step.added, is_deletion=False)
        deleted = self._find_requests(step.removed, is_deletion=True)
        for request in created:
            if not request.acls <= after | step.removed:
                yield f"offset {step.last_offset} has only a part of the {request}"
            if len(self.state.added[request.marker]) > 1:
                yield f"offset {step.last_offset} makes the {request} a second time"
        for request in deleted:
            if request.acls & (after - step.added):
                yield f"offset {step.last_offset} has only a part of the {request}"
        unasked = step.added.difference(*(each.acls for each in created))
        unasked |= self._find_unasked(step.removed.difference(*(each.acls for each in deleted)))
        if unasked:
            listed = ", ".join(map(str, unasked))
            yield f"offset {step.last_offset} changes what no client has sent: {listed}"

    def _find_unasked(self, removed: frozenset[Acl]) -> frozenset[Acl]:
        """Return what no late deletion may have removed.

        A deletion in doubt may be carried out when its ACLs are in other groups.
        """
        if not removed:
            return removed
        in_doubt = (
            update.acls
            for updates in self._by_marker.values()
            for update in updates
            if update.is_deletion and update.outcome is Outcome.IN_DOUBT
        )
        return removed.difference(*in_doubt)

    def _find_requests(self, changed: frozenset[Acl], *, is_deletion: bool) -> list[Update]:
        """Return a request for each group of which there is a marker among ``changed``."""
        return [
            next(update for update in self._by_marker[acl] if update.is_deletion is is_deletion)
            for acl in changed
            if any(each.is_deletion is is_deletion for each in self._by_marker.get(acl, ()))
        ]

    def _window(self) -> Window:
        sent: list[tuple[float, int]] = []
        acknowledged: list[tuple[float, int]] = []
        for marker, updates in self._by_marker.items():
            for offsets, visible, is_deletion in (
                (self.state.added.get(marker), self._visible.added.get(marker), False),
                (self.state.removed.get(marker), self._visible.removed.get(marker), True),
            ):
                attempts = [each for each in updates if each.is_deletion is is_deletion]
                if offsets and visible and attempts:
                    # Which attempt was carried out is not known, but none before the first.
                    begin = self.state.step_at(offsets[0]).first_offset
                    sent.append((min(each.sent for each in attempts), begin))
                    acknowledged += [
                        (each.answered + each.shown_within, visible[0])
                        for each in attempts
                        if each.outcome is Outcome.ACKNOWLEDGED
                        and (marker in each.found or not is_deletion)
                    ]
        return Window(sent, acknowledged, self.state.last_offset)

    def _check_update(self, update: Update, window: Window) -> Iterator[str]:
        self._open.remove(update)
        self.counts[f"updates {update.outcome.value}"] += 1
        changed = self.state.removed if update.is_deletion else self.state.added
        offset = changed[update.marker][0] if update.marker in changed else None
        first = window.first(update.sent)
        attempts = [
            each
            for each in self._by_marker[update.marker]
            if each.is_deletion is update.is_deletion
        ]
        if offset is not None and len(attempts) == 1:
            if update.outcome is Outcome.REFUSED:
                yield f"the {update} is at offset {offset}"
            if offset <= first:
                yield f"the {update} is at offset {offset}, but {first} was acknowledged before"
        if update.outcome is not Outcome.ACKNOWLEDGED:
            return
        self._kept = max(self._kept, -1 if offset is None else offset)
        if not update.is_deletion:
            if offset is None:
                yield f"the {update} is not in the log"
        else:
            yield from self._check_deletion(update, offset, first, len(attempts))

    def _check_deletion(
        self, update: Update, offset: int | None, first: int, attempts: int
    ) -> Iterator[str]:
        added = self.state.added.get(update.marker)
        if offset is None and added is not None and added[0] <= first:
            yield f"the {update} is not in the log"
        if offset is None and update.found:
            yield f"the {update} has found what is not in the log"
        if offset is None or added is None:
            return
        if update.marker not in update.found:
            if attempts == 1 and added[0] <= first:
                yield f"the {update} has not found its group"
            return
        if self.state.step_at(offset).removed & update.acls != update.found:
            yield f"the {update} has removed other ACLs than it answered"

    def _check_answer(self, answer: Answer, window: Window) -> Iterator[str]:
        first, last = window.first(answer.sent), window.last(answer.answered)
        self.counts[f"decisions over {answer.surface}"] += len(answer.questions)
        where = f"an answer over {answer.surface}"
        offset = answer.offset
        if offset is None:
            for question, decision in zip(answer.questions, answer.decisions, strict=True):
                possible = self._visible.timeline(question).between(max(first, 0), last)
                if decision not in possible:
                    asked = _show(question, decision)
                    yield f"{where}: {asked} at no offset from {first} to {last}"
            return
        where += f" at offset {offset}"
        if offset < self._connections.get(answer.connection, -1):
            yield f"{where}: this connection had {self._connections[answer.connection]} before"
        self._connections[answer.connection] = offset
        check = self._check_log_offset if self._starts is None else self._check_own_offset
        for violation in check(answer, offset, first, last):
            yield f"{where}: {violation}"

    def _check_log_offset(
        self, answer: Answer, offset: int, first: int, last: int
    ) -> Iterator[str]:
        if offset not in self.state.ends:
            yield "no batch of the log ends there"
        if offset < first:
            yield f"offset {first} was acknowledged before it was asked for"
        if offset > last:
            yield f"what comes after {last} was not yet sent"
        self._kept = max(self._kept, offset)
        for question, decision in zip(answer.questions, answer.decisions, strict=True):
            if decision is not self.state.timeline(question).at(offset):
                yield _show(question, decision)

    def _check_own_offset(
        self, answer: Answer, offset: int, first: int, last: int
    ) -> Iterator[str]:
        """Check that some state explains this answer, and all earlier ones with this offset."""
        assert self._starts is not None
        decided = tuple(zip(answer.questions, answer.decisions, strict=True))
        begin = bisect_left(self._visible.steps, first, key=attrgetter("last_offset"))
        end = bisect_right(self._visible.steps, last, key=attrgetter("last_offset"))
        states = [each.last_offset for each in self._visible.steps[begin:end]]

        def explains(state: int) -> bool:
            timeline = self._visible.timeline
            return all(timeline(question).at(state) is each for question, each in decided)

        life = bisect_right(self._starts, answer.sent)
        if life == bisect_right(self._starts, answer.answered):
            offsets = self._own_offsets.setdefault(life, OwnOffsets())
        else:
            offsets = OwnOffsets()  # it is not known which life has answered
        if not offsets.narrow(offset, states, explains):
            given = ", ".join(_show(question, each) for question, each in decided)
            yield (
                f"no state from {first} to {last} explains it and all others with this offset of"
                f" the daemon: {given}"
            )

    def _tell(self, told: Answer | Listing, violations: Iterator[str]) -> Iterator[str]:
        """Yield each violation with its time, and with the updates shortly before."""
        for violation in violations:
            near = [
                update
                for update in self._journal.updates
                if update.sent < told.answered
                and update.answered + update.shown_within > told.sent - _NEAR_SECONDS
            ]
            lines = [f"\n    {self._describe(update)}" for update in near[-_UPDATES_SHOWN:]]
            times = self._journal.format_times(told.sent, told.answered)
            yield f"{violation}\n  ({times}){''.join(lines)}"

    def _describe(self, update: Update) -> str:
        changed = self.state.removed if update.is_deletion else self.state.added
        offsets = changed.get(update.marker, "none")
        times = self._journal.format_times(update.sent, update.answered)
        return f"{update} ({times}), offsets of its marker: {offsets}"

    def _check_listings(self, listings: Sequence[Listing], window: Window) -> Iterator[str]:
        """Look for the state of each listing."""
        wanted = [(window.first(each.sent), window.last(each.answered), each) for each in listings]
        self.counts["listings"] += len(wanted)
        for offset, acls in self._visible.states_back_from_the_end():
            if offset < min((first for first, _, _ in wanted), default=offset + 1):
                break
            wanted = [
                (first, last, each)
                for first, last, each in wanted
                if not first <= offset <= last or each.acls != named(acls, each.topic)
            ]
        for first, last, listing in wanted:
            text = f"a listing of {len(listing.acls)} ACLs matches no state from {first} to {last}"
            yield from self._tell(listing, iter((text,)))


def _show(question: Question, decision: bool) -> str:
    operation = Operation(question.operation).name
    return f"{decision} for {question.principal} {operation} {question.resource_name}"
