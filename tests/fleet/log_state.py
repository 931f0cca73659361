"""The ACLs of a log by offset: its states, which may be visible, when each ACL came and went."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from operator import attrgetter

from authorizerd.acl.model import Acl, Question
from tests.fleet.log_reader import LogBatch
from tests.oracles.acl_history import Timeline


@dataclass(frozen=True, slots=True)
class Step:
    """The changes of one batch.

    Several requests may share a batch, so an ACL may be among both. ``before`` and ``after`` have
    what only the state before it has, and only the state after it.
    """

    first_offset: int
    last_offset: int
    added: frozenset[Acl]
    removed: frozenset[Acl]
    before: frozenset[Acl]
    after: frozenset[Acl]


def split(batch: LogBatch) -> Iterator[LogBatch]:
    """Yield a batch for each change, and one for the offsets that are left."""
    offset = batch.first_offset
    for change in batch.changes:
        yield replace(batch, first_offset=offset, last_offset=offset, changes=(change,))
        offset += 1
    if offset <= batch.last_offset:
        yield replace(batch, first_offset=offset, changes=())


class LogState:
    """The states of a log, batch by batch.

    ``added`` and ``removed`` have the offsets at which each ACL came and went.
    """

    def __init__(self) -> None:
        self._timelines: dict[Question, Timeline] = {}
        self._changes: list[tuple[int, str, Acl]] = []
        self.steps: list[Step] = []
        self.ends: set[int] = set()
        self.added: dict[Acl, list[int]] = {}
        self.removed: dict[Acl, list[int]] = {}
        self._acls: dict[str, Acl] = {}

    @property
    def last_offset(self) -> int:
        return self.steps[-1].last_offset if self.steps else -1

    @property
    def last_change(self) -> int:
        """The offset of the last batch that has changed ACLs."""
        changes = (step.last_offset for step in reversed(self.steps) if step.added or step.removed)
        return next(changes, -1)

    @property
    def acls(self) -> frozenset[Acl]:
        return frozenset(self._acls.values())

    def apply(self, batch: LogBatch) -> Iterator[str]:
        """Apply a batch; yield what is wrong with it by itself."""
        offset = batch.last_offset
        added: set[Acl] = set()
        removed: set[Acl] = set()
        before = self.acls
        for change in batch.changes:
            acl = self._acls.get(change.acl_id) if change.acl is None else change.acl
            if acl is None:
                yield f"offset {offset} removes an ACL that is not there"
            elif change.acl is None:
                del self._acls[change.acl_id]
                removed.add(acl)
                self.removed.setdefault(acl, []).append(offset)
            elif acl in self._acls.values():
                yield f"offset {offset} adds an ACL that is there: {acl}"
            else:
                self._acls[change.acl_id] = acl
                added.add(acl)
                self.added.setdefault(acl, []).append(offset)
            if acl is not None:
                self._changes.append((offset, change.acl_id, acl))
                for timeline in self._timelines.values():
                    timeline.apply(offset, change.acl_id, acl)
        self.ends.add(offset)
        after = self.acls
        step = Step(
            batch.first_offset, offset, frozenset(added), frozenset(removed), before - after,
            after - before,
        )  # fmt: skip
        self.steps.append(step)

    def timeline(self, question: Question) -> Timeline:
        """Return the answers to a question by offset."""
        if (found := self._timelines.get(question)) is None:
            found = self._timelines[question] = Timeline(question)
            for change in self._changes:
                found.apply(*change)
        return found

    def step_at(self, offset: int) -> Step:
        """Return what the batch that ends at ``offset`` has changed."""
        return self.steps[bisect_left(self.steps, offset, key=attrgetter("last_offset"))]

    def states_back_from_the_end(self) -> Iterator[tuple[int, frozenset[Acl]]]:
        """Yield each state with its offset, the newest first."""
        acls = self.acls
        for step in reversed(self.steps):
            yield step.last_offset, acls
            acls = acls - step.after | step.before


class Window:
    """Which states may be visible at a time, by what clients have sent and were told.

    Args:
        sent: times, and the first offsets of the batches of what was sent then.
        acknowledged: times, and the last offsets of what must be visible from then on.
        last_offset: the end of the log.
    """

    def __init__(
        self,
        sent: Sequence[tuple[float, int]],
        acknowledged: Sequence[tuple[float, int]],
        last_offset: int,
    ) -> None:
        self._sent = sorted(sent)
        self._acknowledged = sorted(acknowledged)
        self._first = [-1, *accumulate((offset for _, offset in self._acknowledged), max)]
        later = accumulate((offset for _, offset in reversed(self._sent)), min)
        self._beyond = [*reversed([*later]), last_offset + 1]

    def first(self, sent: float) -> int:
        """Return the lowest offset that the answer to a request sent at this time may show."""
        return self._first[bisect_left(self._acknowledged, (sent, -1))]

    def last(self, answered: float) -> int:
        """Return the highest offset that an answer of this time may show."""
        return self._beyond[bisect_left(self._sent, (answered, self._beyond[-1]))] - 1


class OwnOffsets:
    """The states, as offsets of the cluster's log, that each of the daemon's offsets may mean.

    A follower of brokers numbers the listings that it puts in force. The judge does not know these
    numbers. But each one means one state, and a later one no earlier state.

    **Invariant:** an offset keeps every state that explains all answers so far, so a fault is only
    reported if no choice of states explains them.
    """

    def __init__(self) -> None:
        self._possible: dict[int, list[int]] = {}

    def narrow(
        self, offset: int, states: Iterable[int], explains: Callable[[int], bool]
    ) -> list[int]:
        """Keep the states of an offset that are among ``states`` and explain one more answer.

        Return them. If there are none, the answer is a fault, and the offset keeps what it had.

        Args:
            states: in ascending order.
        """
        before = self._possible.get(offset)
        if before is not None:
            allowed = set(states)
            states = (each for each in before if each in allowed)
        possible = [each for each in states if explains(each)]
        if possible:
            self._possible[offset] = possible
        return possible

    def order(self) -> Iterator[str]:
        """Drop the states before those of lower offsets; yield a text for each offset without any.

        Such an offset is forgotten.
        """
        earliest, shown_by = -1, -1
        for offset in sorted(self._possible):
            possible = self._possible[offset]
            later = possible[bisect_left(possible, earliest) :]
            if later:
                self._possible[offset] = later
                if later[0] > earliest:
                    earliest, shown_by = later[0], offset
                continue
            del self._possible[offset]
            yield (
                f"the daemon's offset {offset} shows the state at {possible[-1]} or before, but its"
                f" offset {shown_by} shows the one at {earliest} or later"
            )

    def forget_from(self, begin: int) -> Iterator[str]:
        """Forget the states from ``begin`` on, which the log has lost; yield what they explained.

        An offset without another state is forgotten.
        """
        for offset, possible in [*self._possible.items()]:
            kept = possible[: bisect_left(possible, begin)]
            if kept:
                self._possible[offset] = kept
                continue
            del self._possible[offset]
            yield (
                f"offset {begin} is lost, but the daemon's offset {offset} shows the state at"
                f" {possible[0]} or later"
            )
