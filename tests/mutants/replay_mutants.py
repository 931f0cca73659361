"""Mutants of the replay: how it reads audit lines, reports ACLs, and measures latency."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_PLAIN: Final = "ops/replay/ingest/parse/plain_lines.py"
_FOLLOW_TESTS: Final = "tests/ops/replay/whatif/follow"
_PLAIN_TESTS: Final = "tests/ops/replay/ingest/parse/test_plain_lines.py"

REPLAY_MUTANTS: Final = (
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
        name="equal lines of two logs count once",
        file="ops/replay/ingest/contents.py",
        text="return (before, digest) if digest is not None and digest[:2] == expected else None",
        becomes="return None if digest is None else (before, digest)",
        found_by="tests/ops/replay/ingest/test_contents.py::test_only_a_log_that_begins_with_all_of_another_shares_its_lines",
    ),
    Mutant(
        name="an ingest counts the lines of a log and of a table that has it",
        file="ops/replay/ingest/inputs.py",
        text="    others = more + others\n    if others:",
        becomes="    others = more + others\n    if not tables:",
        found_by="tests/ops/replay/ingest/test_inputs.py"
        "::test_table_is_not_mixed_with_what_it_may_contain",
    ),
    Mutant(
        name="a run counts whose tasks wrote to another directory",
        file="ops/replay/ingest/job.py",
        text="if summed != read:",
        becomes="if read > summed:",
        found_by="tests/ops/replay/ingest/test_job.py"
        "::test_run_whose_tasks_wrote_elsewhere_is_not_committed",
    ),
    Mutant(
        name="an ingest replaces the commit of another one where there are no hard links",
        file="ops/replay/ingest/committing.py",
        text="        if path.exists():\n            return False\n        aside.rename(path)",
        becomes="        aside.rename(path)",
        found_by="tests/ops/replay/ingest/test_committing.py::test_commit_is_created_once",
    ),
    Mutant(
        name="a commit counts before its run is on the disk",
        file="ops/replay/ingest/committing.py",
        text='            _sync_below(table / part / f"run={run}")\n',
        becomes="",
        found_by="tests/ops/replay/ingest/test_committing.py"
        "::test_run_and_commit_are_on_the_disk_before_the_commit_counts",
    ),
    Mutant(
        name="a log that has grown counts again",
        file="ops/replay/ingest/contents.py",
        text="return None if digest is None else (shorter.rows, digest)",
        becomes="return None",
        found_by="tests/ops/replay/ingest/test_contents.py::test_copies_of_growing_logs_count_each_line_once",
    ),
    Mutant(
        name="a newer table is read by an older version",
        file="ops/replay/ingest/commit.py",
        text="if version > SCHEMA_VERSION:",
        becomes="if version < 0:",
        found_by="tests/ops/replay/ingest/test_commit.py::test_newer_schema_version_is_rejected",
    ),
    Mutant(
        name="a packed log from which bytes are missing counts as complete",
        file="ops/replay/ingest/packed.py",
        text='raise OSError(f"{self._left} bytes of the packed file are missing")',
        becomes="return 0",
        found_by="tests/ops/replay/ingest/test_packed.py::test_missing_bytes_are_damage",
    ),
    Mutant(
        name="a name with a space is read as a plain word",
        file=_PLAIN,
        text='_FIELD: Final = "[!-~]+"',
        becomes='_FIELD: Final = "[ -~]+"',
        found_by=f"{_PLAIN_TESTS}::test_name_with_a_blank_is_not_plain",
    ),
    Mutant(
        name="a marker within a rule is ignored",
        file=_PLAIN,
        text="(?:, {_FIELD})*)?",
        becomes="(?:,? {_FIELD})*)?",
        found_by=f"{_PLAIN_TESTS}::test_ambiguous_ending_is_not_plain",
    ),
    Mutant(
        name="a rule ends at a logger's name within it",
        file=_PLAIN,
        text='_TAIL, "")',
        becomes='_TAIL.rstrip("$"), "")',
        found_by=f"{_PLAIN_TESTS}::test_rule_ends_before_the_loggers_name",
    ),
    Mutant(
        name="a task of an ingest keeps a file open for every day",
        file="ops/replay/ingest/part_files.py",
        text="if len(self._open) >= FILES_MAX:",
        becomes="if not FILES_MAX:",
        found_by="tests/ops/replay/ingest/test_part_files.py::test_number_of_open_files_and_of_their_rows_is_bounded",
    ),
    Mutant(
        name="an ingest looks for the logs of an object store on this machine",
        file="ops/replay/ingest/direct.py",
        text="all(uri.startswith(_SCHEME) for uri in logs)",
        becomes="any(uri.startswith(_SCHEME) for uri in logs)",
        found_by="tests/ops/replay/ingest/test_direct.py"
        "::test_only_logs_of_this_machine_are_read_directly",
    ),
    Mutant(
        name="an ingest sums up numbers of texts that were forgotten",
        file="ops/replay/ingest/direct.py",
        text="if reader.is_full:",
        becomes="if False:",
        found_by="tests/ops/replay/ingest/test_direct.py"
        "::test_tasks_write_each_line_in_order_and_sum_up_the_events",
    ),
    Mutant(
        name="the line at the end of a piece of a file is lost",
        file="ops/replay/ingest/parse/line_arrays.py",
        text="at += complete",
        becomes="at += len(data)",
        found_by="tests/ops/replay/ingest/parse/test_line_arrays.py"
        "::test_parts_of_a_file_give_each_line_once_or_its_beginning",
    ),
    Mutant(
        name="a line that is too long is shortened by another time format",
        file="ops/replay/ingest/parse/columns.py",
        text="compute.if_else(is_long, None, ",
        becomes="compute.if_else(False, None, ",
        found_by="tests/ops/replay/ingest/parse/test_columns.py::test_hostile_line_is_read_like_any_other",
    ),
    Mutant(
        name="the local engine shortens a line that is too long",
        file="ops/replay/local/tallies.py",
        text="if len(line) <= KEPT_BYTES_MAX:",
        becomes="if line:",
        found_by="tests/ops/replay/local/test_tallies.py::test_line_of_maximum_length_is_not_lengthened",
    ),
    Mutant(
        name="tuples that ACLs cannot decide are judged",
        file="ops/replay/judging/asking.py",
        text="if None in (recorded.principal, recorded.resource_name):",
        becomes="if None in (recorded.principal,):",
        found_by="tests/ops/replay/judging/test_questions.py::test_undecidable_row_has_a_reason",
    ),
    Mutant(
        name="a removed ALLOW is not named as the reason of a denial",
        file="ops/replay/local/causes.py",
        text="removed = self._removed.find_deciding(question, allows=True)",
        becomes="removed = self._removed.find_of_resource(question)",
        found_by="tests/ops/replay/local/test_causes.py::test_causes_are_the_acls_that_decide",
    ),
    Mutant(
        name="the local engine takes the first of two times in a JSON line",
        file="ops/replay/local/tallies.py",
        text="if is_json and (",
        becomes="if not tail and (",
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
        text="digest=digest_of(index.acls),",
        becomes="digest=found.digest,",
        found_by="tests/cli/change/test_traffic.py::test_report_about_other_acls_is_rejected",
    ),
    Mutant(
        name="a plan that newly denies recorded requests does not break",
        file="cli/change/traffic.py",
        text="breaks=denied.events > 0,",
        becomes="breaks=denied.events < 0,",
        found_by="tests/cli/change/test_traffic.py::test_changes_are_shown_and_written",
    ),
    Mutant(
        name="a plan is judged on Spark with ACLs that it was not made for",
        file="ops/replay/acls/planned.py",
        text="if digest_acls(acls) != plan.made_for.digest:",
        becomes="if len(acls) > plan.made_for.acls:",
        found_by="tests/ops/replay/test_cli.py::test_whatif_rejects_a_plan_for_other_acls",
    ),
    Mutant(
        name="a marker within a name is ignored",
        file="ops/replay/ingest/parse/kafka_line.py",
        text="if any(marker in fields for marker in MARKERS):",
        becomes="if not MARKERS:",
        found_by="tests/ops/replay/ingest/parse/test_kafka_line.py::test_ambiguous_line_is_set_aside",
    ),
    Mutant(
        name="a part of a line from Docker counts as a complete line",
        file="ops/replay/ingest/parse/line.py",
        text='if not record.log.endswith("\\n"):',
        becomes="if not record.log:",
        found_by="tests/ops/replay/ingest/parse/test_line.py::test_partial_line_of_docker_is_set_aside",
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
        name="a table that has lost files is read as complete",
        file="ops/replay/ingest/commit.py",
        text="if found != expected:",
        becomes="if found == 0:",
        found_by="tests/ops/replay/local/test_table.py::test_missing_events_of_a_run_that_ends_in_a_window_are_rejected",
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
        text="_report(plan, planned, _pack_again(plan, planned))",
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
        name="the header of an xz file decides how much memory it takes",
        file="ops/replay/ingest/parse/archives.py",
        text="memlimit=XZ_MEMORY_MAX",
        becomes="memlimit=None",
        found_by="tests/ops/replay/ingest/parse/test_archives.py"
        "::test_xz_file_whose_dictionary_takes_gigabytes_is_not_unpacked",
    ),
    Mutant(
        name="a task cuts a line at the end of its part of a log",
        file="ops/replay/ingest/parse/line_arrays.py",
        text="at, last = _find_line(file, begin), _find_line(file, end)",
        becomes="at, last = _find_line(file, begin), end",
        found_by="tests/ops/replay/ingest/parse/test_line_arrays.py"
        "::test_parts_of_a_file_give_each_line_once_or_its_beginning",
    ),
    Mutant(
        name="events lose their order within a task",
        file="ops/replay/ingest/part_files.py",
        text="begin = (self._task << _SEQUENCE_BITS) + self._lines",
        becomes="begin = self._task << _SEQUENCE_BITS",
        found_by="tests/ops/replay/ingest/test_part_files.py"
        "::test_each_line_is_in_the_files_of_its_kind",
    ),
    Mutant(
        name="a worker judges equal ACLs by the super users of an earlier job",
        file="ops/replay/judging/index.py",
        text="is_open = self.settings.allow_everyone_if_no_acl_found",
        becomes="is_open = False",
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
        name="a record whose line the table has is not counted",
        file="ops/replay/ingest/topics.py",
        text=" if not content.file.startswith(topics))",
        becomes=")",
        found_by="tests/ops/replay/ingest/test_topics.py::test_contents_of_topics_are_not_compared",
    ),
    Mutant(
        name="an ingest goes on with a topic that was created again",
        file="ops/replay/ingest/topics.py",
        text="if end < begin:",
        becomes="if False:",
        found_by="tests/ops/replay/ingest/test_topics.py"
        "::test_topic_that_was_created_again_is_rejected",
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
        text="if _JAAS in settings and _LOG_IN.fullmatch(settings[_JAAS]) is None:",
        becomes="if False:",
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
)
