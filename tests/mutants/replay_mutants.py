"""Mutants of the other parts of the replay: how it judges, reports, and measures latency."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_TRAFFIC_TESTS: Final = "tests/cli/change/test_traffic.py"
_FOLLOW_TESTS: Final = "tests/ops/replay/whatif/follow"

REPLAY_MUTANTS: Final = (
    *(
        Mutant(
            name=f"{command} draws conclusions from a record that the ACLs contradict",
            file=file,
            text=text,
            becomes=becomes,
            found_by=found_by,
        )
        for command, file, text, becomes, found_by in (
            (
                "a plan",
                "cli/change/traffic.py",
                "or contradiction is not None,",
                ",",
                f"{_TRAFFIC_TESTS}::test_plan_breaks_if_the_acls_contradict_the_record",
            ),
            (
                "a plan with an unknown default",
                "cli/change/traffic.py",
                "evidence.contradiction or if_open.contradiction",
                "evidence.contradiction and if_open.contradiction",
                f"{_TRAFFIC_TESTS}::test_contradiction_by_one_value_of_an_unknown_default_breaks",
            ),
            (
                "a plan with a report that does not show it",
                "ops/replay/local/evidence.py",
                "if report.not_as_recorded is None:",
                "if not report:",
                f"{_TRAFFIC_TESTS}::test_report_of_an_earlier_version_is_rejected",
            ),
            (
                "usage",
                "ops/replay/usage/evaluation.py",
                "if contradiction is not None:",
                "if not judged:",
                "tests/ops/replay/usage/test_evaluation.py"
                "::test_record_that_the_acls_contradict_is_rejected",
            ),
            (
                "a comparison of releases",
                "cli/change/releases.py",
                "changes = changes or traffic.contradiction is not None",
                "pass",
                "tests/cli/change/test_releases.py"
                "::test_record_that_the_acls_contradict_proves_nothing",
            ),
            (
                "whatif",
                "ops/replay/whatif/evaluation.py",
                "report.newly_denied.tuples or report.contradiction",
                "report.newly_denied.tuples",
                "tests/ops/replay/whatif/test_report.py"
                "::test_record_that_the_baseline_contradicts_is_exit_code_3",
            ),
        )
    ),
    Mutant(
        name="usage removes the last ACL of a resource that an unknown default may open",
        file="ops/replay/usage/suggestions.py",
        text="if acl_set.allow_everyone_if_no_acl_found is False:",
        becomes="if not acl_set.allow_everyone_if_no_acl_found:",
        found_by="tests/ops/replay/usage/test_suggestions.py::test_suggestions_never_allow_a_denied_question",
    ),
    Mutant(
        name="a plan is checked by one value of a default that is unknown",
        file="cli/change/traffic.py",
        text="if known.most != known.least:",
        becomes="if False:",
        found_by="tests/cli/change/test_traffic.py::test_unknown_default_is_tried_both_ways",
    ),
    Mutant(
        name="a report counts as evidence although the default is unknown",
        file="ops/replay/local/evidence.py",
        text="    if known.allow_everyone_if_no_acl_found is None:",
        becomes="    if False:",
        found_by="tests/cli/change/test_traffic.py::test_report_does_not_show_what_an_unknown_default_allows",
    ),
    Mutant(
        name="the secrets of a spark-submit line are shown",
        file="ops/replay/submit/line.py",
        text='== "--conf" and _SECRET.search(word):',
        becomes='== "--conf" and not _SECRET.search(word):',
        found_by="tests/ops/replay/submit/test_line.py::test_secret_is_used_but_not_shown",
    ),
    Mutant(
        name="the token of a server of Spark Connect is shown",
        file="ops/replay/submit/line.py",
        text='re.sub("(?s);.*", f";{REDACTED}", value)',
        becomes="value",
        found_by="tests/ops/replay/submit/test_line.py::test_remote_line_hides_the_servers_token",
    ),
    Mutant(
        name="the plan of a job is sent to every executor",
        file="ops/replay/submit/line.py",
        text='if options.deploy_mode == "cluster":',
        becomes="if True:",
        found_by="tests/ops/replay/submit/test_line.py::test_local_line_opens_no_network_port",
    ),
    Mutant(
        name="a variable of the shell moves a job to Spark Connect",
        file="ops/replay/submit/submitter.py",
        text="environment.pop(REMOTE_VARIABLE, None)",
        becomes="environment.get(REMOTE_VARIABLE, None)",
        found_by="tests/ops/replay/submit/test_submitter.py"
        "::test_spark_connect_of_the_shell_is_not_used",
    ),
    Mutant(
        name="a program in the current folder lists the ACLs of a cluster",
        file="ops/replay/acls/live.py",
        text='(sys.executable, "-P", "-m",',
        becomes='(sys.executable, "-m",',
        found_by="tests/ops/replay/acls/test_live.py::test_folder_named_authorizerd_is_not_imported",
    ),
    Mutant(
        name="logs that only have equal headers are copies",
        file="ops/replay/local/files.py",
        text="if _IN_EVENTS in line)",
        becomes="if line)",
        found_by="tests/ops/replay/local/test_files.py::test_copies_are_logs_with_whose_lines_another_begins",
    ),
    Mutant(
        name="a log with other lines after a shorter one is a copy",
        file="ops/replay/local/files.py",
        text="if beside.startswith(line) and not after:",
        becomes="if beside.startswith(line):",
        found_by="tests/ops/replay/local/test_files.py::test_copies_are_logs_with_whose_lines_another_begins",
    ),
    Mutant(
        name="the local engine shortens a line that is too long",
        file="ops/replay/local/tallies.py",
        text="if found is None or len(tail) > KEPT_BYTES_MAX:",
        becomes="if found is None:",
        found_by="tests/ops/replay/local/test_tallies.py::test_line_of_maximum_length_is_not_lengthened",
    ),
    Mutant(
        name="tuples that ACLs cannot decide are judged",
        file="ops/replay/judging/asking.py",
        text="if None in (recorded.principal, recorded.resource_name):",
        becomes="if None in (recorded.principal,):",
        found_by="tests/ops/replay/judging/test_asking.py::test_undecidable_row_has_a_reason",
    ),
    Mutant(
        name="a removed ALLOW is not named as the reason of a denial",
        file="ops/replay/local/causes.py",
        text="removed = self._removed.find_deciding(question, allows=not is_allowed)",
        becomes="removed = self._removed.find_of_resource(question)",
        found_by="tests/ops/replay/local/test_causes.py::test_causes_are_the_acls_that_decide",
    ),
    Mutant(
        name="the local engine counts a JSON line of 1970, which an ingest sets aside",
        file="ops/replay/local/tallies.py",
        text='_UTC: Final = "2[0-9]{3}-',
        becomes='_UTC: Final = "[0-9]{4}-',
        found_by="tests/ops/replay/local/test_tallies.py::test_json_lines_are_read_like_each_line",
    ),
    Mutant(
        name="the local engine remembers the timestamps of containers",
        file="ops/replay/local/tallies.py",
        text="head, _, rest = own.partition(",
        becomes="head, _, rest = line.partition(",
        found_by="tests/ops/replay/local/test_tallies.py::test_timestamps_of_containers_are_not_remembered",
    ),
    Mutant(
        name="the local engine cuts an endless timestamp off a line that is too long",
        file="ops/replay/ingest/parse/beginnings.py",
        text="{1,64} (?:stdout",
        becomes="+ (?:stdout",
        found_by="tests/ops/replay/local/test_tallies.py::test_line_with_an_endless_timestamp_of_a_container_is_too_long",
    ),
    Mutant(
        name="the local engine takes the first of two times in a JSON line",
        file="ops/replay/local/tallies.py",
        text='(?="(?!.*',
        becomes='(?="(?!;.*',
        found_by="tests/ops/replay/local/test_tallies.py::test_json_lines_are_read_like_each_line",
    ),
    Mutant(
        name="a plan is judged by a log that cannot be read",
        file="ops/replay/local/evidence.py",
        text="    if not ingested.accepted:",
        becomes="    if not ingested.lines:",
        found_by="tests/cli/change/test_traffic.py::test_traffic_that_proves_nothing_is_rejected",
    ),
    Mutant(
        name="a report about other ACLs counts as evidence for a plan",
        file="ops/replay/local/evidence.py",
        text="if found.digest != digest_of(index.acls):",
        becomes="if not found.digest:",
        found_by="tests/cli/change/test_traffic.py::test_report_about_other_acls_is_rejected",
    ),
    Mutant(
        name="a plan that newly denies recorded requests does not break",
        file="cli/change/traffic.py",
        text="breaks=denied.events > 0 or denied_if_open.events > 0 or",
        becomes="breaks=",
        found_by="tests/cli/change/test_traffic.py::test_created_deny_is_named",
    ),
    Mutant(
        name="a plan is judged on Spark with ACLs that it was not made for",
        file="ops/replay/acls/planned.py",
        text="if digest_acls(acls) != plan.made_for.digest:",
        becomes="if len(acls) > plan.made_for.acls:",
        found_by="tests/ops/replay/test_cli.py::test_whatif_rejects_a_plan_for_other_acls",
    ),
    Mutant(
        name="events with the same decision are reported as changed",
        file="ops/replay/whatif/evaluation.py",
        text="figures = one.denied if is_allowed else one.allowed",
        becomes="figures = one.denied or one.allowed",
        found_by="tests/ops/replay/whatif/test_evaluation.py::test_only_events_decided_differently_change",
    ),
    Mutant(
        name="a part's sums are passed on without those that it kept",
        file="ops/replay/recorded/rows.py",
        text="                yield list(sums.values())\n                sums.clear()",
        becomes="                sums.clear()",
        found_by="tests/ops/replay/recorded/test_rows.py::test_sums_of_parts_are_bounded_and_sum_to_the_whole",
    ),
    Mutant(
        name="a window of a table begins with its first day, not with its first event",
        file="ops/replay/local/table.py",
        text='pa.scalar(since_ms, pa.timestamp("ms", "UTC"))',
        becomes='pa.scalar(0, pa.timestamp("ms", "UTC"))',
        found_by="tests/ops/replay/local/test_table.py::test_window_contains_the_events_since_its_begin",
    ),
    Mutant(
        name="a log of denials reports ACLs as unused",
        file="ops/replay/usage/evaluation.py",
        text="if not ingested.allowed_events:",
        becomes="if not ingested.events:",
        found_by="tests/ops/replay/usage/test_evaluation.py::test_log_with_denials_only_is_rejected",
    ),
    Mutant(
        name="an ACL that was added within the window is judged",
        file="ops/replay/usage/evaluation.py",
        text="if dated.added_ms < window.begins_ms else",
        becomes="if dated.added_ms < window.ends_ms else",
        found_by="tests/ops/replay/usage/test_evaluation.py::test_only_acls_older_than_the_window_are_judged",
    ),
    Mutant(
        name="a window of recorded events reads the days before it",
        file="ops/replay/recorded/spark.py",
        text='(sql.col("day") >= begins.cast("date")) & (sql.col("at") >= begins)',
        becomes='sql.col("at") >= begins',
        found_by="tests/ops/replay/usage/test_job.py::test_window_reads_only_its_own_days",
    ),
    Mutant(
        name="suggestions that would change answers are made",
        file="ops/replay/usage/suggestions.py",
        text="        if not reasons:\n",
        becomes="        if reasons or not reasons:\n",
        found_by="tests/ops/replay/usage/test_suggestions.py::test_breaking_suggestion_is_left_out_and_the_rest_proven",
    ),
    Mutant(
        name="suggestions are made although answers change for another reason",
        file="ops/replay/usage/suggestions.py",
        text="if None in reasons:",
        becomes="if None in reasons and not reasons:",
        found_by="tests/ops/replay/usage/test_suggestions.py::test_unexplained_difference_is_an_error",
    ),
    Mutant(
        name="an error does not name the damaged file of a table",
        file="ops/replay/local/table.py",
        text='raise TrafficError(f"--events: {file}: {error}") from error',
        becomes='raise TrafficError(f"--events: {error}") from error',
        found_by="tests/ops/replay/local/test_table.py::test_window_reads_only_its_own_days",
    ),
    Mutant(
        name="the local engine counts events before the window as use",
        file="ops/replay/local/tallies.py",
        text="            if at_ms < self._since_ms:\n                continue\n",
        becomes="",
        found_by="tests/ops/replay/local/test_usage.py::test_lookback_counts_only_events_of_the_window",
    ),
    Mutant(
        name="the local engine reports a log that grew meanwhile",
        file="ops/replay/local/traffic.py",
        text="if within.files != self._traffic.files:",
        becomes="if len(within.files) != len(self._traffic.files):",
        found_by="tests/ops/replay/local/test_usage.py::test_log_that_grows_during_a_lookback_is_refused",
    ),
    Mutant(
        name="the local engine accepts logs with too many unreadable lines",
        file="ops/replay/local/traffic.py",
        text="if not self.ingested.accepted:",
        becomes="if not self.ingested.lines:",
        found_by="tests/ops/replay/test_engines.py::test_unusable_logs_are_named_and_leave_no_result",
    ),
    Mutant(
        name="latency counts from the sending, not from the due time",
        file="ops/replay/load/lanes/lane.py",
        text="self._send(frame, due_ns if self._is_open else now_ns, now_ns)",
        becomes="self._send(frame, now_ns, now_ns)",
        found_by="tests/ops/replay/load/lanes/test_lane.py::test_frame_held_up_by_the_depth_counts_from_when_it_was_due",
    ),
    Mutant(
        name="the rounds of a load are all due in the first one",
        file="ops/replay/load/plan/frames.py",
        text="before = round_number * pacing.events",
        becomes="before = 0",
        found_by="tests/ops/replay/load/test_job.py::test_loops_are_rounds_of_the_record",
    ),
    Mutant(
        name="Spark may run the sending stage of a load again",
        file="ops/replay/load/lanes/stage.py",
        text='_ATTEMPTS: Final = ("spark.task.maxFailures", "spark.stage.maxConsecutiveAttempts")',
        becomes='_ATTEMPTS: Final = ("spark.task.maxFailures",)',
        found_by="tests/ops/replay/load/lanes/test_stage.py::test_settings_that_allow_a_second_attempt_are_rejected",
    ),
    Mutant(
        name="a load whose sending stage fails loses its plan",
        file="ops/replay/load/job.py",
        text="_report(plan, planned, _pack_again(spark, plan, planned))",
        becomes="_report(plan, planned, [])",
        found_by="tests/ops/replay/load/test_job.py::test_failed_sending_leaves_a_result_with_the_plan",
    ),
    Mutant(
        name="errors are left out of a load's latencies",
        file="ops/replay/load/lanes/tally.py",
        text="            served = 0\n",
        becomes="            return\n",
        found_by="tests/ops/replay/load/lanes/test_lane.py::test_error_counts_towards_the_latencies_but_not_as_served",
    ),
    Mutant(
        name="a load sends its token in clear although files for TLS are given",
        file="ops/replay/load/lanes/target.py",
        text="if given and not target.is_tls:",
        becomes="if False:",
        found_by="tests/ops/replay/load/test_checks.py::test_unusable_value_is_named",
    ),
    Mutant(
        name="a load does not check the host name of its target",
        file="ops/replay/load/lanes/connection.py",
        text="        return tls.wrap_socket(",
        becomes="        tls.check_hostname = False\n        return tls.wrap_socket(",
        found_by="tests/ops/replay/load/lanes/test_connection.py::test_target_with_tls_is_checked",
    ),
    Mutant(
        name="OpenSSL asks the terminal for a key's password",
        file="ops/replay/load/lanes/target.py",
        text=', password="")',
        becomes=", password=None)",
        found_by="tests/ops/replay/load/test_options.py::test_unusable_tls_file_is_named",
    ),
    Mutant(
        name="a worker judges equal ACLs by the super users of an earlier job",
        file="ops/replay/judging/index.py",
        text="users = sorted(self.settings.super_users)",
        becomes="users: list[str] = []",
        found_by="tests/ops/replay/judging/test_index.py::test_other_settings_are_another_index",
    ),
    Mutant(
        name="what a file grants and ACLs cannot is ignored without a word",
        file="ops/replay/acls/reading.py",
        text="if loss.acl is None:",
        becomes="if False:",
        found_by="tests/ops/replay/acls/test_reading.py"
        "::test_fault_is_one_line_with_source_and_place",
    ),
    Mutant(
        name="a log that adds an ACL twice is read",
        file="ops/replay/acls/log.py",
        text="if change.acl in bindings:",
        becomes="if False:",
        found_by="tests/ops/replay/acls/test_log.py::test_contradicting_changes_are_rejected",
    ),
    Mutant(
        name="a report says that nothing is newly denied, although requests were not evaluated",
        file="ops/replay/report/findings.py",
        text='Finding("whatif", "doubtful" if doubts else "good", text, notes)',
        becomes='Finding("whatif", "good", text, notes)',
        found_by="tests/ops/replay/report/test_findings.py"
        "::test_nothing_newly_denied_is_good_only_if_all_requests_were_evaluated",
    ),
    Mutant(
        name="a report shows one of two results of a kind",
        file="ops/replay/report/results.py",
        text="if kind in found:",
        becomes="if False:",
        found_by="tests/ops/replay/report/test_results.py"
        "::test_two_results_of_one_kind_are_rejected",
    ),
    Mutant(
        name="a damaged load.json makes a report compute a number with 2**53 bits",
        file="ops/replay/load/report.py",
        text="msgspec.Meta(le=bucket_of(2**63))",
        becomes="msgspec.Meta(le=2**63 - 1)",
        found_by="tests/ops/replay/report/test_results.py"
        "::test_impossible_figure_of_a_load_is_rejected",
    ),
    Mutant(
        name="a name in a report reorders the text around it",
        file="ops/replay/report/rendering.py",
        text="        return escape_unprintable(value)\n",
        becomes="        return value\n",
        found_by="tests/ops/replay/report/test_rendering.py"
        "::test_unprintable_characters_become_escape_sequences",
    ),
    Mutant(
        name="what a cut list lacks is certainly in one run only",
        file="ops/replay/report/differences.py",
        text="is_certain = not (was.details_left_out or now.details_left_out)",
        becomes="is_certain = not was.details_left_out",
        found_by="tests/ops/replay/report/test_differences.py::test_cut_list_makes_what_it_lacks_uncertain",
    ),
    Mutant(
        name="a figure that only the earlier run has is not compared",
        file="ops/replay/report/differences.py",
        text="for path in after | before:",
        becomes="for path in after:",
        found_by="tests/ops/replay/report/test_differences.py::test_figure_of_one_run_only_is_listed",
    ),
    Mutant(
        name="a log that ends below its checkpoint gives older ACLs",
        file="ops/replay/acls/log.py",
        text="if as_of is not None or (state.offset is not None and state.offset + 1 >= end_min):",
        becomes="if True:",
        found_by="tests/ops/replay/acls/test_log.py::test_log_that_ends_below_its_checkpoint_is_rejected",
    ),
    Mutant(
        name="a batch that Spark repeats after a crash is counted again",
        file="ops/replay/whatif/follow/batches.py",
        text="return place == 1\n",
        becomes="return True\n",
        found_by=f"{_FOLLOW_TESTS}/test_job.py::test_only_the_next_batch_is_added",
    ),
    Mutant(
        name="a watch whose checkpoint was removed skips records",
        file="ops/replay/whatif/follow/batches.py",
        text="not (place == 0 and is_counted)",
        becomes="place != 0",
        found_by=f"{_FOLLOW_TESTS}/test_job.py"
        "::test_batch_of_another_place_in_the_stream_is_rejected",
    ),
    Mutant(
        name="a malformed log-in reaches Java, which prints a part of it",
        file="ops/replay/topic_options.py",
        text="    if _JAAS in settings:",
        becomes="    if False:",
        found_by="tests/ops/replay/test_topics.py"
        "::test_faulty_client_settings_are_rejected_without_their_secrets",
    ),
    Mutant(
        name="the first signal ends a watch in the middle of a batch",
        file="ops/replay/submit/process.py",
        text="if received and stop_file is not None:",
        becomes="if False:",
        found_by="tests/ops/replay/submit/test_process.py"
        "::test_first_signal_lets_a_watch_end_by_itself",
    ),
    Mutant(
        name="a signal just before a wait for Spark is noticed at its end",
        file="ops/replay/submit/process.py",
        text="while (code := child.poll()) is None:",
        becomes="while (code := child.wait()) is None:",
        found_by="tests/ops/replay/submit/test_process.py"
        "::test_signal_that_interrupts_no_wait_is_noticed",
    ),
    Mutant(
        name="a job goes on after its command was killed",
        file="ops/replay/application.py",
        text="end_with_command(Path(path).with_name(LOCK_NAME))",
        becomes="end_with_command(Path(LOCK_NAME))",
        found_by="tests/ops/replay/submit/test_work_directory.py"
        "::test_job_ends_when_its_command_is_killed",
    ),
    Mutant(
        name="the plan of a killed command stays",
        file="ops/replay/submit/work_directory.py",
        text="    _remove_abandoned()\n",
        becomes="",
        found_by="tests/ops/replay/submit/test_work_directory.py"
        "::test_only_the_files_of_a_killed_command_are_removed",
    ),
    Mutant(
        name="a command removes the files of one that is still running",
        file="ops/replay/submit/work_directory.py",
        text=" and not is_held(path / LOCK_NAME):",
        becomes=":",
        found_by="tests/ops/replay/submit/test_work_directory.py"
        "::test_only_the_files_of_a_killed_command_are_removed",
    ),
    Mutant(
        name="a load without executors never ends",
        file="ops/replay/load/job.py",
        text="spark.interruptAll()",
        becomes="pass",
        found_by="tests/ops/replay/load/test_job.py::test_packing_again_has_a_time_limit",
    ),
)
