"""The invariants: which updates are accepted, written to the log, and visible at each offset.

Updates are made one after the other, so the expected answers are known when an update is accepted.
After each step of any task, written, visible and answered values are compared with them.
"""

from collections import Counter, deque
from collections.abc import Sequence
from typing import Any, Final

from authorizerd.acl.errors import AclError
from authorizerd.acl.model import Acl, AclFilter, Question
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.acl.updates import Deleted
from authorizerd.actors.completion import Completion
from authorizerd.actors.errors import LogWriteError, UpdateRefusedError
from authorizerd.image.cluster import ClusterImage
from tests.faults.workload import BrokenInvariantError
from tests.model.reference import (
    BROKER,
    INVALID,
    TIMEOUT_KEY,
    Batch,
    LogState,
    Request,
    State,
    matches,
    plan,
)
from tests.model.story import SetTimeout
from tests.oracles.scan import Settings, find_wrong


def check(holds: bool, broken: str) -> None:
    """Raise BrokenInvariantError with the text ``broken`` unless ``holds``."""
    if not holds:
        raise BrokenInvariantError(broken)


class Invariants:
    """The invariants of one story; each process calls ``begin`` and ``end_life`` once.

    ``acknowledged_offset`` is the lowest offset that a new request may see; -1 if nothing was
    acknowledged in this life.
    """

    def __init__(self) -> None:
        self.counts: Final[Counter[str]] = Counter()
        self._settled = LogState()
        self._doubt: list[Batch] = []
        self._start_life()

    def _start_life(self) -> None:
        self._tail: State | None = None
        self._waiting: list[Request] = []
        self._unwritten: deque[Request] = deque()
        self._written: list[Request] = []
        self._doubted: list[Request] = []
        self._states: dict[int, State] = {}
        self._snapshot: AclSnapshot | None = None
        self._accepted = 0
        self._is_interrupted = False
        self._is_plan_void = False
        self.acknowledged_offset = -1

    # Updates.

    def accept(self, request: Request, completions: Sequence[Completion[Any]]) -> None:
        """Record an update that the queue has accepted."""
        request.completions = completions
        request.number = self._accepted
        self._accepted += 1
        self._waiting.append(request)
        self.counts["updates accepted before loading"] += self._tail is None
        self._plan(request)

    def refuse(self, reasons: Sequence[str], is_full: bool) -> None:
        """Record an update that is refused immediately, because the queue is full or has ended."""
        self.counts["refused at once"] += 1
        if reasons[0].startswith("too many"):
            check(is_full, "an update is refused although the queue is not full")
        else:
            self._is_interrupted = True

    def _plan(self, request: Request) -> None:
        self._plan_again()
        if self._tail is None:
            return  # its effect is known once the log is loaded
        request.after, request.expected = plan(self._tail, request.step)
        request.is_planned = True
        if request.after != self._tail:
            self._unwritten.append(request)
        self._tail = request.after

    def refused_to_write(self) -> None:
        """Record that nothing was written, so the updates that still wait will be planned again."""
        for request in self._doubted:
            request.is_in_doubt = False
        self._doubt, self._doubted = [], []
        self._is_plan_void = True
        self.counts["writes refused"] += 1

    def _plan_again(self) -> None:
        if self._is_plan_void:
            self._is_plan_void = False
            self._tail = self._settled.state
            self._unwritten.clear()
            for request in self._waiting:
                if not any(completion.is_done for completion in request.completions):
                    self._plan(request)

    def begin(self, found: LogState, offset: int) -> None:
        """Record that a new process has read ``found`` and will write from ``offset`` on."""
        possible = self._settled.copy()
        outcomes = [possible.copy()]
        for batch in self._doubt:
            possible.apply(batch)
            outcomes.append(possible.copy())
        check(found in outcomes, "a start reads other batches than the acknowledged ones")
        if self._doubt:
            kept = "all" if found == outcomes[-1] else "none" if found == outcomes[0] else "part"
            self.counts[f"writes in doubt: {kept}"] += 1
        self._settled, self._doubt = found, []
        self._tail = found.state
        self._states = {offset: self._tail}
        for request in self._waiting:
            if not any(completion.is_done for completion in request.completions):
                self._plan(request)

    def write(self, batches: Sequence[Batch]) -> None:
        """Record that these batches, one per request, are about to be written."""
        self._plan_again()
        state = self._settled.copy()
        for batch in batches:
            check(bool(self._unwritten), "more is written than was requested")
            request = self._unwritten.popleft()
            state.apply(batch)
            check(state.state == request.after, f"another batch is written for {request.step}")
            request.is_in_doubt = True
            self._doubted.append(request)
        self._doubt = [tuple(batch) for batch in batches]
        self.counts["writes"] += 1
        self.counts["writes of several batches"] += len(batches) > 1

    def wrote(self, last_offset: int) -> None:
        """Record that the batches are durable and end at ``last_offset``."""
        offset = last_offset - sum(map(len, self._doubt))
        for batch, request in zip(self._doubt, self._doubted, strict=True):
            offset += len(batch)
            self._settled.apply(batch)
            request.offset = offset
            self._states[offset] = request.after
        self._written += self._doubted
        self._doubt, self._doubted = [], []

    def note_applied(self, request: Request, snapshot: AclSnapshot | None) -> None:
        """Record the queue's report that an update of configs is durable and in force."""
        request.times_reported += 1
        check(
            snapshot is not None and snapshot.offset >= request.offset,
            "an update is reported before it is applied",
        )

    # Visible state.

    def watch(
        self, snapshot: AclSnapshot | None, image: ClusterImage, timeout_ms: int, in_file: int
    ) -> None:
        """Compare visible state and answers with the log; called after each step of any task."""
        if snapshot is not self._snapshot:
            self._check_visible(snapshot, image)
            self._snapshot = snapshot
        ended = [request for request in self._waiting if request.completions[0].is_done]
        for request in ended:
            self._waiting.remove(request)
            self._check_ended(request)
            if isinstance(request.step, SetTimeout) and request.times_reported:
                self.check_timeout(timeout_ms, in_file, request.offset)

    def check_timeout(self, timeout_ms: int, in_file: int, offset: int = -1) -> None:
        """Check that the time-out in force is one that applied at ``offset`` or later.

        Where the log sets none, ``in_file`` applies.
        """
        later = [state for ended, state in self._states.items() if ended >= offset]
        possible = {state.timeout_ms(in_file) for state in later}
        check(timeout_ms in possible, "a config of the log is not in force")

    def _check_visible(self, snapshot: AclSnapshot | None, image: ClusterImage) -> None:
        self.counts["snapshots checked"] += 1
        check(snapshot is not None, "the snapshot is unloaded")
        assert snapshot is not None
        if self._snapshot is not None:
            check(snapshot.offset > self._snapshot.offset, "the snapshot's offset goes back")
        state = self._state_at(snapshot.offset)
        check(len(snapshot.acls) == len(state.acls), "the visible ACLs are not a complete batch")
        check(
            state.acls == {*snapshot.acls.values()}, "the visible ACLs are not those of the offset"
        )
        visible = {
            node: value
            for (kind, node), values in image.configs.items()
            if kind == BROKER and (value := values.get(TIMEOUT_KEY)) is not None
        }
        check(visible == state.timeouts, "the image is not that of the snapshot's offset")

    @property
    def promised_offset(self) -> int:
        """The lowest offset that a worker that listens may have."""
        return self.acknowledged_offset

    def check_copy(self, snapshot: AclSnapshot) -> None:
        """Check that a worker's state is one of the log's."""
        acls = self._state_at(snapshot.offset).acls
        check(len(snapshot.acls) == len(acls), "a worker's ACLs are not a complete batch")
        check(acls == {*snapshot.acls.values()}, "a worker's ACLs are not those of the offset")

    def _state_at(self, offset: int) -> State:
        check(offset in self._states, f"no batch of the log ends at offset {offset}")
        return self._states[offset]

    def _check_ended(self, request: Request) -> None:
        """Check that every item has ended as expected, or with one error for the request."""
        check(all(each.is_done for each in request.completions), "a request is answered in part")
        self._plan_again()
        answers = [_answer(completion) for completion in request.completions]
        refusals = [str(answer) for answer in answers if isinstance(answer, UpdateRefusedError)]
        if refusals:
            is_by_the_log = bool(self.counts["writes refused"]) and "try again" in refusals[0]
            self._is_interrupted |= not is_by_the_log
            self.counts["updates refused later"] += 1
            check(not request.is_in_doubt, f"a refused update is written: {request.step}")
            return
        if any(isinstance(answer, LogWriteError) for answer in answers):
            self._is_interrupted = True
            self.counts["updates in doubt"] += 1
            return
        self.counts["updates acknowledged"] += 1
        request.is_acknowledged = True
        check(request.is_planned, "an update is acknowledged before the log is read")
        late = bool(self._unwritten) and self._unwritten[0].number <= request.number
        doubted = any(each.number <= request.number for each in self._doubted)
        check(not late and not doubted, f"acknowledged before it is durable: {request.step}")
        before = [each.offset for each in self._written if each.number <= request.number]
        offset = max(before, default=-1)
        newest = self._snapshot
        check(newest is not None and newest.offset >= offset, "acknowledged before it is applied")
        check(
            answers == list(request.expected),
            f"{request.step} is answered {answers}, not {request.expected}",
        )
        is_cluster = isinstance(request.step, SetTimeout)
        check(request.times_reported == is_cluster, "an acknowledged update is not reported once")
        self.acknowledged_offset = max(self.acknowledged_offset, offset)

    def check_decision(
        self,
        offset: int,
        question: Question,
        answer: bool,
        settings: Sequence[Settings],
        *,
        last_offset: int | None = None,
    ) -> None:
        """Compare an answer with a plain scan of the ACLs at ``offset``, or up to ``last_offset``.

        Args:
            settings: the super users and the default that may have been in force.
        """
        states = [self._state_at(offset)]
        if last_offset is not None:
            states += [
                state for ended, state in self._states.items() if offset < ended <= last_offset
            ]
        wrong = [find_wrong(state.acls, [question], [answer], settings) for state in states]
        check(None in wrong, f"at offset {offset}: {wrong[-1]}")

    def check_answer(self, request: Request, answers: Sequence[object]) -> None:
        """Check that a successful answer to an update that a client got is the expected one."""
        check(request.is_acknowledged, f"{request.step} is answered before it is done")
        check(
            list(answers) == list(request.expected),
            f"a client gets {answers} for {request.step}, not {request.expected}",
        )

    def find_description(
        self, least_offset: int, filter: AclFilter, described: Sequence[Acl]
    ) -> int:
        """Return the lowest offset, from ``least_offset`` on, at which these were the ACLs."""
        wanted = {*described}
        check(len(wanted) == len(described), "an ACL is described twice")
        for offset, state in sorted(self._states.items()):
            if offset >= least_offset and wanted == {
                acl for acl in state.acls if matches(filter, acl)
            }:
                return offset
        raise BrokenInvariantError(f"{filter} describes ACLs of no state from {least_offset} on")

    def check_description(self, offset: int, filter: AclFilter, described: Sequence[Acl]) -> None:
        expected = {acl for acl in self._state_at(offset).acls if matches(filter, acl)}
        check(len(described) == len(expected), f"{filter} describes {len(described)} ACLs")
        check({*described} == expected, f"{filter} describes other ACLs than offset {offset} has")

    # The end of a process.

    def end_life(self, *, is_clean: bool, is_crash: bool) -> None:
        """Check that the process has left no update open.

        Except after a crash, every update is answered. A clean end has also written all of them.
        """
        if not is_crash:
            check(not self._waiting, f"{len(self._waiting)} updates are never answered")
        if is_clean and self._snapshot is not None:
            check(not self._is_interrupted, "an accepted update fails without a fault")
            check(not self._unwritten, "an accepted update is never written")
        self._start_life()


def _answer(completion: Completion[Any]) -> object:
    try:
        result = completion.result()
    except AclError:
        return INVALID
    except Exception as error:  # noqa: BLE001 - the caller judges it
        return error
    if isinstance(result, Deleted):
        return INVALID if result.error is not None else {*result.acls}
    return result
