"""Judge what was read, once the history is known long enough, and count it in the state file.

**Invariant:** a decision is judged once the history reaches past its time and the window. Until
then, its line waits in memory or in its log.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import asdict, replace

from authorizerd.acl.known_settings import KnownSettings
from authorizerd.acl.releases import Release
from authorizerd.acl.text.printable import escape_json
from authorizerd.metadata.storage import DISK, Storage
from authorizerd.protocol.verification import LATEST_MAX, Counts, Disagreement, Lag
from authorizerd.replay.errors import AclSourceError
from authorizerd.replay.judging.index import collector_off
from authorizerd.replay.local.tallies import Summand, Tallies
from authorizerd.replay.plans import LineLayout
from authorizerd.replay.verify.follow.files import FollowedFiles
from authorizerd.replay.verify.follow.history import Contact, HistoryFollower
from authorizerd.replay.verify.follow.state import State, write_state
from authorizerd.replay.verify.follow.topics import FollowedTopic
from authorizerd.replay.verify.follow.waiting import FollowedLog, Line
from authorizerd.replay.verify.judging import Judge
from authorizerd.replay.verify.sums import Sums, judge_counted

LINES_MAX: Final = 100_000
"""The most lines of one step. A crash repeats at most one step."""
AHEAD_MS: Final = 600_000
"""A line whose time is further ahead of the clock does not wait; it is not judged."""
REWRITE_MS: Final = 10_000
"""The state is written so often at least, so that the file shows that this process works."""
MESSAGES_PER_MINUTE: Final = 60

_MINUTE_S: Final = 60
_Batch: TypeAlias = Sequence[tuple[FollowedLog, Sequence[Line]]]


class Shadow:
    """Compares decisions with the history, step by step. ``state`` is durable; ``lag`` is newer.

    Args:
        ask: returns until when a daemon knows the history; None if the log itself shows it.
        now_ms: the clock, in milliseconds since 1970.
    """

    def __init__(
        self,
        path: Path,
        state: State,
        history: HistoryFollower,
        known: KnownSettings,
        releases: Sequence[Release],
        sources: Sequence[FollowedFiles | FollowedTopic],
        layout: LineLayout,
        *,
        ask: Callable[[], Contact | None] | None = None,
        storage: Storage = DISK,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.state = state
        self.lag = state.lag
        self._path: Final = path
        self._history: Final = history
        self._known: Final = known
        self._releases: Final = releases
        self._layout: Final = layout
        self._ask: Final = ask
        self._storage: Final = storage
        self._now_ms: Final = now_ms
        self._sources: Final = sources
        self._read_ms = state.read_ms
        self._known_ms: int | None = None
        self._problem = ""
        self._messages: Final = _Messages()

    @property
    def _logs(self) -> Iterator[FollowedLog]:
        return chain.from_iterable(self._sources)

    def describe(self) -> State:
        """Return the durable state, with the newest lag."""
        return replace(self.state, lag=self.lag)

    def close(self) -> None:
        """Write the state, and close the logs.

        Raises:
            TrafficError: the state cannot be written.
        """
        self._write(self.state)
        for source in self._sources:
            source.close()

    def step(self) -> bool:
        """Read, judge and count once; return True if more can be judged at once. Blocks.

        Raises:
            TrafficError: a log cannot be read, or the state cannot be written.
            AclSourceError: there is no history yet, and it cannot be read.
        """
        now_ms = self._now_ms()
        for source in self._sources:
            source.read(self._read_ms)
        self._read_ms = now_ms
        self._read_history()
        until_ms = 0 if self._known_ms is None else self._known_ms - self.state.window_ms
        batch = self._choose(until_ms, now_ms + AHEAD_MS) if self._known_ms is not None else []
        lines = sum(len(some) for _, some in batch)
        if lines:
            with collector_off():
                state, found = self._judge(batch, until_ms)
            for log, some in batch:
                log.advance(some)
            self._write(state)
            for each in found:
                self._messages.report(each)
        elif now_ms - self.state.read_ms >= REWRITE_MS:
            self._write(self.state)
        else:
            self.lag = self._measure_lag()
        return lines >= LINES_MAX

    def _read_history(self) -> None:
        """Read the history, and note until when it is known. A problem is reported once."""
        times = [log.oldest_ms for log in self._logs]
        oldest_ms = min((each for each in times if each is not None), default=self._now_ms())
        try:
            contact = None if self._ask is None else self._ask()
            self._history.read(oldest_ms - self.state.window_ms)
        except (AclSourceError, OSError) as error:
            if isinstance(error, AclSourceError) and not self._history.history.states:
                raise
            if str(error) != self._problem:
                print(f"authorizerd verify: {error}; trying again", file=sys.stderr, flush=True)
            self._problem = str(error)
            return
        self._problem = ""
        if self._ask is None:
            self._known_ms = self._history.time_ms
        # The files may not have yet what the daemon has applied.
        elif contact is not None and contact.offset <= self._history.offset:
            self._known_ms = contact.at_ms

    def _choose(self, until_ms: int, ahead_ms: int) -> _Batch:
        """Return the lines that can be counted now, of each log the next ones."""
        room, batch = LINES_MAX, []
        for log in self._logs:
            lines = log.peek(room, lambda at_ms: until_ms < at_ms <= ahead_ms)
            room -= len(lines)
            batch.append((log, lines))
        return batch

    def _judge(self, batch: _Batch, until_ms: int) -> tuple[State, list[Disagreement]]:
        """Return the state after a batch of lines, and the new differences."""
        judge = Judge(
            self._history.history, self._known, self._releases, self.state.window_ms, until_ms
        )
        tallies = Tallies.of(self._layout, judge.find_breaks)
        for log, lines in batch:
            tallies.begin_file(log.name)
            tallies.add_numbered((line.number, line.text) for line in lines)
        sums = judge_counted(judge, tallies)
        found = [
            Disagreement(**asdict(each), cause=group.cause)
            for group in sums.differences
            for each in group.listed
        ]
        latest = (*reversed(found), *self.state.latest)[:LATEST_MAX]
        counts = _add_counts(self.state.counts, tallies, sums)
        return replace(self.state, counts=counts, latest=latest), found

    def _write(self, state: State) -> None:
        """Write the state with the positions in the logs, and then publish it."""
        for source in self._sources:
            state = source.save(state)
        self.lag = self._measure_lag()
        state = replace(state, read_ms=self._read_ms, lag=self.lag)
        write_state(self._path, state, self._storage)
        self.state = state

    def _measure_lag(self) -> Lag:
        times = [log.oldest_ms for log in self._logs]
        times += [source.silent_ms for source in self._sources]
        return Lag(
            bytes=sum(log.bytes_behind for log in self._logs),
            records=sum(log.records_behind for log in self._logs),
            lines=sum(log.waiting for log in self._logs),
            oldest_ms=min((each for each in times if each is not None), default=None),
            history_ms=self._known_ms,
        )


def _add_counts(before: Counts, tallies: Tallies, sums: Sums) -> Counts:
    """Add all lines of a batch to the counts."""
    set_aside, blank = Counter(before.set_aside), before.blank
    for counted, tally in tallies:
        if counted is None:
            blank += tally.lines
        elif not isinstance(counted, Summand):
            set_aside[counted.value] += tally.lines
    times = (before.judged_since_ms, before.judged_ms, sums.first_ms, sums.last_ms)
    judged_ms = [each for each in times if each is not None]
    disagreements = {group.cause.value: group.events for group in sums.differences}
    return replace(
        before,
        agreed=before.agreed + sums.agreed,
        other_rule=before.other_rule + sums.other_rule,
        not_judged=dict(Counter(before.not_judged) + Counter(sums.not_judged)),
        disagreements=dict(Counter(before.disagreements) + Counter(disagreements)),
        set_aside=dict(set_aside),
        blank=blank,
        judged_since_ms=min(judged_ms, default=None),
        judged_ms=max(judged_ms, default=None),
    )


def _read_minute() -> float:
    return time.monotonic() // _MINUTE_S


class _Messages:
    """Prints a line of JSON for each difference, up to a number a minute."""

    def __init__(self) -> None:
        self._minute, self._printed, self._omitted = 0.0, 0, 0

    def report(self, difference: Disagreement) -> None:
        minute = _read_minute()
        if minute != self._minute:
            if self._omitted:
                print(f"authorizerd verify: {self._omitted:,} more differences", flush=True)
            self._minute, self._printed, self._omitted = minute, 0, 0
        if self._printed < MESSAGES_PER_MINUTE:
            self._printed += 1
            text = msgspec.json.encode(difference).decode()
            print(escape_json(text), flush=True)
        else:
            self._omitted += 1
