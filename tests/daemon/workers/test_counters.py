"""The counters of many processes, summed."""

from __future__ import annotations

from dataclasses import dataclass, field

from authorizerd.actors.audit_log import AuditStatistics
from authorizerd.actors.decider import DecisionCounts
from authorizerd.daemon.logging.queue import LogStatistics
from authorizerd.daemon.net.connection_server import ConnectionStatistics
from authorizerd.daemon.workers.counters import Totals, collect_counters


@dataclass
class Server:
    statistics: ConnectionStatistics = field(default_factory=ConnectionStatistics)


def test_what_is_handed_up_is_what_is_read_again() -> None:
    """Each number keeps its place, and two workers are summed."""
    decisions = {"OPA": DecisionCounts(1, 2, 3, 4), "Stream": DecisionCounts(allowed=5)}
    servers = {"decision_stream": Server(ConnectionStatistics(6, 7, 8, 9))}
    counters = collect_counters(
        decisions, servers, AuditStatistics(10, 11, 12, 13, 14, 1), LogStatistics(7)
    )
    once, twice = Totals().sum([counters]), Totals().sum([counters, counters])
    assert once.decisions == decisions
    assert once.server(ConnectionStatistics, "decision_stream").statistics == (
        ConnectionStatistics(6, 7, 8, 9)
    )
    assert (once.log, twice.log) == (LogStatistics(7), LogStatistics(14))
    assert once.audit == AuditStatistics(10, 11, 12, 13, 14, 1)
    assert twice.decisions["OPA"] == DecisionCounts(2, 4, 6, 8)


def test_the_dead_are_counted_and_their_connections_are_not() -> None:
    """A dead worker has no open connections."""
    totals = Totals()
    totals.retire(
        collect_counters({}, {"s": Server(ConnectionStatistics(6, 7, 8, 9))}, None, LogStatistics())
    )
    totals.retire(
        collect_counters({}, {"s": Server(ConnectionStatistics(1, 1, 1, 1))}, None, LogStatistics())
    )
    living = collect_counters(
        {}, {"s": Server(ConnectionStatistics(2, 0, 0, 0))}, None, LogStatistics()
    )
    seen = totals.sum([living]).server(ConnectionStatistics, "s").statistics
    assert seen == ConnectionStatistics(2, 8, 9, 10)


def test_a_worker_that_is_gone_fails_no_more() -> None:
    """Its lost lines stay counted."""
    totals = Totals()
    totals.retire(
        collect_counters(
            {}, {}, AuditStatistics(written=5, dropped_output=2, failing=1), LogStatistics()
        )
    )
    assert totals.sum([]).audit == AuditStatistics(written=5, dropped_output=2, failing=0)


def test_before_the_first_report_all_is_nothing() -> None:
    """The metrics exist from the start."""
    sums = Totals().sum([])
    assert (sums.decisions, sums.audit) == ({}, AuditStatistics())
    assert sums.server(ConnectionStatistics, "s").statistics == ConnectionStatistics()
