"""The keeper of grants: the task that begins and ends them when their time has come.

Any number of keepers may work on one cluster, in daemons and in ``authorizerd sync``. They do not
know each other: each looks at the notes, at the ACLs and at the controller's clock, and what one of
them has done is not a step for the others any more.

**Invariant:** a step is sent only if a state that was read after it was found shows that it is
still due. What cannot be known holds the keeper, which then says so; it never guesses.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, compress
from typing import Final, Protocol

import trio

from authorizerd.acl.errors import StateMovedError
from authorizerd.acl.grants.book import GrantBook, GrantCounts, GrantState
from authorizerd.acl.grants.clocks import Clocks
from authorizerd.acl.grants.steps import GONE, Step
from authorizerd.acl.model import Acl
from authorizerd.actors.boot_clock import Clock, boot_time
from authorizerd.actors.steps import finish_in_turns

LOOK_SECONDS: Final = 10.0
"""The longest time between two looks, and so between two readings of the clock."""
RETRY_SECONDS: Final = 1.0
PAUSE_SECONDS: Final = 0.05
"""The shortest time between two looks, however often notes change."""
STEPS_PER_REQUEST: Final = 100
"""With the notes of each, a request has fewer ACLs than the 10,000 that Kafka accepts."""
STEPS_MORE: Final = 5
"""How many more steps the next request may have. If the state moves, it has half as many."""
MOVES_MAX: Final = 10
"""After so many looks in a row without progress, because the state moved, the keeper says so."""
SETTLE_SECONDS: Final = 5.0
"""Longer than a request takes after its state was read."""

_VERBS: Final = {"begin": "has begun", "end": "has ended", "identify": "is identified"}

_logger = logging.getLogger("authorizerd.grants")


class GrantAccessError(Exception):
    """The cluster or its clock cannot be read, or a request failed: the keeper tries again."""


class GrantAccess(Protocol):
    """The cluster whose grants are kept.

    Each method may raise GrantAccessError, or StateMovedError if a new look is needed.
    """

    async def read_state(self) -> GrantState | None:
        """Return the newest state that is known here, None if there is none."""

    async def learn_ids(self, acls: Collection[Acl]) -> None:
        """Find the uuids of ACLs for ``GrantState.find_id``, if they can be known."""

    async def confirm_state(self, acls: Collection[Acl]) -> GrantState:
        """Return a state that was true after this call began, for all notes and these ACLs."""

    async def read_clock_ms(self) -> int | None:
        """Return the active controller's time; None if this process is the controller."""

    async def create(self, acls: Sequence[Acl], state: GrantState) -> Sequence[str]:
        """Create ACLs in one request. Return the error of each, or an empty text.

        Args:
            state: what ``confirm_state`` returned. Without anything else: the request is not sent
                if this may be too old.
        """

    async def delete(self, acls: Sequence[Acl], state: GrantState | None) -> Sequence[str]:
        """Delete ACLs in one request, as ``create``; None if the state need not be confirmed."""

    async def wait(self, seconds: float) -> None:
        """Return after this time, or as soon as a new state may need a look."""


@dataclass(slots=True)
class GrantStatistics:
    """What a keeper has done. ``problem`` says why it holds, and is empty otherwise."""

    begun: int = 0
    ended: int = 0
    failures: int = 0
    problem: str = ""


class GrantKeeper:
    """Begins and ends the grants of one cluster.

    Args:
        enforces: False if this process only counts them.
        own_ms: this machine's clock. boot_s: its time since it was started.
    """

    def __init__(
        self,
        access: GrantAccess,
        own_ms: Callable[[], int],
        boot_s: Clock = boot_time,
        *,
        enforces: bool = True,
    ) -> None:
        self._access = access
        self._own_ms = own_ms
        self._boot_s = boot_s
        self.enforces: Final = enforces
        self._book = GrantBook()
        self._clocks = Clocks()
        self._lead_ms = 0
        self._read_at = -math.inf
        self._steps_max = self._steps_asked = STEPS_PER_REQUEST
        self._moves = 0
        self._named: set[str] = set()
        self._gone: dict[Acl, float] = {}
        self.is_clock_believed = True
        self.statistics: Final = GrantStatistics()

    def count(self) -> GrantCounts:
        """Return the counts at the time of the controller, or of this machine if it is unknown."""
        return self._book.count(self._own_ms() + self._lead_ms)

    async def run(self) -> None:
        """Begin and end grants until cancelled. A request that was sent may still be applied."""
        while True:
            pause = RETRY_SECONDS
            try:
                pause = await self._look()
                self._moves = 0
            except StateMovedError as error:
                pause = self._note_move(str(error))
            except GrantAccessError as error:
                self.statistics.failures += 1
                self._hold(str(error))
            await trio.sleep(PAUSE_SECONDS)
            await self._access.wait(pause)

    async def _look(self) -> float:
        """Carry out what is due. Return the seconds until the next look at the latest."""
        state = await self._access.read_state()
        if state is None:
            return RETRY_SECONDS
        await self._replace(state)
        if self._book.is_empty or not self.enforces:
            self.is_clock_believed = True
            return math.inf
        now_ms = await self._read_time()
        if now_ms is None:
            return RETRY_SECONDS
        await self._access.learn_ids(self._book.unidentified)
        steps, next_ms = await finish_in_turns(self._book.find(state, now_ms))
        sent = start = 0
        while start < len(steps):
            if sent and self._boot_s() >= self._read_at + RETRY_SECONDS:
                return 0  # others may be due by now
            found = steps[start : start + self._steps_max]
            self._steps_asked = len(found)
            sent += await self._carry_out(found, now_ms)
            start += len(found)
        self.statistics.problem = ""
        if steps:
            return 0 if sent else RETRY_SECONDS
        seconds = math.inf if next_ms is None else (next_ms - now_ms) / 1000
        return min(seconds, LOOK_SECONDS)

    def _note_move(self, problem: str) -> float:
        """Return the pause after a look that ended because the state moved."""
        self._steps_max = max(1, self._steps_asked // 2)
        self._moves += 1
        if self._moves < MOVES_MAX:
            return 0
        self.statistics.failures += 1
        self._hold(problem)
        return RETRY_SECONDS

    async def _replace(self, state: GrantState) -> None:
        await finish_in_turns(self._book.replace(state))
        faults = self._book.faults
        for name in faults.keys() - self._named:
            _logger.warning("a grant does not end: %r", faults[name])
        self._named = set(faults)

    async def _read_time(self) -> int | None:
        """Return the time to go by, None if none can be believed yet."""
        self.is_clock_believed = False
        reference_ms = await self._access.read_clock_ms()
        own_ms, self._read_at = self._own_ms(), self._boot_s()
        now_ms = self._clocks.read(reference_ms, own_ms, self._read_at)
        self._lead_ms = 0 if reference_ms is None else reference_ms - own_ms
        if now_ms is None:
            self.statistics.problem = "no clock has run steadily for a minute, and no two agree"
        self.is_clock_believed = now_ms is not None
        return now_ms

    def _hold(self, problem: str) -> None:
        if problem != self.statistics.problem:
            _logger.warning("grants do not begin or end: %s", problem)
        self.statistics.problem = problem

    async def _carry_out(self, found: Sequence[Step], now_ms: int) -> int:
        """Send the steps about these ACLs that are still due. Return their number.

        Args:
            now_ms: the time at which the clock was read.
        """
        acls = dict.fromkeys(step.grant.acl for step in found).keys()
        state = await self._access.confirm_state(acls)
        await self._replace(state)
        now_ms += int(1000 * (self._boot_s() - self._read_at))
        due, _ = await finish_in_turns(self._book.find(state, now_ms, acls))
        # A creation changes the state that was confirmed, so the others wait for the next look.
        steps = [step for step in due if step.create] or self._skip_unsettled(due, acls)
        del steps[STEPS_PER_REQUEST:]  # one ACL may have any number of notes
        if not steps:
            return 0
        self._steps_max = min(self._steps_max + STEPS_MORE, STEPS_PER_REQUEST)
        guard: GrantState | None = state
        if steps[0].create:
            created = _list_once(step.create for step in steps)
            steps = self._keep_done(steps, created, await self._access.create(created, state))
            guard = None
        deleted = _list_once(step.delete for step in steps)
        if deleted:
            steps = self._keep_done(steps, deleted, await self._access.delete(deleted, guard))
        for step in steps:
            self._note(step)
        return len(steps)

    def _skip_unsettled(self, due: Sequence[Step], acls: Collection[Acl]) -> list[Step]:
        """Leave out notes whose ACL has been gone for a short time only.

        Another keeper may just create it: without the note, that ACL would never end.
        """
        now = self._boot_s()
        gone = {step.grant.acl for step in due if step.why == GONE}
        self._gone = {
            acl: since for acl, since in self._gone.items() if acl in gone or acl not in acls
        }
        for acl in gone:
            self._gone.setdefault(acl, now)
        settled = {acl for acl in gone if now - self._gone[acl] >= SETTLE_SECONDS}
        for acl in settled:
            del self._gone[acl]
        return [step for step in due if step.why != GONE or step.grant.acl in settled]

    def _keep_done(
        self, steps: Sequence[Step], acls: Sequence[Acl], errors: Sequence[str]
    ) -> list[Step]:
        """Return the steps without an error; count and log the others."""
        failed = dict(compress(zip(acls, errors, strict=True), errors))
        done = [step for step in steps if failed.keys().isdisjoint((*step.create, *step.delete))]
        if failed:
            self.statistics.failures += 1
            acl, error = next(iter(failed.items()))
            _logger.warning("%d ACLs of grants were refused: %r: %r", len(failed), error, str(acl))
        return done

    def _note(self, step: Step) -> None:
        grant, why = step.grant, step.why
        self.statistics.begun += why == "begin"
        self.statistics.ended += why == "end"
        # All texts are quoted, since the author, or a principal that altered the note, chose them.
        _logger.info(
            "grant %r %s: %r, author %r, reason %r",
            *(grant.id, _VERBS.get(why, f"is forgotten, because {why}"), str(grant.acl)),
            *(grant.author, grant.reason),
        )


def _list_once(acls: Iterable[Iterable[Acl]]) -> list[Acl]:
    """Return each ACL once: two grants of one ACL may begin, or end, together."""
    return [*dict.fromkeys(chain.from_iterable(acls))]
