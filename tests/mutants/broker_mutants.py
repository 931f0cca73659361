"""Mutants of following a cluster through its brokers: listings that are older, or another's."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_MACHINE = "daemon/sources/brokers/machine.py"
_TESTS = "tests/daemon/sources/brokers/test_machine.py"
_SOURCE_TESTS = "tests/daemon/sources/brokers/test_source.py"

BROKER_MUTANTS: Final = (
    Mutant(
        name="a broker that lags is listed after a failover",
        file=_MACHINE,
        text="        if log_end >= demanded:\n",
        becomes="        if log_end >= demanded - 1:\n",
        found_by=f"{_TESTS}::test_failover_waits_for_what_was_committed_at_the_connection",
    ),
    Mutant(
        name="a broker that lags is listed if it has what was published",
        file=_MACHINE,
        text="committed = quorum.high_watermark if committed < 0 else committed",
        becomes="committed = self._high_watermark",
        found_by=f"{_TESTS}::test_start_waits_for_what_is_committed_then",
    ),
    Mutant(
        name="a quorum without a leader counts as one that hides its brokers",
        file=_MACHINE,
        text="return quorum.high_watermark >= 0 and not is_named",
        becomes="return not is_named",
        found_by="tests/daemon/sources/brokers/test_schedules.py::test_listings_never_go_back",
    ),
    Mutant(
        name="a first difference is accepted though the quorum is unknown",
        file=_MACHINE,
        text="return pin.has_quorum or has_waited or not self._has_state",
        becomes="return True",
        found_by=f"{_TESTS}::test_without_the_quorum_a_first_difference_is_listed_twice",
    ),
    Mutant(
        name="a listing without acknowledged changes is accepted after a failover",
        file=_MACHINE,
        text="        if lacking:\n",
        becomes="        if lacking > 1:\n",
        found_by=f"{_TESTS}::test_failover_waits_for_acknowledged_changes",
    ),
    Mutant(
        name="the brokers of another cluster are followed",
        file=_MACHINE,
        text="while opened.cluster_id != self._cluster_id:",
        becomes="while not opened.cluster_id:",
        found_by=f"{_TESTS}::test_another_cluster_stops_decisions",
    ),
    Mutant(
        name="acknowledged changes pile up while every listing fails",
        file="daemon/sources/brokers/source.py",
        text="            self._machine.forget_old_changes(now)\n",
        becomes="            pass\n",
        found_by=(f"{_SOURCE_TESTS}::test_old_changes_are_forgotten_while_every_listing_fails"),
    ),
    Mutant(
        name="a new broker may lack changes that were acknowledged a minute ago",
        file="daemon/sources/brokers/acknowledged.py",
        text="max(self._forgotten_high_watermark, forgotten)",
        becomes="-1",
        found_by=(f"{_SOURCE_TESTS}::test_old_changes_are_forgotten_while_every_listing_fails"),
    ),
    Mutant(
        name="a copy of listings is always served",
        file="daemon/sources/brokers/source.py",
        text="decides = copy.high_watermark is None or self._settings.serve_copy",
        becomes="decides = True",
        found_by=f"{_SOURCE_TESTS}::test_restart_continues_from_the_copy",
    ),
    Mutant(
        name="a follower's limit is not exported, so no alert says that contact is lost",
        file="daemon/sources/freshness.py",
        text="status.stale_max_s = stale_max_ms / 1000",
        becomes="status.stale_max_s = stale_max_ms * 1000",
        found_by="tests/daemon/sources/test_freshness.py::"
        "test_metrics_tell_the_limit_and_the_age_that_an_alert_compares",
    ),
    Mutant(
        name="decisions by the copy begin although the listing is too old",
        file="daemon/sources/freshness.py",
        text="deadline = self._status, as_of + self._status.stale_max_s",
        becomes="deadline = self._status, self._status.clock() + self._status.stale_max_s",
        found_by=(
            f"{_SOURCE_TESTS}::test_decisions_do_not_resume_by_a_listing_from_before_the_disk_hung"
        ),
    ),
    Mutant(
        name="a barrier passes by a listing that was asked for before it",
        file="daemon/sources/brokers/source.py",
        text="        answer = await self._exchange.ask_listing()\n",
        becomes=(
            "        answer = await self._exchange.ask_listing()\n"
            "        expectations = {\n"
            "            key: each.expectation for key, each in self._barriers.items()\n"
            "        }\n"
        ),
        found_by=(
            f"{_SOURCE_TESTS}"
            "::test_barrier_without_changes_waits_for_a_listing_that_is_asked_for_later"
        ),
    ),
    Mutant(
        name="a broker's lag is logged again for each offset",
        file="daemon/sources/brokers/source.py",
        text='_NUMBER.sub("", action.problem)',
        becomes="action.problem",
        found_by=f"{_SOURCE_TESTS}::test_lag_is_logged_once_though_offsets_grow",
    ),
    Mutant(
        name="the differences of a large listing are saved without a transaction",
        file="daemon/sources/brokers/listing_copy.py",
        text="        if len(groups) > 1:\n",
        becomes="        if not groups:\n",
        found_by=f"{_SOURCE_TESTS}::test_large_difference_becomes_visible_at_once",
    ),
)
