"""Mutants of the process: its log lines, its audit, its workers, and its shutdown."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

PROCESS_MUTANTS: Final = (
    Mutant(
        name="the error of an ACL holds the states of its plan for ever",
        file="acl/updates.py",
        text="faults.setdefault(str(error), error.with_traceback(None))",
        becomes="faults.setdefault(str(error), error)",
        found_by="tests/daemon/process/test_gc_control.py::test_refused_change_leaves_no_cycle",
    ),
    Mutant(
        name="no turn is followed by a collection",
        file="actors/steps.py",
        text="            is_collected = _collect()",
        becomes="            is_collected = False",
        found_by="tests/daemon/process/test_gc_control.py::test_one_collection_of_long_work_scans_few_objects",
    ),
    Mutant(
        name="workers decide again after a change that could not be applied",
        file="daemon/workers/pool.py",
        text="STOPPED if self._has_failed else reason",
        becomes="reason",
        found_by="tests/daemon/workers/test_pool.py::test_workers_stay_without_decisions_after_a_misfit",
    ),
    Mutant(
        name="the daemon is ready before its endpoints listen",
        file="daemon/telemetry/readiness.py",
        text="not self._is_listening()",
        becomes="False",
        found_by="tests/daemon/test_lifespan.py::test_daemon_is_ready_only_once_every_endpoint_listens",
    ),
    Mutant(
        name="everybody may read the last error of the contact with the cluster",
        file="daemon/telemetry/admin.py",
        text="readiness.public_text if self._is_public else readiness.text",
        becomes="readiness.text",
        found_by="tests/daemon/telemetry/test_readiness.py::test_last_error_is_shown_until_the_daemon_is_ready",
    ),
    Mutant(
        name="new workers get a change that cannot be applied",
        file="daemon/workers/pool.py",
        text="        self._unapplied.clear()\n",
        found_by="tests/daemon/workers/test_pool.py::test_workers_stay_without_decisions_after_a_misfit",
    ),
    Mutant(
        name="the lease of a worker is not renewed after a pause of the daemon",
        file="daemon/workers/link.py",
        text="            self.order_report()  # a pause may have used up the lease\n",
        becomes="            _ = trio.current_time() > due + period or self.order_report()\n",
        found_by=(
            "tests/daemon/workers/test_link.py"
            "::test_lease_is_renewed_at_once_after_a_pause_of_the_daemon"
        ),
    ),
    Mutant(
        name="a worker listens with the lease from before its load",
        file="daemon/workers/link.py",
        text="            self._order_report_now()\n            self._listen_number",
        becomes="            self._listen_number",
        found_by="tests/daemon/workers/test_link.py::test_worker_listens_once_updates_wait_for_it",
    ),
    Mutant(
        name="the daemon is ready although every worker's lease has passed",
        file="daemon/workers/pool.py",
        text="            return SILENT\n",
        becomes='            return ""\n',
        found_by="tests/daemon/workers/test_pool.py::test_pool_refuses_once_every_lease_has_passed",
    ),
    Mutant(
        name="workers go on deciding although their daemon hangs",
        file="daemon/workers/pool.py",
        text="min(self._deadline, self._clock() + self._lease_s)",
        becomes="self._deadline",
        found_by=(
            "tests/daemon/workers/test_pool.py"
            "::test_lease_of_a_worker_ends_with_the_daemon_that_renews_it"
        ),
    ),
    Mutant(
        name="a worker decides for longer than its daemon",
        file="daemon/workers/feed_source.py",
        text="                        await applier.send(Renew(order.deadline))\n",
        found_by=(
            "tests/daemon/workers/test_feed_source.py"
            "::test_stop_and_deadline_reach_the_applier_in_order"
        ),
    ),
    Mutant(
        name="a daemon begins while a worker of an earlier one may answer",
        file="daemon/workers/predecessors.py",
        text="while not self._try(fcntl.LOCK_EX) and",
        becomes="while False and",
        found_by=(
            "tests/daemon/workers/test_predecessors.py"
            "::test_daemon_waits_for_the_worker_of_a_killed_one"
        ),
    ),
    Mutant(
        name="a request that lasted too long is answered by old ACLs",
        file="actors/daemon_authorizer.py",
        text="        if self.has_expired(state):\n",
        becomes="        if state is None:\n",
        found_by=(
            "tests/actors/test_standard_authorizer.py"
            "::test_request_that_outlives_its_state_gets_no_answer"
        ),
    ),
    Mutant(
        name="a name in an audit line imitates the caller",
        file="acl/audit/caller.py",
        text="    if groups > 1 or found is None:\n",
        becomes="    if found is None:\n        return line, False\n    if groups < 1:\n",
        found_by="tests/acl/audit/test_caller.py::test_line_with_an_imitation_has_no_single_reading",
    ),
    Mutant(
        name="an audit line has any text that a client sends as X-Request-ID",
        file="acl/audit/caller.py",
        text="value is not None and _REQUEST_ID.fullmatch(value) else None",
        becomes="value is not None else None",
        found_by="tests/acl/audit/test_caller.py::test_request_id_of_another_form_is_left_out",
    ),
    Mutant(
        name="a caller's name in an audit line is not escaped",
        file="acl/audit/caller.py",
        text='    return quote(text, safe=_SAFE, errors="surrogatepass")\n',
        becomes="    return text\n",
        found_by="tests/acl/audit/test_caller.py::test_group_is_removed_exactly",
    ),
    Mutant(
        name="the audit names no address",
        file="daemon/decisions/http_surface.py",
        text="PortRequester(caller, request.address, request.headers)",
        becomes="PortRequester(caller, None, request.headers)",
        found_by="tests/daemon/test_requesters.py::test_trusted_caller_has_no_principal",
    ),
    Mutant(
        name="the daemon says ready while a required audit refuses decisions",
        file="daemon/telemetry/readiness.py",
        text="        return self._authorizer.refusal or (",
        becomes="        return (",
        found_by="tests/daemon/telemetry/test_readiness.py::test_every_reason_to_refuse_all_decisions_is_told",
    ),
    Mutant(
        name="the daemon says ready while every worker refuses decisions",
        file="daemon/workers/pool.py",
        text="if listening and all(link.counters.get(AUDIT_REFUSING) for link in listening):",
        becomes="if not listening:",
        found_by="tests/daemon/workers/test_pool.py::test_pool_refuses_if_every_worker_does",
    ),
    Mutant(
        name="the log's queue grows without bound",
        file="daemon/logging/queue.py",
        text="if self._size + len(data) > QUEUE_BYTES_MAX:",
        becomes="if False:",
        found_by="tests/daemon/logging/test_queue.py::test_full_queue_drops_lines_and_never_blocks",
    ),
    Mutant(
        name="a fault in another task loses queued audit lines",
        file="actors/audit_log.py",
        text="trio.CancelScope(shield=True)",
        becomes="trio.CancelScope()",
        found_by="tests/actors/test_audit_log.py::test_an_error_elsewhere_loses_no_line",
    ),
    Mutant(
        name="audit lines that are lost at the end are not counted",
        file="actors/audit_log.py",
        text="            lost = len(self._lines) + len(self._events)\n",
        becomes="            lost = 0\n",
        found_by="tests/actors/test_audit_log.py::test_lines_lost_to_an_error_elsewhere_are_counted",
    ),
    Mutant(
        name="processes write audit lines at the same time",
        file="daemon/audit/file.py",
        text="        fcntl.lockf(self.descriptor, fcntl.LOCK_EX)\n",
        found_by="tests/daemon/audit/test_file.py::test_other_processes_wait_during_a_write",
    ),
    Mutant(
        name="the lock for audit lines is on the file itself",
        file="daemon/audit/file.py",
        text="            with self._turns.hold():\n",
        becomes="            with AuditLock(self._file).hold():\n",
        found_by="tests/daemon/audit/test_file.py::test_a_reader_of_the_file_cannot_delay_a_write",
    ),
    Mutant(
        name="the Unix socket of another process is removed at the end",
        file="daemon/net/binding.py",
        text="            if self.is_in_place:\n",
        becomes="            if True:\n",
        found_by="tests/daemon/net/test_binding.py::test_socket_of_another_daemon_at_the_path_is_kept",
    ),
    Mutant(
        name="a daemon whose Unix socket was replaced reports that it is ready",
        file="daemon/net/binding.py",
        text="        if self._file is not None and not self._file.is_in_place:\n",
        becomes="        if False:\n",
        found_by="tests/daemon/net/test_binding.py::test_daemon_that_lost_its_socket_file_ends",
    ),
    Mutant(
        name="a link in the place of a new Unix socket opens another file to the group",
        file="daemon/net/binding.py",
        text="        file.permit(UNIX_MODE)\n",
        becomes="        path.chmod(UNIX_MODE)\n",
        found_by="tests/daemon/net/test_binding.py::test_link_in_the_place_of_a_new_socket_changes_no_other_file",
    ),
    Mutant(
        name="the ready file is written through a symbolic link",
        file="daemon/telemetry/ready_file.py",
        text="os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW",
        becomes="os.O_CREAT",
        found_by="tests/daemon/telemetry/test_ready_file.py::test_existing_file_at_the_temporary_name_is_kept",
    ),
    Mutant(
        name="a replaced worker gets the files of the start",
        file="daemon/workers/pool.py",
        text="        self._order_files(link)  # they may have changed since the worker started\n",
        found_by="tests/daemon/workers/test_pool.py::test_workers_get_the_files_in_force",
    ),
    Mutant(
        name="a plugged-in authorizer can exit the process",
        file="actors/plugged_authorizer.py",
        text=(
            " BaseException as error:  # noqa: BLE001 - in doubt, deny\n"
            "            self._on_failure(error)\n"
            "            answers"
        ),
        becomes=(
            " Exception as error:  # noqa: BLE001 - in doubt, deny\n"
            "            self._on_failure(error)\n"
            "            answers"
        ),
        found_by="tests/actors/test_plugged_authorizer.py::test_invalid_answers_are_denials",
    ),
    Mutant(
        name="a plugged-in authorizer may complete a deletion with any value",
        file="actors/plugged_values.py",
        text="if kind is None or _is_deleted(value):",
        becomes="if True:",
        found_by="tests/actors/test_plugged_authorizer.py::test_an_invalid_result_of_a_deletion_fails_its_item",
    ),
    Mutant(
        name="a hanging shutdown is not forced",
        file="daemon/process/forced_end.py",
        text=(
            "        self._timer.start()\n"
            "        signal.setitimer(signal.ITIMER_REAL, seconds + KERNEL_SECONDS)\n"
        ),
        found_by="tests/end_to_end/test_ending.py::test_hanging_shutdown_is_forced",
    ),
    Mutant(
        name="a shutdown in time leaves the clock running",
        file="daemon/process/forced_end.py",
        text="            self._timer.cancel()\n",
        found_by="tests/daemon/process/test_forced_end.py::test_end_in_time_stops_both_timers",
    ),
    Mutant(
        name="the update queue ends before the connections",
        file="daemon/lifespan.py",
        text="self._acting(), self._writing(), self._serving()",
        becomes="self._acting(), self._serving(), self._writing()",
        found_by="tests/daemon/test_lifespan.py::test_change_under_way_is_answered_and_durable_before_the_actors_and_the_audit_end",
    ),
    Mutant(
        name="the stages of a daemon end in the order in which they started",
        file="daemon/process/stages.py",
        text="    stage, *later = stages\n",
        becomes="    *later, stage = stages\n",
        found_by="tests/daemon/process/test_stages.py::test_stages_start_in_order_and_each_ends_before_the_one_below_it",
    ),
    Mutant(
        name="a signal to end waits for a reload",
        file="daemon/process/signals.py",
        text="                self._reload_asked.set()\n",
        becomes="                await self._settings.reload()\n",
        found_by="tests/end_to_end/test_ending.py::test_sighup_at_a_start_reloads_and_sigterm_ends_a_hanging_reload",
    ),
    Mutant(
        name="SIGHUP ends a daemon during its imports",
        file="cli/__main__.py",
        text="    hold_sighup(sys.argv[1:])\n",
        found_by="tests/end_to_end/test_ending.py::test_signals_while_a_daemon_is_imported",
    ),
    Mutant(
        name="a closed standard stream stays closed",
        file="cli/program/standard_streams.py",
        text="    _fill_closed_descriptors()\n",
        found_by="tests/cli/test_main.py::test_no_file_gets_the_descriptor_of_a_closed_stream",
    ),
    Mutant(
        name="a configuration file of any size is read",
        file="cli/configuration_file.py",
        text="    if len(data) > CONFIGURATION_BYTES_MAX:\n",
        becomes="    if False:\n",
        found_by="tests/cli/test_main.py::test_oversized_configuration_file_is_rejected",
    ),
    Mutant(
        name="a reload waits for a hanging one",
        file="daemon/settings.py",
        text="trio.CapacityLimiter(READS_MAX)",
        becomes="trio.CapacityLimiter(1)",
        found_by="tests/daemon/kafka/test_guarded_configs.py::test_hanging_reload_does_not_block_the_next",
    ),
    Mutant(
        name="the codec of the log's escapes is loaded on first use",
        file="acl/text/printable.py",
        text="import encodings.unicode_escape  #",
        becomes="#",
        found_by="tests/daemon/logging/test_setup.py::test_unprintable_characters_are_escaped_without_a_free_descriptor",
    ),
    Mutant(
        name="a malformed token is logged as a name",
        file="daemon/kafka/login/sasl_plain.py",
        text=" if len(parts) == 3 else None",
        becomes=" if len(parts) > 1 else None",
        found_by="tests/daemon/kafka/login/test_authentication.py::test_failed_log_in_names_the_user_but_never_the_password",
    ),
    Mutant(
        name="the name of a failed log-in may have any length and line breaks",
        file="daemon/kafka/login/authentication.py",
        text="{name[:_NAME_CHARACTERS_SHOWN_MAX]!r}",
        becomes="{name}",
        found_by="tests/daemon/kafka/login/test_authentication.py::test_failed_log_in_names_the_user_but_never_the_password",
    ),
    Mutant(
        name="SIGINT at a start leaves a traceback",
        file="cli/__main__.py",
        text="    end_without_words()\n",
        found_by="tests/end_to_end/test_ending.py::test_signals_while_a_daemon_is_imported",
    ),
    Mutant(
        name="a server does not wait for the gate",
        file="daemon/lifespan.py",
        text="        await self._gate.wait_until_open(name)\n",
        found_by="tests/end_to_end/test_early_start.py::test_every_other_endpoint_refuses_connections",
    ),
    Mutant(
        name="an audit line keeps characters that reorder its text",
        file="daemon/audit/format.py",
        text='frozenset(("Cc", "Cf", "Zl", "Zp"))',
        becomes='frozenset(("Cc", "Zl", "Zp"))',
        found_by="tests/daemon/audit/test_format.py::test_misleading_characters_are_escaped",
    ),
    Mutant(
        name="a flood of requests to the admin port is answered in one step",
        file="daemon/telemetry/admin.py",
        text="await trio.lowlevel.checkpoint()",
        becomes="pass",
        found_by="tests/daemon/telemetry/test_admin.py::test_every_answer_yields_to_other_tasks",
    ),
    Mutant(
        name="every scrape of the metrics port collects all metrics",
        file="daemon/telemetry/admin.py",
        text="if now >= self._collected_until:",
        becomes="if now:",
        found_by="tests/daemon/telemetry/test_admin.py::test_metrics_are_collected_again_only_after_their_maximum_age",
    ),
    Mutant(
        name="a worker keeps the texts of all changes for ever",
        file="protocol/worker_changes.py",
        text="if len(self._texts) >= TEXTS_KEPT:",
        becomes="if len(self._texts) < 0:",
        found_by="tests/protocol/test_worker_feed.py::test_only_so_many_texts_are_kept",
    ),
    Mutant(
        name="each ACL of a worker has texts of its own",
        file="protocol/worker_changes.py",
        text="return self._texts.setdefault(text, text)",
        becomes="return text",
        found_by="tests/protocol/test_worker_feed.py::test_equal_texts_of_different_acls_are_kept_once",
    ),
    Mutant(
        name="the first request of each version loads its definition",
        file="daemon/kafka/dispatch.py",
        text="\nload_definitions()\n",
        becomes="\n",
        found_by="tests/cli/test_start.py::test_only_a_server_loads_all_message_definitions_at_its_start",
    ),
    Mutant(
        name="each daemon loads the client of a followed cluster",
        file="daemon/components.py",
        text="from authorizerd.daemon.origins.own_log import OwnLogOrigin\n",
        becomes="import authorizerd.daemon.origins.followed_cluster\n"
        "from authorizerd.daemon.origins.own_log import OwnLogOrigin\n",
        found_by="tests/cli/test_start.py::test_own_log_needs_no_client_of_a_cluster",
    ),
    Mutant(
        name="the metrics port shows everybody why decisions have stopped",
        file="daemon/telemetry/readiness.py",
        text="return self._describe_wait(is_public=True) or self.text",
        becomes="return self._describe_wait() or self.text",
        found_by="tests/daemon/telemetry/test_readiness.py::test_fault_is_one_line_and_not_public",
    ),
    Mutant(
        name="a cluster's error sends systemd a message of its own",
        file="daemon/telemetry/readiness.py",
        text="    return escape_unprintable(error[:SHOWN_MAX])\n",
        becomes="    return error[:SHOWN_MAX]\n",
        found_by="tests/daemon/telemetry/test_readiness.py::test_fault_is_one_line_and_not_public",
    ),
    Mutant(
        name="the text of a defect forges a line of the log",
        file="daemon/logging/setup.py",
        text='"\\n  ".join(map(escape_unprintable, lines))',
        becomes='"\\n".join(lines)',
        found_by="tests/daemon/logging/test_setup.py::"
        "test_defect_is_one_event_in_json_and_in_the_journal",
    ),
    Mutant(
        name="a fault at the start of a command forges a line",
        file="daemon/logging/setup.py",
        text='"\\n  ".join(map(escape_line, text.split("\\n")))',
        becomes='"\\n".join(map(escape_line, text.split("\\n")))',
        found_by="tests/daemon/logging/test_setup.py::"
        "test_final_fault_is_reported_in_the_logs_format",
    ),
    Mutant(
        name="the text of a client forges a line of the log",
        file="daemon/logging/setup.py",
        text='event = escape_line(f"{message}\\n{exception}" if exception else message)',
        becomes='event = f"{message}\\n{exception}" if exception else message',
        found_by="tests/end_to_end/test_forged_lines.py::test_no_client_forges_a_line",
    ),
    Mutant(
        name="a name forges a line of the audit",
        file="daemon/audit/format.py",
        text="        message = message.translate(KAFKA_ESCAPES)\n",
        becomes="        pass\n",
        found_by="tests/end_to_end/test_forged_lines.py::test_no_client_forges_a_line",
    ),
    Mutant(
        name="all metrics are written in one step",
        file="daemon/telemetry/admin.py",
        text="await collect(map(_encode, metrics))",
        becomes="map(_encode, metrics)",
        found_by="tests/daemon/telemetry/test_admin.py::test_other_tasks_run_between_two_metrics",
    ),
    Mutant(
        name="a terminal obeys what a damaged file contains",
        file="metadata/errors.py",
        text="return escape_unprintable(super().__str__())",
        becomes="return super().__str__()",
        found_by="tests/fuzz/test_fuzz.py::test_found_input_is_read_or_rejected",
    ),
    Mutant(
        name="deep JSON in a line of a log ends its reading",
        file="acl/text/decoding_errors.py",
        text="DECODING_ERRORS: Final = (ValueError, RecursionError)",
        becomes="DECODING_ERRORS: Final = (ValueError,)",
        found_by="tests/ops/replay/ingest/test_commit.py::"
        "test_directory_that_is_not_a_table_is_rejected",
    ),
    Mutant(
        name="a name server opens a port of localhost to other machines",
        file="daemon/net/binding.py",
        text="if is_local and not is_loopback(resolved):",
        becomes="if False:",
        found_by="tests/daemon/net/test_binding.py::test_localhost_must_be_this_machine_alone",
    ),
)
