"""Mutants of the follower of a quorum: what it passes on, and whom it believes."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_TESTS: Final = "tests/daemon/sources/quorum"

QUORUM_MUTANTS: Final = (
    Mutant(
        name="a follower passes on records that are not committed",
        file="daemon/sources/quorum/fetched_log.py",
        text="self._pending[0].last_offset < high_watermark:",
        becomes="self._pending[0].last_offset <= high_watermark:",
        found_by=f"{_TESTS}/test_machine.py::test_only_records_below_the_high_watermark_are_passed_on",
    ),
    Mutant(
        name="a follower accepts a batch that does not continue the log",
        file="daemon/sources/quorum/fetched_log.py",
        text="        if batch.base_offset != expected:\n",
        becomes="        if batch.base_offset > expected:\n",
        found_by=(
            f"{_TESTS}/test_machine.py::test_a_useless_answer_drops_the_connection_and_changes_nothing"
        ),
    ),
    Mutant(
        name="a follower returns to a leader whose epoch is older than committed records",
        file="daemon/sources/quorum/contact.py",
        text="            if answer.leader_epoch < self.proven_epoch:\n",
        becomes="            if answer.leader_epoch < 0:\n",
        found_by=f"{_TESTS}/test_machine.py::test_false_later_epoch_does_not_hide_a_restored_cluster",
    ),
    Mutant(
        name="a follower goes on with the longer log of another cluster",
        file="daemon/sources/quorum/fetched_log.py",
        text="        if first.mark != self.last:\n",
        becomes="        if first.base_offset != self.last.base_offset:\n",
        found_by=(
            f"{_TESTS}/test_source.py::test_longer_log_of_a_restored_cluster_stops_decisions"
        ),
    ),
    Mutant(
        name="a follower does not compare the logs again on a new connection",
        file="daemon/sources/quorum/machine.py",
        text="                self._is_checked = False\n",
        becomes="                pass\n",
        found_by=(
            f"{_TESTS}/test_machine.py::test_last_batch_is_asked_for_again_once_on_each_connection"
        ),
    ),
    Mutant(
        name="a follower forgets the last batch of its copy at a restart",
        file="metadata/log_end.py",
        text="        self.last_batch = batch.mark\n",
        becomes="        self.last_batch = None\n",
        found_by=(f"{_TESTS}/test_source.py::test_second_cluster_of_the_same_id_stops_decisions"),
    ),
    Mutant(
        name="the epoch of a leader with a high watermark is not proven",
        file="daemon/sources/quorum/machine.py",
        text="        self.contact.proven_epoch = answer.leader_epoch\n",
        becomes="",
        found_by=(
            f"{_TESTS}/test_machine.py::test_epoch_of_a_leader_with_a_high_watermark_is_never_forgotten"
        ),
    ),
    Mutant(
        name="a follower believes a leader of an older epoch",
        file="daemon/sources/quorum/route.py",
        text="        if epoch < self.epoch:\n",
        becomes="        if epoch < 0:\n",
        found_by=(
            f"{_TESTS}/test_machine.py::test_a_useless_answer_drops_the_connection_and_changes_nothing"
        ),
    ),
    Mutant(
        name="a follower trusts a new leader's old high watermark",
        file="daemon/sources/quorum/barriers.py",
        text="        return not is_below and log.committed_epoch >= self.leader_epoch\n",
        becomes="        return not is_below\n",
        found_by=(
            f"{_TESTS}/test_machine.py::test_an_old_high_watermark_of_a_new_leader_confirms_nothing"
        ),
    ),
    Mutant(
        name="a barrier passes by a Fetch that was sent before it",
        file="daemon/sources/quorum/barriers.py",
        text="            self._goals.append((ticket, goal))\n",
        becomes="            self._goals.append((self._added, goal))\n",
        found_by=f"{_TESTS}/test_machine.py::test_a_barrier_needs_a_fetch_that_is_sent_later",
    ),
    Mutant(
        name="a follower truncates what it has passed on",
        file="daemon/sources/quorum/fetched_log.py",
        text="        if end < self.committed_end:\n",
        becomes="        if end < 0:\n",
        found_by=(
            f"{_TESTS}/test_machine.py::test_a_log_without_what_was_passed_on_is_a_permanent_fault"
        ),
    ),
    Mutant(
        name="a snapshot is put together from two leaders",
        file="daemon/sources/quorum/machine.py",
        text="            if self._snapshot.leader_epoch == self.contact.route.epoch:\n",
        becomes="            if self._snapshot.leader_epoch <= self.contact.route.epoch:\n",
        found_by=f"{_TESTS}/test_machine.py::test_a_snapshot_begins_anew_if_a_piece_does_not_fit",
    ),
    Mutant(
        name="a snapshot that cannot be read back ends a daemon that decides",
        file="daemon/sources/quorum/source.py",
        text="            if is_verified and not feed.is_caught_up:\n",
        becomes="            if is_verified:\n",
        found_by=f"{_TESTS}/test_source.py::test_a_snapshot_becomes_visible_as_one_change",
    ),
    Mutant(
        name="a snapshot that was not read back replaces the copy",
        file="daemon/sources/quorum/source.py",
        text="            await run_in_thread(self._copy.abandon_snapshot, error)\n"
        "            return SnapshotDamaged(str(error))\n"
        "        _logger",
        becomes="            pass\n        _logger",
        found_by=f"{_TESTS}/test_source.py::test_a_snapshot_becomes_visible_as_one_change",
    ),
    Mutant(
        name="the copy is served before the first contact without permission",
        file="daemon/sources/quorum/source.py",
        text="            if self._settings.serve_copy:\n",
        becomes="            if self._settings.servers:\n",
        found_by=(
            f"{_TESTS}/test_source.py::"
            "test_the_copy_is_served_before_the_first_contact_only_if_allowed"
        ),
    ),
    Mutant(
        name="a snapshot continues an open transaction",
        file="daemon/sources/quorum/feed.py",
        text="        self._replay = Replay()\n        if not",
        becomes="        if not",
        found_by=f"{_TESTS}/test_source.py::test_a_snapshot_voids_an_open_transaction",
    ),
    Mutant(
        name="a checkpoint of the copy is taken within a transaction",
        file="daemon/sources/quorum/feed.py",
        text="        return offset > self._open_offset\n",
        becomes="        return offset >= self._open_offset\n",
        found_by=f"{_TESTS}/test_source.py::test_a_transaction_may_span_a_restart",
    ),
    Mutant(
        name="a barrier passes by the answer of a deposed leader to a probe",
        file="daemon/sources/quorum/machine.py",
        text="answer.leader_epoch == epoch == self.contact.route.epoch\n",
        becomes="answer.leader_epoch == epoch\n",
        found_by=f"{_TESTS}/test_machine.py::test_a_probe_of_a_deposed_leader_counts_for_nothing",
    ),
    Mutant(
        name="a barrier passes before the changes are applied",
        file="daemon/sources/quorum/source.py",
        text="        offset = self._machine.log.committed_end - 1\n",
        becomes="        offset = -1\n",
        found_by=(
            f"{_TESTS}/test_source.py::test_a_barrier_waits_for_changes_that_are_not_passed_on_yet"
        ),
    ),
    Mutant(
        name="the addresses of voters in the log are forgotten",
        file="metadata/log_end.py",
        text="        self.voters = find_voters(batch) or self.voters\n",
        becomes="        find_voters(batch)\n",
        found_by=(
            f"{_TESTS}/test_source.py::test_a_cluster_that_replaces_every_address_is_followed"
        ),
    ),
    Mutant(
        name="contact counts from when an answer was handled",
        file="daemon/sources/quorum/source.py",
        text="self._freshness.confirm(self._answered_as_of)",
        becomes="self._freshness.confirm(trio.current_time())",
        found_by=(
            f"{_TESTS}/test_source.py"
            "::test_decisions_do_not_resume_by_an_answer_from_before_the_disk_hung"
        ),
    ),
    Mutant(
        name="an answer that is read late is as new as when it is read",
        file="daemon/sources/quorum/source.py",
        text="self._answered_as_of = min(clock(), latest)",
        becomes="self._answered_as_of = max(clock(), latest)",
        found_by=(
            f"{_TESTS}/test_source.py::test_decisions_do_not_resume_by_an_answer_that_is_read_late"
        ),
    ),
    Mutant(
        name="a part of an answer counts as another answer of the leader",
        file="daemon/sources/quorum/link.py",
        text="        rest = replace(answer, high_watermark=-1, ",
        becomes="        rest = replace(answer, ",
        found_by=f"{_TESTS}/test_source.py::test_a_long_answer_is_handled_in_parts",
    ),
)
