"""Answers about the past: the state of an earlier moment, with today's settings.

A thread reads the changes since that moment from the log's files. The event loop then undoes them,
in turns, from the newest snapshot.

**Invariant:** a state is exact, or there is an error. Only a request that asks for the past gets
such a state, and its answer says so. One read runs at a time; reading, waiting and undoing have
limits, and callers take turns (``FairQueue``). A state is freed in steps once nobody uses it.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import trio

from authorizerd.acl.as_of import AsOf, Moment
from authorizerd.acl.decision import Decision, explain, is_allowed
from authorizerd.acl.errors import PastMismatchError
from authorizerd.acl.model import Acl, Question
from authorizerd.acl.past import (
    AnswerChange,
    PastChange,
    concerns,
    find_answer_changes,
    undo_changes,
)
from authorizerd.acl.snapshot import STATES_FREED_PER_STEP, AclSnapshot, with_rules
from authorizerd.acl.steps import free
from authorizerd.actors.decider import Decider, DecisionState
from authorizerd.actors.standard_decider import StandardDecider
from authorizerd.actors.steps import NO_HEAP, Heap, finish_in_turns
from authorizerd.daemon.decisions.fair_queue import FairQueue
from authorizerd.daemon.errors import PastRefusedError, PastTooFarError, PastUnavailableError
from authorizerd.daemon.thread_switching import Pace
from authorizerd.daemon.threads import run_in_thread
from authorizerd.daemon.utc_time import now_ms
from authorizerd.metadata.batch_index import BatchIndex
from authorizerd.metadata.errors import (
    MetadataLogError,
    PastDamagedError,
    PastNotReadError,
    PastRangeError,
    TooManyChangesError,
)
from authorizerd.metadata.history import ChangesAfter, History, read_changes_after, read_history
from authorizerd.metadata.past import PastLog, check_complete, check_time, read_past
from authorizerd.metadata.storage import DISK, Storage
from authorizerd.protocol.decisions.past_answers import (
    AsOfAnswer,
    NowAnswer,
    make_as_of,
    make_past_change,
)

T = TypeVar("T")

PAST_SURFACE: Final = "Past"
"""The surface under which questions about the past are counted."""

CHANGES_MAX: Final = 10_000
"""The maximum number of changes that are undone. More would take too much memory and time."""
STATES_KEPT_MAX: Final = 4
KEPT_SECONDS: Final = 30.0
CHANGES_WHILE_KEPT_MAX: Final = 2_000
"""A state is dropped once the log has grown by this many records. Until then it also keeps the
newest state of its time, and freeing that takes longer the more has changed since.
"""
CHECK_SECONDS: Final = 0.25
SECONDS_MAX: Final = 10.0
"""The maximum time in which a state is read and made."""

_logger = logging.getLogger(__name__)


class _Kept:
    """A state of the past that is in use, or was used lately.

    ``states`` are ``newest`` and the states in between.
    """

    def __init__(self, newest: AclSnapshot, after: ChangesAfter) -> None:
        self.newest_offset = newest.offset
        self.moment = after.moment
        self.changes = list(after.changes)
        self.states: list[AclSnapshot] = []
        self.snapshot: AclSnapshot | None = None
        self.users = 0
        self.used_at = 0.0

    async def free(self) -> None:
        """Free everything, the oldest state first."""
        if self.snapshot is not None:
            self.states.append(self.snapshot)
            self.snapshot = None
        with trio.CancelScope(shield=True):  # what is left would be freed at once
            await finish_in_turns(free(self.states, STATES_FREED_PER_STEP))
            await finish_in_turns(free(self.changes))


class PastState:
    """A state of the past; use it only until its context manager ends.

    Attributes:
        state: the ACLs of then, with the settings of now.
        moment: the last batch that the state includes.
        now: the newest state.
    """

    def __init__(
        self,
        past: Past,
        state: DecisionState,
        moment: Moment,
        now: DecisionState,
        kept: _Kept,
        principal: str | None,
    ) -> None:
        self._past: Final = past
        self._principal: Final = principal
        self._kept: Final = kept
        self.state: Final = state
        self.moment: Final = moment
        self.now: Final = now

    def decide(self, question: Question) -> Decision:
        """Return the decision of then. The caller counts it. It is not audited: nobody enforces it.

        Raises:
            InvalidQuestionError: the principal is ``User:*``.
        """
        assert self.state.snapshot is not None, "a state of the past has ACLs"
        return explain(self.state.snapshot, self.state.settings, question)

    async def describe(self, question: Question) -> AsOfAnswer:
        """Return what an answer says about its moment, and since when the answer is another one.

        Raises as ``find_difference``.
        """
        found = await self.find_difference(question)
        if found is None:
            return make_as_of(self.moment)
        since = make_past_change(found.change)
        return make_as_of(self.moment, NowAnswer(found.allowed, self.now.offset, since))

    async def find_difference(self, question: Question) -> AnswerChange | None:
        """Return the change since which the answer is what it is now, None if it is the same.

        Raises:
            PastRefusedError, PastUnavailableError: as ``Past.state_at``.
            InvalidQuestionError: the principal is ``User:*``.
        """
        then, now = self.state.snapshot, self.now.snapshot
        assert then is not None, "a state of the past has ACLs"
        assert now is not None, "it was made from the newest state"
        if is_allowed(then, self.state.settings, question) == is_allowed(
            now, self.now.settings, question
        ):
            return None
        return (await self.find_answer_changes(question))[0]

    async def find_answer_changes(self, question: Question) -> tuple[AnswerChange, ...]:
        """Return each change since this moment that made a difference, the newest first.

        Raises as ``find_difference``.
        """
        now = self.now.snapshot
        assert now is not None, "it was made from the newest state"
        later = await self._past.read_later(self._kept.newest_offset, now.offset, self._principal)
        changes = [*self._kept.changes, *later]
        with _named_errors():
            return await finish_in_turns(
                find_answer_changes(now, self.now.settings, question, changes)
            )


@dataclass(frozen=True, slots=True)
class PastAnswers:
    """The answer at ``begin``, and each change that made a difference, the newest first."""

    begin: Moment
    now: DecisionState
    allowed: bool
    changes: tuple[AnswerChange, ...]


class Past:
    """Make states of the past.

    Args:
        log_dir: the log, or the copy of a followed log, from which the decider's state comes.
        now_ms: returns milliseconds since 1970.
    """

    def __init__(
        self,
        decider: Decider,
        log_dir: Path,
        *,
        storage: Storage = DISK,
        now_ms: Callable[[], int] = now_ms,
        heap: Heap = NO_HEAP,
    ) -> None:
        self._decider: Final = decider
        self._log_dir: Final = log_dir
        self._storage: Final = storage
        self._now_ms: Final = now_ms
        self._heap: Final = heap
        self._queue: Final = FairQueue()
        self._index: Final = BatchIndex()
        self._kept: Final[dict[int, _Kept]] = {}
        self._added = trio.Event()

    async def run(self) -> None:
        """Drop states that were not used lately, for ever."""
        while True:
            await self._added.wait()
            while self._kept:
                await trio.sleep(CHECK_SECONDS)
                # Not a list: while one is freed, a request may drop others.
                while (offset := self._find_due()) is not None:
                    await self._drop(offset)
            self._added = trio.Event()

    @asynccontextmanager
    async def state_at(self, as_of: AsOf, principal: str | None = None) -> AsyncIterator[PastState]:
        """Provide the state at a moment, for as long as the context lasts.

        Args:
            principal: the caller's, None if callers cannot be told apart.

        Raises:
            PastRefusedError: the moment is too old, or in the future.
            PastUnavailableError: the log cannot be read now, or too many requests ask for the past.
            NotReadyError: there are no ACLs to decide by.
        """
        now, newest = self._check(as_of)
        kept = await self._find_or_make(as_of, newest, principal)
        kept.users += 1
        try:
            assert kept.snapshot is not None, "it was made"
            assert now.snapshot is not None, "it is ready"
            # The state may have been made when other releases were in force.
            snapshot = with_rules(kept.snapshot, now.snapshot.rules)
            then = DecisionState(snapshot, now.settings, now.deadline)
            del snapshot
            yield PastState(self, then, kept.moment, now, kept, principal)
        finally:
            kept.users -= 1
            kept.used_at = trio.current_time()
            if not kept.users and kept not in self._kept.values():
                await kept.free()

    def _check(self, as_of: AsOf) -> tuple[DecisionState, AclSnapshot]:
        """Return the newest state and its ACLs. Raises as ``state_at``."""
        with _named_errors():
            check_time(as_of, self._now_ms())
        now = self._decider.current_state()
        if not isinstance(self._decider, StandardDecider):
            raise PastRefusedError("as_of: authorizer.class.name names a class without a past")
        return now, self._decider.check_ready(now)

    async def _find_or_make(self, as_of: AsOf, newest: AclSnapshot, principal: str | None) -> _Kept:
        offset = as_of.offset
        if offset is not None and offset in self._kept:
            return self._kept[offset]
        with self._limits(principal):
            async with self._queue.turn(principal):
                if offset is None:
                    offset = await self._read(
                        lambda log: log.find_offset(as_of, newest=newest.offset)
                    )
                # Another request may have made it in the meantime.
                return self._kept.get(offset) or await self._make(offset, newest)
        raise AssertionError("the limits end the block by an error")

    @contextmanager
    def _limits(self, principal: str | None) -> Iterator[None]:
        give_back = self._queue.enter(principal)
        if give_back is None:
            raise PastUnavailableError("too many requests ask for the past: try again later")
        try:
            with trio.move_on_after(SECONDS_MAX) as scope, _named_errors():
                yield
        finally:
            give_back()
        if scope.cancelled_caught:
            raise PastUnavailableError(
                f"the past could not be read in {SECONDS_MAX:.0f} s: try again later, or ask about "
                "a later moment"
            )

    async def _make(self, offset: int, newest: AclSnapshot) -> _Kept:
        def read(log: PastLog) -> ChangesAfter:
            log.find_offset(AsOf(offset=offset), newest=newest.offset)  # checks that it is in range
            return read_changes_after(log, offset, newest=newest.offset, changes_max=CHANGES_MAX)

        after = await self._read(read)
        kept = _Kept(newest, after)
        try:
            kept.snapshot = await finish_in_turns(
                undo_changes(newest, kept.changes, after.moment.offset, kept.states), self._heap
            )
        except BaseException:
            await kept.free()
            raise
        await self._keep(offset, kept)
        return kept

    async def read_later(
        self, offset: int, newest: int, principal: str | None
    ) -> tuple[PastChange, ...]:
        """Return the changes after ``offset`` up to ``newest``; see ``state_at`` for errors."""
        if offset == newest:
            return ()
        with self._limits(principal):
            async with self._queue.turn(principal):
                after = await self._read(
                    lambda log: read_changes_after(
                        log, offset, newest=newest, changes_max=CHANGES_MAX
                    )
                )
                return after.changes
        raise AssertionError("the limits end the block by an error")

    async def read_answers(
        self, as_of: AsOf, question: Question, principal: str | None = None
    ) -> PastAnswers:
        """Return the answers since a moment, however many ACLs have changed since.

        Only ACLs that concern the question are kept, at most ``CHANGES_MAX``. This reads the log
        from the checkpoint before the moment on, so it takes longer than ``state_at``.

        Raises as ``state_at``.
        """
        now, newest = self._check(as_of)
        selected = 0

        def select(acl: Acl) -> bool:
            nonlocal selected
            is_selected = concerns(acl, question, now.settings)
            selected += is_selected
            if selected > CHANGES_MAX:
                raise PastRangeError(
                    f"{as_of} is too far back: more than {CHANGES_MAX} ACLs concern the question, "
                    "which is the limit; ask about a later moment"
                )
            return is_selected

        def read(log: PastLog) -> History:
            nonlocal selected
            selected = 0  # the files may have changed, and are read again
            offset = log.find_offset(as_of, newest=newest.offset)
            history = read_history(log, select, since=AsOf(offset=offset))
            check_complete(history.end.offset, newest.offset)
            return history

        with self._limits(principal):
            async with self._queue.turn(principal):
                history = await self._read(read)
                # The log may have grown since.
                changes = [each for each in history.changes if each.offset <= newest.offset]
                found = await finish_in_turns(
                    find_answer_changes(newest, now.settings, question, changes)
                )
                # Each change turns the answer round.
                is_last = is_allowed(newest, now.settings, question)
                allowed = not found[-1].allowed if found else is_last
                return PastAnswers(history.begin, now, allowed, found)
        raise AssertionError("the limits end the block by an error")

    async def _read(self, read: Callable[[PastLog], T]) -> T:
        def read_slowly() -> T:
            pace = Pace()

            def check() -> None:
                trio.from_thread.check_cancelled()
                pace.rest_if_due()

            return read_past(
                self._log_dir, read, storage=self._storage, check=check, index=self._index
            )

        return await run_in_thread(read_slowly)

    async def _keep(self, offset: int, kept: _Kept) -> None:
        kept.used_at = trio.current_time()
        replaced = self._kept.pop(offset, None)
        self._kept[offset] = kept
        self._added.set()
        kept.users += 1  # so that nobody frees it while another one is freed
        if replaced is not None and not replaced.users:
            await replaced.free()
        while len(self._kept) > STATES_KEPT_MAX:
            await self._drop(min(self._kept, key=lambda each: self._kept[each].used_at))
        kept.users -= 1

    async def _drop(self, offset: int) -> None:
        kept = self._kept.pop(offset)
        if not kept.users:
            await kept.free()

    def _find_due(self) -> int | None:
        """Return the offset of a state to drop, None if there is none."""
        return next((each for each, kept in self._kept.items() if self._is_due(kept)), None)

    def _is_due(self, kept: _Kept) -> bool:
        newest = self._decider.current_state().offset
        return (
            trio.current_time() - kept.used_at >= KEPT_SECONDS
            or newest - kept.newest_offset > CHANGES_WHILE_KEPT_MAX
        )


@contextmanager
def _named_errors() -> Iterator[None]:
    """Raise errors of the log as those that callers are told, without paths of files."""
    try:
        yield
    except TooManyChangesError as error:
        raise PastTooFarError(str(error)) from error
    except PastRangeError as error:
        raise PastRefusedError(str(error)) from error
    except PastNotReadError as error:
        raise PastUnavailableError(str(error)) from error
    except PastDamagedError as error:
        _logger.warning("the past cannot be read: %s", error)
        begin = error.readable_from
        readable = "no part of it" if begin is None else f"only what follows offset {begin - 1}"
        raise PastUnavailableError(f"the log is damaged, and {readable} can be read") from error
    except (MetadataLogError, PastMismatchError, OSError) as error:
        _logger.warning("the past cannot be read: %s", error)
        raise PastUnavailableError("the log cannot be read: the daemon's log says why") from error
