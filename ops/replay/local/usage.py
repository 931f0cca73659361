"""Run ``replay usage`` on audit logs in this process.

**Invariant:** ``usage.json``, ``commands.sh`` and the exit code are those of the Spark job.
"""

from __future__ import annotations

import stat
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from authorizerd.acl.decision import is_allowed
from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.judging.asking import unasked_reason
from authorizerd.replay.judging.report import Count
from authorizerd.replay.local.errors import TrafficError
from authorizerd.replay.local.running import (
    print_lines,
    read_accepted,
    read_logs,
    remove_earlier,
    write_result,
)
from authorizerd.replay.local.traffic import Figures, Traffic, TrafficTuple
from authorizerd.replay.messages import EXIT_DONE
from authorizerd.replay.plans import IngestPlan, UsagePlan
from authorizerd.replay.text import encode_json, parse_time
from authorizerd.replay.usage.errors import UsageError
from authorizerd.replay.usage.evaluation import WindowSums, describe_window, evaluate
from authorizerd.replay.usage.matching import UseIndex
from authorizerd.replay.usage.proving import Changed, Comparison
from authorizerd.replay.usage.recorded import (
    BY_SUPER_USERS,
    DISAGREEING,
    NOT_EVALUATED,
    WHOLE_TUPLE,
    ChangeRow,
    RecordedTuple,
    Summed,
    UseRow,
    change_rows,
    unasked_row,
    use_rows,
)
from authorizerd.replay.usage.report import UsageReport
from authorizerd.replay.usage.suggestions import AclUsage
from authorizerd.replay.usage.summary import summary
from authorizerd.replay.usage.window import Window, check_ages, window_of


def run_usage(logs: IngestPlan, plan: UsagePlan) -> int:
    """Write ``commands.sh`` and ``usage.json``, and return the exit code. Blocks.

    Raises:
        NeedsSparkError: the logs are too much for one process.
        TrafficError: they cannot be read, are not accepted or support no claim, or a result cannot
            be written.
    """
    out = Path(plan.out)
    remove_earlier(out / "usage.json", out / "commands.sh")
    traffic = read_accepted(logs)
    try:
        report, commands = _evaluate(logs, plan, traffic)
    except UsageError as error:
        raise TrafficError(str(error)) from error
    write_result(out / "commands.sh", commands)
    write_result(out / "usage.json", encode_json(report))
    print_lines(summary(report))
    return EXIT_DONE


def _evaluate(logs: IngestPlan, plan: UsagePlan, traffic: Traffic) -> tuple[UsageReport, str]:
    window = window_of(traffic.ingested, plan.lookback_days)
    check_ages(plan.acls, assume_in_force=plan.assume_in_force)
    tuples = _read_window(logs, traffic, window).tuples
    allowed = [each.allowed for each in tuples if each.allowed is not None]
    sums = WindowSums(
        tuples=len(tuples),
        allowed_events=sum(each.events for each in allowed),
        denied_events=sum(each.denied.events for each in tuples if each.denied is not None),
        first_ms=min((each.first_ms for each in allowed), default=None),
        last_ms=max((each.last_ms for each in allowed), default=None),
    )
    seen = describe_window(window, sums, plan.lookback_days)
    return evaluate(plan, window, seen, LocalJudge(map(recorded_tuple, tuples), plan.acls))


def _read_window(logs: IngestPlan, traffic: Traffic, window: Window) -> Traffic:
    """Return the traffic of the window.

    Read a second time what a window does not contain all of: only the first time shows where the
    window begins. Keeping the time of each event would take far more memory.
    """
    first_at = traffic.ingested.first_at
    assert first_at is not None, "a window has events"
    if window.begins_ms <= parse_time(first_at):
        return traffic
    for file in traffic.files:
        if not stat.S_ISREG(Path(file.path).stat().st_mode):
            raise TrafficError(
                f"{file.path}: --lookback reads the logs twice, which a pipe does not allow: write "
                "its lines to a file"
            )
    within = read_logs(logs, since_ms=window.begins_ms)
    if within.files != traffic.files:
        raise TrafficError(
            "the logs were written while they were read, and --lookback reads them twice: copy "
            "them first"
        )
    return within


class LocalJudge:
    """Evaluates sets of ACLs on tuples in this process."""

    def __init__(self, tuples: Iterable[RecordedTuple], acl_set: AclSet) -> None:
        self._index = UseIndex(acl_set)
        self._asked: list[RecordedTuple] = []
        self._unasked: list[UseRow] = []
        for recorded in tuples:
            reason = unasked_reason(recorded)
            if reason is None:
                self._asked.append(recorded)
            else:
                self._unasked.append(unasked_row(recorded, reason.value))

    def sum_uses(self, names_max: int, /) -> Summed:
        """Return the use by all tuples, with at most ``names_max`` names for each wide ACL."""
        uses: defaultdict[tuple[int, str | None], _Use] = defaultdict(_Use)
        for row in self._use_rows():
            reason = row.label if row.number == NOT_EVALUATED else None
            uses[row.number, reason].add(row)
        summed = Summed({}, {}, Count(), Count())
        for (number, reason), use in uses.items():
            if reason is not None:
                summed.not_evaluated[reason] = use.count
            elif number == BY_SUPER_USERS:
                summed = summed._replace(by_super_users=use.count)
            elif number == DISAGREEING:
                summed = summed._replace(disagreeing=use.count)
            else:
                summed.usage[self._index.acls[number]] = use.total(names_max)
        return summed

    def compare(self, other: AclSet, /) -> Comparison:
        """Return the tuples that ``other`` answers differently, in total and by removed ACL."""
        after = UseIndex(other)
        rows: defaultdict[int, list[ChangeRow]] = defaultdict(list)
        for recorded in self._asked:
            allowed = is_allowed(*after.index, recorded.question)
            if allowed is not is_allowed(*self._index.index, recorded.question):
                for row in change_rows(self._index, after, recorded, is_allowed=allowed):
                    rows[row.number].append(row)
        changed = {number: _changed(of_one) for number, of_one in rows.items()}
        whole = changed.pop(WHOLE_TUPLE, None)
        return Comparison(whole, {self._index.acls[number]: one for number, one in changed.items()})

    def _use_rows(self) -> Iterator[UseRow]:
        yield from self._unasked
        for recorded in self._asked:
            allowed = is_allowed(*self._index.index, recorded.question)
            yield from use_rows(self._index, recorded, is_allowed=allowed)


class _Use(msgspec.Struct):
    """The sums of rows."""

    events_alone: int = 0
    tuples_alone: int = 0
    events_with_others: int = 0
    tuples_with_others: int = 0
    last_ms: int = -sys.maxsize
    names: set[str] = msgspec.field(default_factory=set)

    def add(self, row: UseRow) -> None:
        """Add a row."""
        if row.is_alone:
            self.events_alone += row.events
            self.tuples_alone += 1
        else:
            self.events_with_others += row.events
            self.tuples_with_others += 1
        if row.last_ms is not None:
            self.last_ms = max(self.last_ms, row.last_ms)
        if row.label is not None:
            self.names.add(row.label)

    @property
    def count(self) -> Count:
        return Count(
            events=self.events_alone + self.events_with_others,
            tuples=self.tuples_alone + self.tuples_with_others,
        )

    def total(self, names_max: int) -> AclUsage:
        """Return the use of an ACL."""
        names = sorted(self.names)
        return AclUsage(
            events_alone=self.events_alone,
            tuples_alone=self.tuples_alone,
            events_with_others=self.events_with_others,
            tuples_with_others=self.tuples_with_others,
            last_ms=self.last_ms,
            names_count=len(names),
            name_min=names[0] if names else None,
            name_max=names[-1] if names else None,
            names=tuple(names[:names_max]),
        )


def _changed(rows: list[ChangeRow]) -> Changed:
    denied, allowed = (
        [row.events for row in rows if row.is_allowed is answer] for answer in (False, True)
    )
    # The least, as in Spark: the report must not depend on the order of rows.
    principal, resource_name = min((row.principal, row.resource_name) for row in rows)
    return Changed(
        newly_denied=Count(events=sum(denied), tuples=len(denied)),
        newly_allowed=Count(events=sum(allowed), tuples=len(allowed)),
        resource_name=resource_name,
        principal=principal,
    )


def recorded_tuple(one: TrafficTuple) -> RecordedTuple:
    """Return a tuple of the local engine in the form that ``usage`` counts."""

    def of(some: Figures | None) -> tuple[int, int | None]:
        return (0, None) if some is None else (some.events, some.last_ms)

    (allowed, allowed_last_ms), (denied, denied_last_ms) = of(one.allowed), of(one.denied)
    return RecordedTuple(*one[:6], allowed, denied, allowed_last_ms, denied_last_ms)
