"""Who changed an ACL: join the changes in the metadata log to the requests in audit logs.

Kafka's log records no authors, and an audit line of CreateAcls or DeleteAcls has neither an ACL nor
an offset. So an author is inferred: a request fits a change if it is of the right kind, and was
allowed shortly before the change's batch. The daemon's own audit log also has a line for each
request that it has written, with the offset: from it, the author is certain.

**Invariant:** an author is named only if a single caller fits. ``Certainty`` says whether the logs
are complete for that time; only then nobody else can have made the change. Time limits and clocks
that keep ``Window`` are the condition. "Unknown" has a reason, and never means "nobody".

Brokers forward both requests to the active controller, which authorizes and logs them. It is also
the only node to which brokers send heartbeats. So a log that has an allowed heartbeat at least
every ``gap_ms`` is the active controller's, at level DEBUG, and complete. A controller must be
active for at least twice that time: a shorter reign might not be noticed in another one's log.

Source: Kafka 4.3 KafkaApis, ControllerApis and BrokerLifecycleManager.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from enum import StrEnum
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec

from authorizerd.acl.as_of import format_time
from authorizerd.acl.past import PastChange

CREATE: Final = "CreateAcls"
DELETE: Final = "DeleteAcls"
HEARTBEAT: Final = "BrokerHeartbeat"
NAMES_MAX: Final = 10
"""The maximum number of names for one change."""
QUIET_MS: Final = 60_000
"""A log with allowed lines further apart than this may have been at level INFO in between."""


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """When a request fits a change, in milliseconds.

    Attributes:
        latency_ms: the longest time from a request's audit line to the time of its batch.
        skew_ms: how far the clocks of two nodes may differ. It also covers the time for which a
            controller lets a batch wait for more records (25 ms).
        gap_ms: the longest time between two heartbeats of brokers, if no line is missing. Brokers
            send one every 2 s (``broker.heartbeat.interval.ms``).
    """

    latency_ms: int = 10_000
    skew_ms: int = 1_000
    gap_ms: int = 5_000


DEFAULT_WINDOW: Final = Window()


class AuditedRequest(msgspec.Struct, frozen=True, gc=False):
    """An allowed request to change ACLs, in an audit line.

    Attributes:
        at_ms: the line's time, in milliseconds since 1970.
        creates: True for CreateAcls, False for DeleteAcls.
        by_way_of: the broker that forwarded the request, if the line names one.
        offset: where the request was written, if the line says so.
    """

    at_ms: int
    creates: bool
    principal: str
    by_way_of: str | None = None
    offset: int | None = None


class Span(NamedTuple):
    """A span of time in milliseconds since 1970, with both ends."""

    begin_ms: int
    end_ms: int


class Evidence(msgspec.Struct, frozen=True):
    """What audit logs say about changes of ACLs. All parts are in order of time.

    Attributes:
        requests: of the readable lines, those with an ``offset`` last.
        doubts: the times of requests whose lines cannot be read, or hide the principal.
        logged: the times that the logs span.
        allowed: the times for which they have allowed requests, which need level DEBUG.
        complete: the times for which they are the active controller's, without a gap.
        left_out: what was not read, if anything.
    """

    requests: tuple[AuditedRequest, ...] = ()
    doubts: tuple[Span, ...] = ()
    logged: tuple[Span, ...] = ()
    allowed: tuple[Span, ...] = ()
    complete: tuple[Span, ...] = ()
    left_out: str | None = None


class Certainty(StrEnum):
    """How an author is known.

    ``WRITTEN``: a line has the offset. ``COMPLETE``: the only caller in a complete log. ``ONLY``:
    the only caller in the given logs, which may be incomplete. ``ONE_OF``: several callers fit.
    """

    WRITTEN = "written"
    COMPLETE = "complete"
    ONLY = "only"
    ONE_OF = "one_of"
    UNKNOWN = "unknown"


class Author(msgspec.Struct, frozen=True):
    """Who made a change.

    Attributes:
        principals: one, or for ``ONE_OF`` several, or for ``UNKNOWN`` none.
        by_way_of: the broker that forwarded the request, if it is known and only one.
        reason: why it is not certain; empty for ``WRITTEN`` and ``COMPLETE``.
    """

    certainty: Certainty
    principals: tuple[str, ...] = ()
    by_way_of: str | None = None
    reason: str = ""

    def __str__(self) -> str:
        names = ", ".join(self.principals)
        if self.by_way_of is not None:
            names = f"{names} by way of {self.by_way_of}"
        if self.certainty is Certainty.UNKNOWN:
            return f"unknown: {self.reason}"
        text = f"one of {names}" if self.certainty is Certainty.ONE_OF else names
        return f"{text} ({self.reason})" if self.reason else text


ONLY_GIVEN: Final = "the only caller in the given logs"
MAYBE_OTHERS: Final = "or a caller that the given logs do not have"
UNREADABLE: Final = "a request of that time has an unreadable line, or a hidden principal"
NO_LOG: Final = "no audit log was given"
NOBODY: Final = "no request in the audit logs fits, although they are complete"
NOT_ALLOWED_LEVEL: Final = (
    "the audit logs have no allowed requests near that time: those need level DEBUG"
)
NOT_FOUND: Final = "no request in the audit logs fits, and they may be incomplete"


class Authors:
    """Find the authors of changes by the same evidence."""

    def __init__(self, evidence: Evidence, window: Window = DEFAULT_WINDOW) -> None:
        self._evidence: Final = evidence
        self._window: Final = window
        self._written: Final[dict[tuple[int, bool], list[AuditedRequest]]] = {}
        self._requests: Final[dict[bool, list[AuditedRequest]]] = {True: [], False: []}
        for each in evidence.requests:
            if each.offset is None:
                self._requests[each.creates].append(each)
            else:
                self._written.setdefault((each.offset, each.creates), []).append(each)
        self._found: Final[dict[tuple[int, bool], Author]] = {}

    def find(self, change: PastChange) -> Author:
        """Return the author of a change. The same batch and kind have the same author."""
        key = change.offset, change.is_added
        author = self._found.get(key)
        if author is None:
            author = self._found[key] = self._find(change)
        return author

    def _find(self, change: PastChange) -> Author:
        window, evidence = self._window, self._evidence
        at_ms, reach_ms = change.time_ms, window.latency_ms + window.skew_ms
        # An equal offset alone proves nothing: the line may be another log's.
        written = [
            each
            for each in self._written.get((change.offset, change.is_added), ())
            if abs(each.at_ms - at_ms) <= reach_ms
        ]
        if written:
            return _name(written, Certainty.WRITTEN)
        fitting = Span(at_ms - reach_ms, at_ms + window.skew_ms)
        if _overlaps(evidence.doubts, fitting):
            return Author(Certainty.UNKNOWN, reason=UNREADABLE)
        # A controller that lost contact gets heartbeats until it notices, so look a bit further.
        wide = Span(fitting.begin_ms - window.gap_ms, fitting.end_ms + window.gap_ms)
        is_complete = _covers(evidence.complete, wide)
        requests = self._requests[change.is_added]
        begin = bisect_left(requests, fitting.begin_ms, key=attrgetter("at_ms"))
        end = bisect_right(requests, fitting.end_ms, key=attrgetter("at_ms"))
        if begin == end:
            return Author(Certainty.UNKNOWN, reason=self._explain(fitting, is_complete))
        certainty = Certainty.COMPLETE if is_complete else Certainty.ONLY
        return _name(requests[begin:end], certainty)

    def _explain(self, fitting: Span, is_complete: bool) -> str:
        """Return why no request fits."""
        evidence, logged = self._evidence, self._evidence.logged
        if is_complete:
            return NOBODY
        if _covers(logged, fitting):
            return NOT_FOUND if _overlaps(evidence.allowed, fitting) else NOT_ALLOWED_LEVEL
        if evidence.left_out is not None or not logged:
            return evidence.left_out or NO_LOG
        if fitting.begin_ms < logged[0].begin_ms:
            return f"the audit logs begin at {format_time(logged[0].begin_ms)}"
        if fitting.end_ms > logged[-1].end_ms:
            return f"the audit logs end at {format_time(logged[-1].end_ms)}"
        return "the audit logs have a gap at that time"


def _name(requests: Sequence[AuditedRequest], certainty: Certainty) -> Author:
    principals = tuple(sorted({each.principal for each in requests}))
    if len(principals) > 1:
        more = len(principals) - NAMES_MAX
        reasons = [f"and {more} others"] if more > 0 else []
        reasons += [MAYBE_OTHERS] if certainty is Certainty.ONLY else []
        return Author(Certainty.ONE_OF, principals[:NAMES_MAX], reason=", ".join(reasons))
    # A broker's log and a controller's may have the same request; only one may name the forwarder.
    ways = {each.by_way_of for each in requests} - {None}
    way = ways.pop() if len(ways) == 1 else None
    return Author(certainty, principals, way, ONLY_GIVEN if certainty is Certainty.ONLY else "")


class EvidenceBuilder:
    """Collect evidence, line by line, file by file.

    Args:
        window: its ``gap_ms`` says which heartbeats are without a gap.
    """

    def __init__(self, window: Window = DEFAULT_WINDOW) -> None:
        self._window: Final = window
        self._requests: Final[list[AuditedRequest]] = []
        self._doubts: Final[list[Span]] = []
        self._logged: Final[list[Span]] = []
        self._allowed: list[Span] = []
        self._heartbeats: list[Span] = []
        self._beats: Final[dict[str, list[Span]]] = {}
        self._first_ms: int | None = None
        self._last_ms = 0
        self._is_doubtful = False

    def add_time(self, at_ms: int, *, is_allowed: bool, is_heartbeat: bool = False) -> None:
        """Note that a readable line has this time."""
        if self._first_ms is None:
            self._first_ms, self._last_ms = at_ms, at_ms - QUIET_MS * self._is_doubtful
        if self._is_doubtful:
            # The doubtful line was written between the readable ones around it.
            self._doubts.append(Span(min(self._last_ms, at_ms), max(self._last_ms, at_ms)))
            self._is_doubtful = False
        self._last_ms = at_ms
        if is_allowed:
            self._allowed.append(Span(at_ms, at_ms))
            self._heartbeats += self._allowed[-1:] * is_heartbeat

    def add_request(self, request: AuditedRequest) -> None:
        """Add a request; also call ``add_time`` for its line."""
        self._requests.append(request)

    def add_doubt(self) -> None:
        """Note a line that may be a request, and cannot be read."""
        self._is_doubtful = True

    def end_file(self, log: str) -> None:
        """Note that the next line begins another file.

        Args:
            log: the log to which the file belongs. Heartbeats of two logs do not fill each other's
                gaps: two controllers may get some at the same time.
        """
        self._beats.setdefault(log, []).extend(self._heartbeats)
        self._heartbeats = []
        if self._first_ms is not None:
            last_ms = self._last_ms
            if self._is_doubtful:
                # The next line's time is unknown, so it may have been any time later.
                self._doubts.append(Span(last_ms, last_ms + QUIET_MS))
            self._logged.append(Span(min(self._first_ms, last_ms), max(self._first_ms, last_ms)))
        self._first_ms, self._is_doubtful = None, False

    def finish(self, left_out: str | None = None) -> Evidence:
        """Return the evidence. The last file must have ended."""
        gap_ms = self._window.gap_ms
        return Evidence(
            tuple(sorted(self._requests, key=attrgetter("at_ms"))),
            _merge(self._doubts, 0),
            _merge(self._logged, gap_ms),
            _merge(self._allowed, QUIET_MS),
            tuple(span for beats in self._beats.values() for span in _merge(beats, gap_ms)),
            left_out,
        )


def _merge(spans: Iterable[Span], gap_ms: int) -> tuple[Span, ...]:
    """Return the spans in order, and join those at most ``gap_ms`` apart."""
    merged: list[Span] = []
    for span in sorted(spans):
        if merged and span.begin_ms - merged[-1].end_ms <= gap_ms:
            merged[-1] = Span(merged[-1].begin_ms, max(merged[-1].end_ms, span.end_ms))
        else:
            merged.append(span)
    return tuple(merged)


def _overlaps(spans: Sequence[Span], span: Span) -> bool:
    index = bisect_left(spans, span.begin_ms, key=attrgetter("end_ms"))
    return index < len(spans) and spans[index].begin_ms <= span.end_ms


def _covers(spans: Iterable[Span], span: Span) -> bool:
    """Return True if one of the spans contains ``span``."""
    return any(each.begin_ms <= span.begin_ms and span.end_ms <= each.end_ms for each in spans)
