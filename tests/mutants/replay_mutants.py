"""Mutants of the replay: how it reads audit lines, reports ACLs, and measures latency."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_PLAIN: Final = "ops/replay/ingest/parse/plain_lines.py"
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
        name="a program in the current folder lists the ACLs of a cluster",
        file="ops/replay/acls/live.py",
        text='(sys.executable, "-P", "-m",',
        becomes='(sys.executable, "-m",',
        found_by="tests/ops/replay/acls/test_live.py::test_folder_named_authorizerd_is_not_imported",
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
        name="a line that is too long is shortened by another time format",
        file="ops/replay/ingest/parse/columns.py",
        text="compute.if_else(is_long, None, ",
        becomes="compute.if_else(False, None, ",
        found_by="tests/ops/replay/ingest/parse/test_columns.py::test_hostile_line_is_read_like_any_other",
    ),
    Mutant(
        name="the local engine shortens a line that is too long",
        file="ops/replay/local/tallies.py",
        text="if found is None or len(line) > LENGTH_MAX:",
        becomes="if found is None:",
        found_by="tests/ops/replay/local/test_tallies.py::test_line_of_maximum_length_is_not_lengthened",
    ),
    Mutant(
        name="the local engine judges tuples that ACLs cannot decide",
        file="ops/replay/judging/asking.py",
        text='Condition(Unasked.INCOMPLETE, "resource_name", frozenset({None}), if_among=True),',
        becomes='Condition(Unasked.INCOMPLETE, "resource_name", frozenset(), if_among=True),',
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
        text="if isinstance(parsed, Event) and parsed.at_ms != at_ms:",
        becomes="if not beginning:",
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
        text="digest=digest_of(index.snapshot.acls.values()),",
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
        file="ops/replay/whatif/changes.py",
        text='pc.greater(compared["events"], 0)',
        becomes='pc.greater_equal(compared["events"], 0)',
        found_by="tests/ops/replay/whatif/test_changes.py::test_only_events_decided_differently_change",
    ),
    Mutant(
        name="a log of denials reports ACLs as unused",
        file="ops/replay/usage/window.py",
        text="if not ingested.allowed_events:",
        becomes="if not ingested.events:",
        found_by="tests/ops/replay/usage/test_window.py::test_log_with_denials_only_is_rejected",
    ),
    Mutant(
        name="an ACL that was added within the window is judged",
        file="ops/replay/usage/window.py",
        text="if dated.added_ms < window.begins_ms else",
        becomes="if dated.added_ms < window.ends_ms else",
        found_by="tests/ops/replay/usage/test_window.py::test_only_acls_older_than_the_window_are_judged",
    ),
    Mutant(
        name="a window of recorded events reads the days before it",
        file="ops/replay/usage/sums.py",
        text='(functions.col("day") >= begins.cast("date")) & (at >= begins)',
        becomes="at >= begins",
        found_by="tests/ops/replay/usage/test_job.py::test_window_reads_only_its_own_days",
    ),
    Mutant(
        name="suggestions that would change answers are made",
        file="ops/replay/usage/proving.py",
        text="        if whole is None:\n",
        becomes="        if whole is None or not is_last:\n",
        found_by="tests/ops/replay/usage/test_proving.py::test_breaking_suggestion_is_left_out_and_the_rest_proven",
    ),
    Mutant(
        name="latency counts from the sending, not from the due time",
        file="ops/replay/load/lanes/lane.py",
        text="self._send(frame, due_ns if self._rules.is_open else now_ns, now_ns)",
        becomes="self._send(frame, now_ns, now_ns)",
        found_by="tests/ops/replay/load/lanes/test_lane.py::test_frame_held_up_by_the_depth_counts_from_when_it_was_due",
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
        text="if given and not parse_target(plan.target, plan.surface).is_tls:",
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
)
