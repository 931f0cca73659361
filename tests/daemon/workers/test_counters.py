"""The counters of many processes, summed."""

from authorizerd.actors.audit_log import AuditStatistics
from authorizerd.actors.daemon_authorizer import DecisionCounts
from authorizerd.daemon.logging.queue import LogStatistics
from authorizerd.daemon.net.connection_statistics import ConnectionStatistics
from authorizerd.daemon.workers.counters import Totals, collect_counters


def test_counters_are_read_back_and_summed() -> None:
    decisions = {"OPA": DecisionCounts(1, 2, 3, 4), "Stream": DecisionCounts(allowed=5)}
    servers = {"decision_stream": ConnectionStatistics(6, 7, 8, 9)}
    counters = collect_counters(
        decisions, servers, AuditStatistics(10, 11, 12, 13, 14, 1), LogStatistics(7)
    )
    once, twice = Totals().sum([counters]), Totals().sum([counters, counters])
    assert once.decisions == decisions
    assert once.statistics(ConnectionStatistics, "decision_stream") == (
        ConnectionStatistics(6, 7, 8, 9)
    )
    assert (once.log, twice.log) == (LogStatistics(7), LogStatistics(14))
    assert once.audit == AuditStatistics(10, 11, 12, 13, 14, 1)
    assert twice.decisions["OPA"] == DecisionCounts(2, 4, 6, 8)


def test_counts_of_an_ended_worker_stay_except_open_connections() -> None:
    totals = Totals()
    totals.retire(
        collect_counters({}, {"s": ConnectionStatistics(6, 7, 8, 9)}, None, LogStatistics())
    )
    totals.retire(
        collect_counters({}, {"s": ConnectionStatistics(1, 1, 1, 1)}, None, LogStatistics())
    )
    living = collect_counters({}, {"s": ConnectionStatistics(2, 0, 0, 0)}, None, LogStatistics())
    seen = totals.sum([living]).statistics(ConnectionStatistics, "s")
    assert seen == ConnectionStatistics(2, 8, 9, 10)


def test_ended_worker_no_longer_counts_as_failing() -> None:
    totals = Totals()
    totals.retire(
        collect_counters(
            {}, {}, AuditStatistics(written=5, dropped_output=2, failing=1), LogStatistics()
        )
    )
    assert totals.sum([]).audit == AuditStatistics(written=5, dropped_output=2, failing=0)


def test_counters_are_zero_before_the_first_report() -> None:
    sums = Totals().sum([])
    assert (sums.decisions, sums.audit) == ({}, AuditStatistics())
    assert sums.statistics(ConnectionStatistics, "s") == ConnectionStatistics()
