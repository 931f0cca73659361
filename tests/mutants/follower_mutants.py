"""Mutants of following a cluster: what is believed, passed on and forwarded."""

from typing import Final

from tests.mutants.mutant import Mutant

FOLLOWER_MUTANTS: Final = {
    "a copy that ends with a checkpoint is not compared with the cluster's log": Mutant(
        file="daemon/sources/copy_checkpointer.py",
        text="last_batch=self._copy.end.last_batch",
        becomes="last_batch=None",
        found_by="tests/daemon/sources/quorum/test_source.py::test_second_cluster_of_the_same_id_stops_decisions",
    ),
    "a copy is compared with the cluster's log by another batch than its last": Mutant(
        file="metadata/log_end.py",
        text="last_batch=last if is_last else None",
        becomes="last_batch=last",
        found_by="tests/metadata/test_log_copy.py::test_checkpoint_names_the_last_batch",
    ),
    # Nodes of a followed cluster
    "an answer about another topic is taken for the metadata log": Mutant(
        file="protocol/kafka/fetch.py",
        text='        _expect("topic_id", topic.topic_id, METADATA_TOPIC_ID)\n',
        found_by="tests/protocol/kafka/test_fetch.py::test_answer_about_something_else_is_rejected",
    ),
    "the answer to another envelope is taken for this one's": Mutant(
        file="protocol/kafka/envelope_client.py",
        text="    if correlation_id != request.correlation_id:\n",
        becomes="    if False:\n",
        found_by="tests/protocol/kafka/test_envelope_client.py::test_answer_to_something_else_is_rejected",
    ),
    "a node that requires a log-in is used without one": Mutant(
        file="daemon/sources/nodes.py",
        text="        if is_required:\n",
        becomes="        if False:\n",
        found_by="tests/daemon/sources/test_nodes.py::test_error_names_node_reason_and_remedy",
    ),
    # Following a quorum
    "a follower passes on records that are not committed": Mutant(
        file="daemon/sources/quorum/fetched_log.py",
        text="self._pending[0].last_offset < high_watermark:",
        becomes="self._pending[0].last_offset <= high_watermark:",
        found_by="tests/daemon/sources/quorum/test_machine.py::test_only_records_below_the_high_watermark_are_passed_on",
    ),
    "a follower accepts a batch that does not continue the log": Mutant(
        file="daemon/sources/quorum/fetched_log.py",
        text="        if batch.base_offset != expected:\n",
        becomes="        if batch.base_offset > expected:\n",
        found_by="tests/daemon/sources/quorum/test_machine.py::test_useless_answer_drops_the_connection_and_changes_nothing",
    ),
    "a follower goes on with the longer log of another cluster": Mutant(
        file="daemon/sources/quorum/fetched_log.py",
        text="        if first.mark != self.last:\n",
        becomes="        if first.base_offset != self.last.base_offset:\n",
        found_by="tests/daemon/sources/quorum/test_source.py::test_longer_log_of_a_restored_cluster_stops_decisions",
    ),
    "a follower does not compare the logs again on a new connection": Mutant(
        file="daemon/sources/quorum/machine.py",
        text="                self._is_checked = False\n",
        becomes="                pass\n",
        found_by="tests/daemon/sources/quorum/test_machine.py::test_last_batch_is_asked_for_again_once_on_each_connection",
    ),
    "a follower believes a leader of an older epoch": Mutant(
        file="daemon/sources/quorum/route.py",
        text="        if epoch < self.epoch:\n",
        becomes="        if epoch < 0:\n",
        found_by="tests/daemon/sources/quorum/test_machine.py::test_useless_answer_drops_the_connection_and_changes_nothing",
    ),
    "a follower trusts a new leader's old high watermark": Mutant(
        file="daemon/sources/quorum/barriers.py",
        text="        return not is_below and log.committed_epoch >= self.leader_epoch\n",
        becomes="        return not is_below\n",
        found_by="tests/daemon/sources/quorum/test_machine.py::test_an_old_high_watermark_of_a_new_leader_confirms_nothing",
    ),
    "a barrier passes by a Fetch that was sent before it": Mutant(
        file="daemon/sources/quorum/barriers.py",
        text="            self._goals.append((ReleaseBarriers(ticket, leader), goal))\n",
        becomes="            self._goals.append((ReleaseBarriers(self._added, leader), goal))\n",
        found_by="tests/daemon/sources/quorum/test_machine.py::test_a_barrier_needs_a_fetch_that_is_sent_later",
    ),
    "a follower truncates what it has passed on": Mutant(
        file="daemon/sources/quorum/fetched_log.py",
        text="        if end < self.committed_end:\n",
        becomes="        if end < 0:\n",
        found_by="tests/daemon/sources/quorum/test_machine.py::test_log_without_what_was_passed_on_is_lasting_fault",
    ),
    "a snapshot is put together from two leaders": Mutant(
        file="daemon/sources/quorum/machine.py",
        text="            if self._snapshot.leader_epoch == self.contact.route.epoch:\n",
        becomes="            if self._snapshot.leader_epoch <= self.contact.route.epoch:\n",
        found_by="tests/daemon/sources/quorum/test_machine.py::test_a_snapshot_begins_anew_if_a_piece_does_not_fit",
    ),
    "the copy is served before the first contact without permission": Mutant(
        file="daemon/sources/quorum/source.py",
        text="            if self._settings.serve_copy:\n",
        becomes="            if self._settings.servers:\n",
        found_by="tests/daemon/sources/quorum/test_source.py::test_the_copy_is_served_before_the_first_contact_only_if_allowed",
    ),
    "a snapshot continues an open transaction": Mutant(
        file="daemon/sources/quorum/feed.py",
        text="        self._replay = Replay()\n        if not",
        becomes="        if not",
        found_by="tests/daemon/sources/quorum/test_source.py::test_a_snapshot_voids_an_open_transaction",
    ),
    "a barrier passes before the changes are applied": Mutant(
        file="daemon/sources/quorum/confirmations.py",
        text="            offset = self._machine().log.committed_end - 1\n",
        becomes="            offset = -1\n",
        found_by="tests/daemon/sources/quorum/test_source.py::test_a_barrier_waits_for_changes_that_are_not_passed_on_yet",
    ),
    # Following brokers
    "a broker that lags is listed after a failover": Mutant(
        file="daemon/sources/brokers/machine.py",
        text="        if log_end >= demanded:\n",
        becomes="        if log_end >= demanded - 1:\n",
        found_by="tests/daemon/sources/brokers/test_machine.py::test_failover_waits_for_what_was_committed_at_the_connection",
    ),
    "a listing without acknowledged changes is accepted after a failover": Mutant(
        file="daemon/sources/brokers/machine.py",
        text="        if lacking:\n",
        becomes="        if lacking > 1:\n",
        found_by="tests/daemon/sources/brokers/test_machine.py::test_failover_waits_for_acknowledged_changes",
    ),
    "the brokers of another cluster are followed": Mutant(
        file="daemon/sources/brokers/machine.py",
        text="while opened.cluster_id != self._cluster_id:",
        becomes="while not opened.cluster_id:",
        found_by="tests/daemon/sources/brokers/test_machine.py::test_another_cluster_stops_decisions",
    ),
    "a new broker may lack changes that were acknowledged a minute ago": Mutant(
        file="daemon/sources/brokers/acknowledged.py",
        text="max(self._forgotten_high_watermark, forgotten)",
        becomes="-1",
        found_by="tests/daemon/sources/brokers/test_source.py::test_old_changes_are_forgotten_while_every_listing_fails",
    ),
    "decisions by the copy begin although the listing is too old": Mutant(
        file="daemon/sources/freshness.py",
        text="deadline = self._status, as_of + self._status.stale_max_s",
        becomes="deadline = self._status, self._status.clock() + self._status.stale_max_s",
        found_by="tests/daemon/sources/brokers/test_source.py::test_decisions_do_not_resume_by_a_listing_from_before_a_hang",
    ),
    "a barrier passes by a listing that was asked for before it": Mutant(
        file="daemon/sources/brokers/source.py",
        text="        answer = await self._exchange.ask_listing()\n",
        becomes=(
            "        answer = await self._exchange.ask_listing()\n"
            "        expectations = {\n"
            "            key: each.expectation for key, each in self._barriers.items()\n"
            "        }\n"
        ),
        found_by="tests/daemon/sources/brokers/test_source.py::test_barrier_without_changes_waits_for_a_later_listing",
    ),
    # Changes through a follower
    "a principal that is not listed is forwarded": Mutant(
        file="daemon/sources/writes/rights.py",
        text="        if principal not in self._listed:\n",
        becomes="        if not self._listed:\n",
        found_by="tests/daemon/sources/writes/test_rights.py::test_unlisted_principals_are_not_forwarded",
    ),
    "a caller without proof is forwarded": Mutant(
        file="daemon/sources/writes/rights.py",
        text="if caller.authentication not in _PROOFS and not is_anonymous:",
        becomes="if caller.authentication is None:",
        found_by="tests/daemon/sources/writes/test_rights.py::test_listed_principals_without_proof_are_not_forwarded",
    ),
    "a privileged caller is forwarded without its setting": Mutant(
        file="daemon/sources/writes/rights.py",
        text="            if applies and kind not in self._privileged:\n",
        becomes="            if applies and not self._listed:\n",
        found_by="tests/daemon/sources/writes/test_rights.py::test_privileged_callers_need_the_setting_of_their_kind",
    ),
    "the principal of an Envelope counts as proved by a log-in": Mutant(
        file="daemon/kafka/envelope.py",
        text="            authentication=Authentication.FORWARDED,\n",
        found_by="tests/daemon/kafka/test_envelope.py::test_authorizer_gets_the_context_of_the_inner_request",
    ),
    "a change is acknowledged before it is read": Mutant(
        file="daemon/sources/writes/delivery.py",
        text="        if not answers.has_success or await self._confirm(answers, answered_by):\n",
        becomes="        if answers.items:\n",
        found_by="tests/daemon/sources/writes/test_forwarded.py::test_nothing_is_acknowledged_before_it_is_read",
    ),
    "a deposed leader proves that a change is applied": Mutant(
        file="daemon/sources/quorum/confirmations.py",
        text="            if acknowledged_by in (None, leader):\n",
        becomes="            if leader is not None:\n",
        found_by="tests/daemon/sources/quorum/test_source.py::test_a_deposed_leader_does_not_prove_that_a_change_is_applied",
    ),
    "a request about grants that was too late is repeated as it was": Mutant(
        file="actors/grant_keeper.py",
        text="        self._steps_max = max(1, self._steps_asked // 2)\n",
        found_by="tests/daemon/sources/test_cluster_grants.py::test_grants_begin_and_end_together_although_each_answer_takes_long",
    ),
    "a change is sent although its caller has lost the right": Mutant(
        file="daemon/sources/writes/submission.py",
        text="        if obstacle is not None:\n            return obstacle\n",
        becomes="        del obstacle\n",
        found_by="tests/daemon/sources/writes/test_forwarded.py::test_right_is_checked_again_before_a_send",
    ),
    "a change whose answer is missing is sent again": Mutant(
        file="daemon/sources/writes/submission.py",
        text="            return Unknown(str(error))\n",
        becomes="            return NotSent(str(error))\n",
        found_by="tests/daemon/sources/writes/test_forwarded.py::test_deletion_on_a_broken_connection_never_counts_as_done",
    ),
}
