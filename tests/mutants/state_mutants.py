"""Mutants of gating and order: what is visible, served and acknowledged, and when."""

from typing import Final

from tests.mutants.mutant import Mutant

STATE_MUTANTS: Final = {
    # Actors
    "an action on a prefix is judged as one on a literal": Mutant(
        file="actors/standard_authorizer.py",
        text="            if action.pattern_type != PatternType.LITERAL:\n",
        becomes="            if action.pattern_type is None:\n",
        found_by="tests/actors/test_standard_authorizer.py::test_an_action_on_a_pattern_that_is_not_literal_is_rejected",
    ),
    "creations are planned against the published snapshot, not the tail": Mutant(
        file="acl/updates.py",
        text="    tail.add(changes.values())\n",
        found_by="tests/actors/test_update_queue.py::test_thousand_equal_creations_write_one_record_and_all_succeed",
    ),
    "an update is acknowledged before the sync": Mutant(
        file="actors/update_queue.py",
        text="            offset = await self._write(group, offset)\n",
        becomes=(
            "            for request in group:\n"
            "                request.answer(offset)\n"
            "            offset = await self._write(group, offset)\n"
            "            return\n"
        ),
        found_by="tests/actors/test_update_queue.py::test_a_creation_is_durable_and_applied_when_it_is_acknowledged",
    ),
    "an update is acknowledged before it is applied": Mutant(
        file="actors/update_queue.py",
        text="newest is not None and newest.offset >= last_offset",
        becomes="newest is not None",
        found_by="tests/actors/test_update_queue.py::test_durable_change_that_is_not_applied_is_unacknowledged",
    ),
    "prepared changes are published before they are durable": Mutant(
        file="actors/record_applier.py",
        text="prepare(snapshot, message.batches))\n",
        becomes=(
            "prepare(snapshot, message.batches))\n"
            "                    self._publish(self._prepared._states[-1].after, cluster)\n"
        ),
        found_by="tests/actors/test_update_queue.py::test_an_ending_queue_fails_all_waiting_requests",
    ),
    "one step plans many creations with long texts": Mutant(
        file="acl/updates.py",
        text="if texts > CHARACTERS_TOGETHER:",
        becomes="if not chunk:",
        found_by="tests/acl/test_updates.py::test_long_texts_are_planned_in_steps_of_their_own",
    ),
    "a prepared state is published for other changes": Mutant(
        file="actors/prepared_states.py",
        text="if first.changes is not changes or first.before is not snapshot.acls:",
        becomes="if not changes:",
        found_by="tests/actors/test_record_applier.py::test_prepared_changes_become_visible_only_once_they_are_committed",
    ),
    "a prepared state is published after another state": Mutant(
        file="actors/prepared_states.py",
        text=" or first.before is not snapshot.acls",
        becomes="",
        found_by="tests/actors/test_prepared_states.py::test_prepared_state_is_used_only_after_its_state_and_for_its_changes",
    ),
    "states of appends that failed are kept without a bound": Mutant(
        file="actors/prepared_states.py",
        text="        self._states.clear()\n        for",
        becomes="        for",
        found_by="tests/actors/test_prepared_states.py::test_states_of_an_append_that_was_never_committed_are_replaced",
    ),
    "workers apply changes before they are durable": Mutant(
        file="daemon/workers/pool.py",
        text=(
            "                    case Prepare():  # workers get only durable changes\n"
            "                        pass\n"
        ),
        becomes=(
            "                    case Prepare(batches):\n"
            "                        for each in batches:\n"
            "                            self._pass_on(ChangeBatch(9, each))\n"
        ),
        found_by="tests/daemon/workers/test_pool.py::test_acknowledgement_waits_for_every_worker",
    ),
    "a cancelled append is not awaited": Mutant(
        file="daemon/sources/own_log_writer.py",
        text="append, batches, begin, limiter=self._limiter",
        becomes="append, batches, begin, limiter=self._limiter, abandon_on_cancel=True",
        found_by="tests/daemon/sources/test_own_log_writer.py::test_cancelled_append_is_waited_for",
    ),
    "half a batch becomes visible": Mutant(
        file="actors/record_applier.py",
        text="if message.is_end:",
        becomes="if message:",
        found_by="tests/actors/test_record_applier.py::test_a_batch_in_parts_becomes_visible_with_its_last_part",
    ),
    "a partly loaded log is served after the source has ended": Mutant(
        file="actors/record_applier.py",
        text="        return None\n\n    async def _apply(",
        becomes="        return builder.freeze(0), cluster\n\n    async def _apply(",
        found_by="tests/actors/test_record_applier.py::test_a_source_that_ends_early_publishes_nothing",
    ),
    "everyone is allowed before loading": Mutant(
        file="actors/standard_authorizer.py",
        text="elif question.principal in state.settings.super_users:",
        becomes="elif question.principal:",
        found_by="tests/actors/test_decisions.py::test_before_loading_only_super_users_are_answered",
    ),
    "decisions are made although a required audit cannot be written": Mutant(
        file="actors/auditor.py",
        text="        if self.log.is_refusing:\n",
        becomes="        if not self.log:\n",
        found_by="tests/actors/test_decisions.py::test_nothing_is_decided_while_a_required_audit_cannot_be_written",
    ),
    "an early listener serves everyone": Mutant(
        file="actors/standard_authorizer.py",
        text="or principal in self._settings.super_users",
        becomes="or bool(principal)",
        found_by="tests/daemon/kafka/test_dispatch.py::test_metadata_is_refused_before_loading",
    ),
    "an empty list of ACLs is answered while decisions are stopped": Mutant(
        file="actors/standard_authorizer.py",
        text="            raise NotReadyError(self.not_ready_reason)\n",
        becomes="            return\n",
        found_by="tests/actors/test_standard_authorizer.py::test_acls_are_not_listed_while_decisions_are_stopped",
    ),
    "every endpoint may start early": Mutant(
        file="actors/standard_authorizer.py",
        text="if name in server_info.early_start_listeners or",
        becomes="if name in server_info.endpoints or",
        found_by="tests/actors/test_standard_authorizer.py::test_early_endpoints_start_at_once_and_the_others_when_loaded",
    ),
    "the gate opens an endpoint that is not started": Mutant(
        file="actors/listener_gate.py",
        text="await completion.wait()",
        becomes="completion.is_done",
        found_by="tests/actors/test_listener_gate.py::test_only_started_endpoints_are_open",
    ),
    "a request changes snapshots half-way": Mutant(
        file="actors/standard_authorizer.py",
        text="return partial(self._authorize, self.current_state())",
        becomes="return self.authorize",
        found_by="tests/daemon/kafka/test_dispatch.py::test_rights_of_a_request_stay_the_same_while_acls_change",
    ),
    "a plug-in that fails allows": Mutant(
        file="actors/plugged_authorizer.py",
        text="answers = [False] * len(actions)",
        becomes="answers = [True] * len(actions)",
        found_by="tests/actors/test_plugged_authorizer.py::test_invalid_answers_are_denials",
    ),
    "a plug-in's answers outlive the ACLs by which it decided": Mutant(
        file="actors/daemon_authorizer.py",
        text="math.inf if snapshot is None else deadline)",
        becomes="math.inf)",
        found_by="tests/actors/test_plugged_authorizer.py::test_request_that_outlives_the_acls_gets_no_answer",
    ),
    "every answer of a plug-in except False allows": Mutant(
        file="actors/plugged_values.py",
        text="[answer is True for answer in",
        becomes="[answer is not False for answer in",
        found_by="tests/actors/test_plugged_authorizer.py::test_invalid_answers_are_denials",
    ),
    "the queue of the audit log is unbounded": Mutant(
        file="actors/audit_log.py",
        text="if self._closed.is_set() or self._is_full:",
        becomes="if self._closed.is_set():",
        found_by="tests/actors/test_audit_log.py::test_a_full_queue_drops_and_counts",
    ),
    # Changes that expect a state
    "a change is made although an ACL has changed since": Mutant(
        file="acl/expected_offset.py",
        text="    if changed_at > expected_offset:\n",
        becomes="    if offset < expected_offset:\n",
        found_by="tests/actors/test_change_guards.py::test_change_by_others_rejects_a_whole_request",
    ),
    "a change slips in behind another one that is not written yet": Mutant(
        file="acl/updates.py",
        text="            self.changed_at = self.snapshot.offset + 1  # after",
        becomes="            pass  # after",
        found_by="tests/actors/test_change_guards.py::test_requests_of_one_flush_see_each_other",
    ),
    "after a restart, every expected offset passes": Mutant(
        file="actors/record_applier.py",
        text=(
            "                    self._note_change(message)\n"
            "                    await _load_changes"
        ),
        becomes="                    await _load_changes",
        found_by="tests/actors/test_change_guards.py::test_offsets_of_before_a_restart_pass_only_if_nothing_can_have_changed",
    ),
    "a plan is applied to other ACLs than it was made for": Mutant(
        file="cli/change/execution.py",
        text="changes).get(listed.digest)\n",
        becomes="changes).get(listed.digest, 0)\n",
        found_by="tests/cli/change/test_execution.py::test_moved_state_is_left_alone",
    ),
    "a change whose answer is lost is sent again without looking": Mutant(
        file="kafka_client/client.py",
        text="            raise UnknownOutcomeError(str(error)) from error\n",
        becomes="            return await self.request(call, name=name, errors=lambda _: [])\n",
        found_by="tests/kafka_client/test_client.py::test_request_of_unknown_outcome_is_not_repeated",
    ),
    # Stories
    "story: an update is acknowledged before it is synced": Mutant(
        file="actors/update_queue.py",
        text="            offset = await self._write(group, offset)\n",
        becomes=(
            "            for request in group:\n"
            "                request.answer(offset)\n"
            "            offset = await self._write(group, offset)\n"
            "            return\n"
        ),
        found_by="tests/model/test_stories.py::test_every_invariant_holds_in_every_story",
    ),
    "story: records that the quorum may still lose are passed on": Mutant(
        file="daemon/sources/quorum/fetched_log.py",
        text="        while self._pending and self._pending[0].last_offset < high_watermark:\n",
        becomes="        while self._pending:\n",
        found_by="tests/model/test_stories.py::test_every_invariant_holds_in_every_story",
    ),
    "decisions go on although contact with the cluster is lost": Mutant(
        file="actors/published.py",
        text="if deadline != math.inf and self._clock() >= deadline:",
        becomes="if deadline == -math.inf:",
        found_by="tests/actors/test_record_applier.py::test_state_decides_until_its_deadline_whoever_runs",
    ),
    "story: an older listing is accepted after a failover": Mutant(
        file="daemon/sources/brokers/machine.py",
        text="        if log_end >= demanded:\n",
        becomes="        if log_end >= 0:\n",
        found_by="tests/model/test_stories.py::test_every_invariant_holds_in_every_story",
    ),
    "story: one frame is decided by several states": Mutant(
        file="daemon/decisions/stream_server.py",
        text="            decided = decide(authorize, state, turn)\n",
        becomes=(
            "            state = self._server.authorizer.current_state()\n"
            "            decided = decide(authorize, state, turn)\n"
        ),
        found_by="tests/model/test_stories.py::test_every_invariant_holds_in_every_story",
    ),
    "story: an update is acknowledged before every worker has applied it": Mutant(
        file="daemon/workers/pool.py",
        text="            await link.wait_until_done(number)\n",
        becomes="            await trio.lowlevel.checkpoint()\n",
        found_by="tests/model/test_stories.py::test_every_invariant_holds_in_every_story",
    ),
    # Chaos
    "chaos: an update is acknowledged before the workers have applied it": Mutant(
        file="daemon/workers/pool.py",
        text="            await link.wait_until_done(number)\n",
        becomes="            await trio.lowlevel.checkpoint()\n",
        found_by="tests/chaos/test_chaos.py::test_all_that_clients_were_told_is_in_the_log",
    ),
    "chaos: what was shown under an offset of the daemon may be lost": Mutant(
        file="tests/fleet/judge.py",
        text="            yield from offsets.forget_from(begin)\n",
        becomes="            deque(offsets.forget_from(begin), 0)\n",
        found_by="tests/fleet/test_judge.py::test_state_that_an_offset_of_the_daemon_has_shown_may_not_be_lost",
    ),
}
