"""Mutants of the actors: when updates are visible and acknowledged, what opens, what is counted."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

ACTOR_MUTANTS: Final = (
    Mutant(
        name="objects of other tasks are never collected",
        file="actors/steps.py",
        text="        if collect_if_many():",
        becomes="        if False:",
        found_by="tests/actors/test_steps.py::test_only_objects_of_the_same_turn_are_kept",
    ),
    Mutant(
        name="a turn never ends",
        file="actors/steps.py",
        text="        if now() >= ends_at:\n",
        becomes="        if now() < 0:\n",
        found_by="tests/actors/test_steps.py::test_turn_ends_with_the_step_that_ends_after_its_time",
    ),
    Mutant(
        name="a checkpointer keeps a snapshot between two checks",
        file="daemon/sources/own_log_writer.py",
        text="            failures = self.statistics.failures\n",
        becomes=("            failures, kept = self.statistics.failures, self._snapshot.newest\n"),
        found_by="tests/daemon/sources/test_own_log_writer.py::test_no_snapshot_is_kept_between_two_checks",
    ),
    Mutant(
        name="an action on a prefix is judged as one on a literal",
        file="actors/standard_authorizer.py",
        text="            if action.pattern_type != PatternType.LITERAL:\n",
        becomes="            if action.pattern_type is None:\n",
        found_by="tests/actors/test_standard_authorizer.py::test_an_action_on_a_pattern_that_is_not_literal_is_rejected",
    ),
    Mutant(
        name="the probe of a question by resource type counts as a resource",
        file="actors/authorizer.py",
        text="resource_reference_count=0, log_if_denied=False",
        becomes="resource_reference_count=1, log_if_denied=False",
        found_by="tests/actors/test_decisions.py::test_a_question_by_resource_type_is_audited_by_its_probe",
    ),
    Mutant(
        name="creations are planned against the published snapshot, not the tail",
        file="acl/updates.py",
        text="    tail.add(changes.values())\n",
        found_by="tests/actors/test_update_queue.py::test_a_thousand_equal_creations_write_one_record_and_all_succeed",
    ),
    Mutant(
        name="loaded objects are kept for ever",
        file="actors/record_applier.py",
        text="del loaded",
        becomes="pass",
        found_by="tests/actors/test_record_applier.py::test_removed_acls_of_the_load_are_freed",
    ),
    Mutant(
        name="the states before a long batch are freed at once",
        file="actors/record_applier.py",
        text="        replaced.append(snapshot)\n",
        found_by="tests/actors/test_record_applier.py::test_replaced_states_are_freed_in_parts",
    ),
    Mutant(
        name="a flush does not count its changes",
        file="actors/update_queue.py",
        text="            changes += len(group[-1].changes)\n",
        found_by="tests/actors/test_update_queue.py::test_a_flush_never_has_more_changes_than_its_limit",
    ),
    Mutant(
        name="an update is acknowledged before the sync",
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
    Mutant(
        name="an update is acknowledged before it is applied",
        file="actors/update_queue.py",
        text="newest is not None and newest.offset >= last_offset",
        becomes="newest is not None",
        found_by="tests/actors/test_update_queue.py::test_a_durable_change_that_is_not_applied_is_not_acknowledged",
    ),
    Mutant(
        name="waiters are not released when the queue ends",
        file="actors/update_queue.py",
        text='self._refuse_all(UpdateRefusedError("the daemon is shutting down"))',
        becomes="pass",
        found_by="tests/actors/test_update_queue.py::test_a_cancelled_queue_leaves_nobody_waiting",
    ),
    Mutant(
        name="waiters for an interrupted write are not released",
        file="actors/update_queue.py",
        text='request.refuse(LogWriteError("interrupted: the update may still apply"))',
        becomes="pass",
        found_by="tests/actors/test_update_queue.py::test_a_cancelled_queue_leaves_nobody_waiting",
    ),
    Mutant(
        name="an update that the log refuses is reported as in doubt",
        file="actors/update_queue.py",
        text="                request.refuse(error)\n        finally:",
        becomes="                pass\n        finally:",
        found_by="tests/actors/test_update_queue.py::test_a_refused_append_fails_its_requests_and_the_queue_continues",
    ),
    Mutant(
        name="a cancelled append is not awaited",
        file="daemon/sources/own_log_writer.py",
        text="append, batches, limiter=self._limiter",
        becomes="append, batches, limiter=self._limiter, abandon_on_cancel=True",
        found_by="tests/daemon/sources/test_own_log_writer.py::test_cancelled_append_is_waited_for",
    ),
    Mutant(
        name="half a batch becomes visible",
        file="actors/record_applier.py",
        text="if message.is_end:",
        becomes="if message:",
        found_by="tests/actors/test_record_applier.py::test_a_batch_in_parts_becomes_visible_with_its_last_part",
    ),
    Mutant(
        name="a partly loaded log is served after the source has ended",
        file="actors/record_applier.py",
        text="        return None\n\n    async def _apply(",
        becomes="        return builder.freeze(0), cluster\n\n    async def _apply(",
        found_by="tests/actors/test_record_applier.py::test_a_source_that_ends_early_publishes_nothing",
    ),
    Mutant(
        name="a super user is not answered before loading",
        file="actors/standard_authorizer.py",
        text="elif question.principal in state.settings.super_users:",
        becomes="elif not state:",
        found_by="tests/actors/test_decisions.py::test_before_loading_only_super_users_are_answered",
    ),
    Mutant(
        name="everyone is allowed before loading",
        file="actors/standard_authorizer.py",
        text="elif question.principal in state.settings.super_users:",
        becomes="elif question.principal:",
        found_by="tests/actors/test_decisions.py::test_before_loading_only_super_users_are_answered",
    ),
    Mutant(
        name="decisions are made although a required audit cannot be written",
        file="actors/auditor.py",
        text="        if self.log.is_refusing:\n",
        becomes="        if not self.log:\n",
        found_by="tests/actors/test_decisions.py::test_nothing_is_decided_while_a_required_audit_cannot_be_written",
    ),
    Mutant(
        name="an early listener serves everyone",
        file="actors/standard_authorizer.py",
        text="or principal in self._settings.super_users",
        becomes="or bool(principal)",
        found_by="tests/daemon/kafka/test_dispatch.py::test_metadata_is_refused_before_loading",
    ),
    Mutant(
        name="an empty list of ACLs is answered while decisions are stopped",
        file="actors/standard_authorizer.py",
        text="            raise NotReadyError(self.not_ready_reason)\n",
        becomes="            return\n",
        found_by="tests/actors/test_standard_authorizer.py::test_acls_are_not_listed_while_decisions_are_stopped",
    ),
    Mutant(
        name="every endpoint may start early",
        file="actors/standard_authorizer.py",
        text="if name in server_info.early_start_listeners or",
        becomes="if name in server_info.endpoints or",
        found_by="tests/actors/test_standard_authorizer.py::test_early_endpoints_start_at_once_and_the_others_when_loaded",
    ),
    Mutant(
        name="the gate opens an endpoint that is not started",
        file="actors/listener_gate.py",
        text="await completion.wait()",
        becomes="completion.is_done",
        found_by="tests/actors/test_listener_gate.py::test_only_started_endpoints_are_open",
    ),
    Mutant(
        name="a request changes snapshots half-way",
        file="actors/standard_authorizer.py",
        text="return partial(self._authorize, self.current_state())",
        becomes="return self.authorize",
        found_by="tests/daemon/kafka/test_permissions.py::test_rights_of_a_request_stay_the_same_while_acls_change",
    ),
    Mutant(
        name="a plug-in that refuses without a reason counts as ready",
        file="actors/plugged_authorizer.py",
        text="check_reason(self._authorizer.not_ready_reason) or NOT_LOADED",
        becomes="check_reason(self._authorizer.not_ready_reason)",
        found_by=(
            "tests/actors/test_plugged_authorizer.py"
            "::test_authorizer_without_a_reason_still_refuses"
        ),
    ),
    Mutant(
        name="a text of a plug-in reaches answers as it is",
        file="actors/plugged_values.py",
        text="return escape_unprintable(str(reason)[:_REASON_MAX])",
        becomes="return str(reason)",
        found_by=(
            "tests/actors/test_plugged_authorizer.py::test_texts_of_an_authorizer_fit_into_answers"
        ),
    ),
    Mutant(
        name="a state's seconds left become negative in a pause",
        file="actors/published.py",
        text="max(0.0, self._expiring[1] - self._clock())",
        becomes="self._expiring[1] - self._clock()",
        found_by="tests/actors/test_published.py::test_seconds_left_are_never_negative",
    ),
    Mutant(
        name="a plug-in that fails allows",
        file="actors/plugged_authorizer.py",
        text="answers = [False] * len(actions)",
        becomes="answers = [True] * len(actions)",
        found_by="tests/actors/test_plugged_authorizer.py::test_invalid_answers_are_denials",
    ),
    Mutant(
        name="a super user loses answers once the ACLs are too old",
        file="actors/daemon_authorizer.py",
        text="math.inf if snapshot is None else deadline)",
        becomes="deadline)",
        found_by=(
            "tests/actors/test_standard_authorizer.py"
            "::test_super_users_are_answered_on_each_way_without_a_snapshot"
        ),
    ),
    Mutant(
        name="a plug-in's answers outlive the ACLs by which it decided",
        file="actors/daemon_authorizer.py",
        text="math.inf if snapshot is None else deadline)",
        becomes="math.inf)",
        found_by=(
            "tests/actors/test_plugged_authorizer.py"
            "::test_request_that_outlives_the_acls_gets_no_answer"
        ),
    ),
    Mutant(
        name="every answer of a plug-in except False allows",
        file="actors/plugged_values.py",
        text="[each is True for each in",
        becomes="[each is not False for each in",
        found_by="tests/actors/test_plugged_authorizer.py::test_invalid_answers_are_denials",
    ),
    Mutant(
        name="a plug-in may answer with the keys of a dict",
        file="actors/plugged_values.py",
        text="    if not isinstance(answers, list | tuple):\n",
        becomes="    if not isinstance(answers, list | tuple | dict):\n",
        found_by="tests/actors/test_plugged_authorizer.py::test_only_a_list_of_bools_allows",
    ),
    Mutant(
        name="an audit line is dropped and not counted",
        file="actors/audit_log.py",
        text="                self.statistics.dropped_queue += 1\n",
        becomes="                pass\n",
        found_by="tests/actors/test_audit_log.py::test_a_full_queue_drops_and_counts",
    ),
    Mutant(
        name="the queue of the audit log is unbounded",
        file="actors/audit_log.py",
        text="if self._closed.is_set() or self._is_full:",
        becomes="if self._closed.is_set():",
        found_by="tests/actors/test_audit_log.py::test_a_full_queue_drops_and_counts",
    ),
    Mutant(
        name="a request that has left purgatory is still counted",
        file="actors/purgatory.py",
        text="self.requests_waiting -= 1",
        becomes="pass",
        found_by="tests/actors/test_purgatory.py::test_a_request_waits_for_the_last_of_its_items",
    ),
    Mutant(
        name="purgatory counts items instead of requests",
        file="actors/purgatory.py",
        text="self.requests_waiting += 1",
        becomes="self.requests_waiting += len(completions)",
        found_by="tests/actors/test_purgatory.py::test_a_request_waits_for_the_last_of_its_items",
    ),
    Mutant(
        name="a change that times out is not counted",
        file="actors/purgatory.py",
        text="self.requests_timed_out += limit.cancelled_caught",
        becomes="pass",
        found_by="tests/actors/test_purgatory.py::test_pending_items_time_out",
    ),
    Mutant(
        name="a plug-in never learns the id of the followed cluster",
        file="daemon/loading.py",
        text="    if is_cluster_unknown:\n",
        becomes="    if not parts:\n",
        found_by=(
            "tests/daemon/test_server_info.py"
            "::test_authorizer_learns_the_cluster_id_before_it_is_loaded"
        ),
    ),
    Mutant(
        name="a forwarded request has the type of its Envelope",
        file="daemon/kafka/envelope.py",
        text="            request_type=int(inner.api_key),\n",
        found_by=(
            "tests/daemon/kafka/test_envelope.py"
            "::test_authorizer_gets_the_context_of_the_inner_request"
        ),
    ),
    Mutant(
        name="a plug-in may write a host in any form",
        file="actors/authorizer.py",
        text="        if self.host is not None and host_address(self.host) != self.host:\n",
        becomes="        if self.host is not None and not self.host:\n",
        found_by="tests/actors/test_authorizer.py::test_a_context_with_another_host_is_rejected",
    ),
    Mutant(
        name="audit lines with long names are formatted without a pause",
        file="actors/audit_log.py",
        text="if size - begun >= BYTES_PER_SLICE:",
        becomes="if False:",
        found_by="tests/actors/test_audit_log.py::test_long_lines_are_formatted_in_short_slices",
    ),
)
