"""Turns: connections with several requests waiting take turns, one slice at a time.

trio runs every task that is ready in each turn of its loop, and only then looks for new requests.
If 256 connections have requests waiting, a client with a single request would wait for a slice of
each of them. So in each turn, only as many connections continue as fit into WORK_NS. The others
wait in order of arrival. A connection with a single request never waits here, and a Selector
answers it between two slices of a turn.

**Invariant:** while connections wait, as many as fit have been released for the next turn. The
first of these to run begins that turn and releases the next ones, so none starves. What is answered
between slices counts as other work, so slices get as much time, up to SHARED_WORK_NS_MAX.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import trio

WORK_NS: Final = 500_000
"""The work of all slices in one turn."""
SHARED_WORK_NS_MAX: Final = 2_000_000
"""The limit for slices while other requests take more than WORK_NS: slices get as much time."""
ROUND_NS: Final = 12_500_000
"""The time within which each waiting connection should get its turn."""
SLICES_MAX: Final = 64
BETWEEN_NS: Final = 250_000
"""How often single requests are answered between slices, and for how long at most."""
_SLICE_NS_MAX: Final = 2_000_000
_SLICES_REMEMBERED: Final = 8
PAUSE_SECONDS: Final = 0.1
"""Time for which a deferred connection is not read.

Long enough that a thousand such connections take only a fraction of a core, however often they are
refused.
"""


class Turns:
    """The queue of one event loop, which all its ports share."""

    def __init__(self) -> None:
        # Not a dict: finding its first item takes longer the more items were removed before it.
        self._waiting: OrderedDict[trio.lowlevel.Task, None] = OrderedDict()
        self._released = 0  # for the next turn
        self._resuming = 0  # released for this turn, but have not run yet
        self._begun = 0  # in this turn
        self._slices = 1  # maximum per turn
        self._slice_ns = WORK_NS  # average of recent slices
        self._worked_ns = 0  # this thread's CPU time at the start of the turn
        self._is_timed = False  # True if the turn was timed from its start
        self._answerers: list[Callable[[int], None]] = []
        self._answered_until_ns = 0

    @property
    def waiting(self) -> int:
        """The number of connections waiting for a turn after the next one."""
        return len(self._waiting)

    @property
    def slice_ns(self) -> int:
        """How long a slice may take, so that each waiting connection soon gets its turn."""
        return min(WORK_NS, ROUND_NS // (1 + len(self._waiting)))

    @contextmanager
    def answering_between(self, answer: Callable[[int], None]) -> Iterator[None]:
        """Call ``answer`` before slices, if the last call was at least BETWEEN_NS ago.

        It answers requests that have arrived, until a time of ``perf_counter_ns``, and one more. It
        must not raise.
        """
        self._answerers.append(answer)
        try:
            yield
        finally:
            self._answerers.remove(answer)

    def _answer_others(self) -> None:
        now_ns = time.perf_counter_ns()
        if now_ns - self._answered_until_ns >= BETWEEN_NS:
            end_ns = now_ns + BETWEEN_NS
            for answer in self._answerers:
                if now_ns <= end_ns:
                    answer(end_ns)
                    now_ns = time.perf_counter_ns()
            self._answered_until_ns = now_ns

    def begin_slice(self) -> bool:
        """Return True if a connection may continue in this turn, without waiting for another."""
        if self._waiting or self._begun >= self._slices:
            return False
        self._begun += 1
        self._answer_others()
        return True

    async def wait(self, slice_ns: int = 0) -> int:
        """Wait for the next turn in which this task may continue.

        Args:
            slice_ns: how long the task's last slice took, if it had one.

        Returns:
            The CPU time in nanoseconds that this thread used during the wait: 0 if the task
                continued in the next turn. Elapsed time would also count pauses of the machine.
        """
        if slice_ns:
            more = min(slice_ns, _SLICE_NS_MAX) - self._slice_ns
            self._slice_ns += more // _SLICES_REMEMBERED
        if self._released < self._slices:
            self._released += 1
            try:
                await trio.lowlevel.checkpoint()
            finally:  # even a cancelled task must release the next tasks
                self._resume()
            return 0
        if not self._waiting:
            self._worked_ns = time.thread_time_ns()
        began_ns = self._worked_ns
        task = trio.lowlevel.current_task()
        self._waiting[task] = None

        def abort(_: object) -> trio.lowlevel.Abort:
            del self._waiting[task]
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)
        self._resume()
        return self._worked_ns - began_ns

    def _resume(self) -> None:
        """Note that a released task runs. The first one begins the turn, and releases more."""
        self._answer_others()
        if self._resuming:
            self._resuming -= 1
            return
        work_ns = WORK_NS
        if self._waiting:
            now_ns = time.thread_time_ns()
            turn_ns = now_ns - self._worked_ns
            if self._is_timed:
                # A pause of the machine makes a slice look long, but costs no CPU time.
                self._slice_ns = min(self._slice_ns, turn_ns // max(1, self._begun))
            of_others_ns = turn_ns - self._begun * self._slice_ns
            work_ns = max(WORK_NS, min(of_others_ns, SHARED_WORK_NS_MAX))
            self._worked_ns = now_ns
        self._slices = max(1, min(SLICES_MAX, work_ns // max(1, self._slice_ns)))
        self._begun, self._resuming, self._released = self._released, self._released - 1, 0
        while self._waiting and self._released < self._slices:
            task, _ = self._waiting.popitem(last=False)
            trio.lowlevel.reschedule(task)
            self._released += 1
        self._is_timed = bool(self._waiting)


_TURNS: Final[trio.lowlevel.RunVar[Turns]] = trio.lowlevel.RunVar("turns")


def current_turns() -> Turns:
    """Return the queue of the running event loop."""
    try:
        return _TURNS.get()
    except LookupError:
        turns = Turns()
        _TURNS.set(turns)
        return turns


class Admission:
    """Decides when one connection continues, and whether its next request is admitted.

    **Invariant:** if all earlier requests of its connection are answered, a request is never
    refused. So a client that waits for each answer is never refused, however many such clients
    there are. Only work counts, measured as the CPU time of the loop's thread. Elapsed time does
    not count: that the machine paused the process for a moment is no reason to refuse requests.

    A refusal sets ``is_deferred``; ``Connection.pause`` clears it. ``has_backlog`` is True after
    the client has sent more than one request at once, or part of one: then its next bytes may also
    have to wait.

    Args:
        turn_ms_max: how many milliseconds of other work a pipelined request may wait for.
    """

    def __init__(self, turns: Turns, turn_ms_max: float) -> None:
        self._turns = turns
        self._turn_ns_max = turn_ms_max * 1e6
        self._began_ns = 0
        self._is_late = False
        self.is_deferred = False
        self.has_backlog = False

    @property
    def is_in_slice(self) -> bool:
        """True from the beginning of a slice until everything received has been answered."""
        return self._began_ns > 0

    @property
    def is_late(self) -> bool:
        """True if the next request waited too long, so that ``admits`` will refuse it."""
        return self._is_late

    @property
    def is_contended(self) -> bool:
        """True if other connections wait for a turn after the next one."""
        return self._turns.waiting > 0

    def share(self, each_ns: int) -> int:
        """Return how many requests the connection may answer before it waits again, at least 1.

        Args:
            each_ns: about how long one takes.
        """
        return max(1, self._turns.slice_ns // each_ns) if self._began_ns else 1

    def begin_slice(self) -> bool:
        """Return True if the connection need not wait yet: once, before its first wait."""
        if self._began_ns or not self._turns.begin_slice():
            return False
        self._began_ns = time.perf_counter_ns()
        return True

    async def wait(self) -> None:
        """Wait until the connection may continue. This always yields to other tasks."""
        took_ns = time.perf_counter_ns() - self._began_ns if self._began_ns else 0
        self._began_ns = 0
        waited_ns = await self._turns.wait(took_ns)
        self._is_late = waited_ns > self._turn_ns_max
        self._began_ns = time.perf_counter_ns()

    async def enter(self) -> None:
        """Wait, if necessary, before requests that have just been received."""
        if not self.begin_slice():
            await self.wait()
        # All earlier requests are answered, so the first of these is not refused.
        self._is_late = False

    def leave(self, *, has_backlog: bool) -> None:
        """Note that everything received has been answered, or is incomplete."""
        self._began_ns = 0
        self._is_late = False
        self.has_backlog = has_backlog

    def admits(self) -> bool:
        """Return True if the next request is admitted; otherwise, defer the connection.

        Otherwise pipelined requests would be refused one by one, each after being parsed.
        """
        if not self._is_late:
            return True
        self._is_late = False
        self.is_deferred = True
        return False
