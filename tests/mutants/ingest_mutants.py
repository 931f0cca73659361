"""Mutants of replay's ingest: how it reads audit lines, and keeps a table of events."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_PLAIN: Final = "ops/replay/ingest/parse/plain_lines.py"
_PLAIN_TESTS: Final = "tests/ops/replay/ingest/parse/test_plain_lines.py"

INGEST_MUTANTS: Final = (
    Mutant(
        name="equal lines of two logs count once",
        file="ops/replay/ingest/contents.py",
        text=" and first.digest[:2] == expected else None",
        becomes=" else None",
        found_by="tests/ops/replay/ingest/test_contents.py::test_only_a_log_that_begins_with_all_of_another_shares_its_lines",
    ),
    Mutant(
        name="an ingest counts the lines of a log and of a table that has it",
        file="ops/replay/ingest/inputs.py",
        text="    if others:\n",
        becomes="    if not tables:\n",
        found_by="tests/ops/replay/ingest/test_inputs.py"
        "::test_table_is_not_mixed_with_what_it_may_contain",
    ),
    Mutant(
        name="a run counts whose tasks wrote to another directory",
        file="ops/replay/ingest/job.py",
        text="self._tuples[run].events != expected:",
        becomes="self._tuples[run].events < expected:",
        found_by="tests/ops/replay/ingest/test_job.py"
        "::test_run_whose_tasks_wrote_elsewhere_is_not_committed",
    ),
    Mutant(
        name="an ingest replaces the commit of another one",
        file="ops/replay/ingest/committing.py",
        text="        if path.exists():\n            return False\n",
        becomes="",
        found_by="tests/ops/replay/ingest/test_committing.py::test_commit_is_created_once",
    ),
    Mutant(
        name="a commit counts before its run is on the disk",
        file="ops/replay/ingest/committing.py",
        text='for name in (*names, ""):',
        becomes="for name in ():",
        found_by="tests/ops/replay/ingest/test_committing.py"
        "::test_run_and_commit_are_on_the_disk_before_the_commit_counts",
    ),
    Mutant(
        name="a log that has grown counts again",
        file="ops/replay/ingest/contents.py",
        text="return None if first is None else (shorter.rows, first)",
        becomes="return None",
        found_by="tests/ops/replay/ingest/test_contents.py::test_copies_of_growing_logs_count_each_line_once",
    ),
    Mutant(
        name="an ingest takes each error of Spark for a conflict",
        file="ops/replay/ingest/committing.py",
        text='if error.getCondition() != "PATH_ALREADY_EXISTS":',
        becomes="if not error:",
        found_by="tests/ops/replay/ingest/test_committing.py"
        "::test_other_error_of_spark_is_not_taken_for_a_conflict",
    ),
    Mutant(
        name="the damage of an archive is not reported",
        file="ops/replay/ingest/parse/logs.py",
        text="            self.is_damaged = True\n",
        becomes="",
        found_by="tests/ops/replay/ingest/parse/test_logs.py::test_damaged_archive_keeps_earlier_lines",
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
        text="(?:, {_FIELD})*[",
        becomes="(?:,? {_FIELD})*[",
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
        file="ops/replay/ingest/direct.py",
        text="if len(self._open) >= FILES_MAX:",
        becomes="if not FILES_MAX:",
        found_by="tests/ops/replay/ingest/test_direct.py::test_number_of_open_files_and_of_their_rows_is_bounded",
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
        text="if reader.texts is not sums.texts:",
        becomes="if False:",
        found_by="tests/ops/replay/ingest/test_direct.py"
        "::test_tasks_write_each_line_in_order_and_sum_up_the_events",
    ),
    Mutant(
        name="the line at the end of a piece of a file is lost",
        file="ops/replay/ingest/parse/logs.py",
        text="pieces, waiting = [line], len(line)",
        becomes="pieces, waiting = [], 0",
        found_by="tests/ops/replay/ingest/parse/test_logs.py"
        "::test_parts_of_a_file_give_each_line_once_or_its_beginning",
    ),
    Mutant(
        name="a line that is too long is shortened by another time format",
        file="ops/replay/ingest/parse/columns.py",
        text="compute.if_else(is_short, compute.add(begin_ms, after_ms), None)",
        becomes="compute.add(begin_ms, after_ms)",
        found_by="tests/ops/replay/ingest/parse/test_columns.py::test_hostile_line_is_read_like_any_other",
    ),
    Mutant(
        name="an event gets the first of two times in its line",
        file="ops/replay/ingest/parse/columns.py",
        text='compute.and_not(compute.match_substring_regex(new, f"^{REST}"), is_plain)',
        becomes="compute.invert(is_plain)",
        found_by="tests/ops/replay/ingest/parse/test_columns.py"
        "::test_lines_with_different_beginnings_stay_distinct",
    ),
    Mutant(
        name="a marker within a name is ignored",
        file="ops/replay/ingest/parse/kafka_line.py",
        text="if any(marker in fields for marker in MARKERS) or (has_caller and not rule):",
        becomes="if not MARKERS:",
        found_by="tests/ops/replay/ingest/parse/test_kafka_line.py::test_line_without_one_reading_is_set_aside",
    ),
    *(
        Mutant(
            name=f"a name of JSON is read as a line of Kafka's{where}",
            file="ops/replay/ingest/parse/kafka_line.py",
            text=r're.compile(r"\s*\{|.*?\{\s*\"", re.DOTALL)',
            becomes=f"re.compile({becomes!r}, re.DOTALL)",
            found_by="tests/ops/replay/ingest/parse/test_line.py"
            "::test_line_in_a_name_of_json_is_not_read",
        )
        for where, becomes in (("", "(?!)"), (" after a prefix", r"\s*\{"))
    ),
    *(
        Mutant(
            name=f"text after the message becomes part of {part}",
            file="ops/replay/ingest/parse/kafka_line.py",
            text=text,
            becomes=becomes,
            found_by="tests/ops/replay/ingest/parse/test_kafka_line.py"
            "::test_line_without_one_reading_is_set_aside",
        )
        for part, text, becomes in (
            ("a topic's name", "if kind == _TOPIC:", "if False:"),
            ("a group's name", "and _AFTER_NAMES.isdisjoint(name)", ""),
            ("a coloured name", "return name.isprintable() and", "return"),
            ("the rule", "_rule.fullmatch(ending) if count", "True if count"),
            ("the host", 'if " " in host:', "if not host:"),
        )
    ),
    *(
        Mutant(
            name=f"{what} is read as a whole name",
            file="ops/replay/ingest/parse/kafka_line.py",
            text="if not count and (names_request or name in PATTERN_TYPES):",
            becomes=f"if not count and {becomes}:",
            found_by=f"tests/ops/replay/ingest/parse/test_kafka_line.py::{found_by}",
        )
        for what, becomes, found_by in (
            (
                "the rest of a cut line",
                "name in PATTERN_TYPES",
                "test_cut_line_names_no_other_resource",
            ),
            ("a pattern type", "names_request", "test_line_without_one_reading_is_set_aside"),
        )
    ),
    *(
        Mutant(
            name=name,
            file=file,
            text=text,
            becomes=becomes,
            found_by=f"tests/ops/replay/ingest/parse/test_line.py::{found_by}",
        )
        for name, file, text, becomes, found_by in (
            (
                "one of two texts of a wrapper is read",
                "ops/replay/ingest/parse/wrapping.py",
                "if len(lines) > 1 and not lacks_field:",
                "if len(lines) > 2:",
                "test_only_one_known_text_of_a_wrapper_is_read",
            ),
            (
                "a text of an audit event is read as a line",
                "ops/replay/ingest/parse/wrapping.py",
                "return wrapper if wrapper.allowed is None else None",
                "return wrapper",
                "test_only_one_known_text_of_a_wrapper_is_read",
            ),
            (
                "a line without the named field counts",
                "ops/replay/ingest/parse/wrapping.py",
                "return Reason.NO_LINE_FIELD if lacks_field else text",
                "return text",
                "test_line_without_the_named_field_is_set_aside",
            ),
            (
                "a name in the event of a named field is read as a line",
                "ops/replay/ingest/parse/wrapping.py",
                "if field is not None and lacks_field else None",
                "if field is not None else None",
                "test_named_field_is_looked_up_only_once",
            ),
            (
                "a line in a field that was named gets its wrapper's time",
                "ops/replay/local/tallies.py",
                'if found is None or (found["utc"] and self._field is not None):',
                "if found is None:",
                "test_only_the_named_field_holds_a_line",
            ),
            (
                "a wrapper's time may hold a marker",
                "ops/replay/ingest/parse/wrapping.py",
                "and _time.fullmatch(each)",
                "",
                "test_only_one_known_text_of_a_wrapper_is_read",
            ),
            (
                "a decision with the text of an explanation in a name is left out",
                "ops/replay/ingest/parse/explanations.py",
                "any(marker in text for marker in (PRINCIPAL, *VERDICTS))",
                "not VERDICTS",
                "test_no_name_makes_a_decision_an_explanation",
            ),
            (
                "a name in JSON makes a line an explanation",
                "ops/replay/ingest/parse/explanations.py",
                '[^={{}}\\"]',
                "[^=]",
                "test_no_name_makes_a_decision_an_explanation",
            ),
            (
                "a part of an explanation counts as a complete one",
                "ops/replay/ingest/parse/explanations.py",
                "return PARTIAL.search(head.group(1)) is None",
                "return True",
                "test_no_name_makes_a_decision_an_explanation",
            ),
            (
                "an event that is not for a request to Kafka counts as one",
                "ops/replay/ingest/parse/cloud_event.py",
                " or not method.startswith(_METHOD)",
                "",
                "test_audit_event_of_confluent_is_read",
            ),
            (
                "a line that occurred before gets its wrapper's time",
                "ops/replay/local/tallies.py",
                '|"(?:log|message|line|_raw|result)"[ \\t]*:',
                "",
                "test_line_in_a_wrapper_is_read",
            ),
        )
    ),
    Mutant(
        name="a plain line counts although it lacks the named field",
        file="ops/replay/ingest/parse/columns.py",
        text='self._line_format != "json" and self._field is None',
        becomes='self._line_format != "json"',
        found_by="tests/ops/replay/ingest/parse/test_columns.py"
        "::test_plain_line_lacks_the_named_field",
    ),
    Mutant(
        name="a log without the named field is a log without traffic",
        file="ops/replay/ingest/report.py",
        text="return are_few and not lacks_field(ingested)",
        becomes="return are_few",
        found_by="tests/ops/replay/local/test_usage.py"
        "::test_log_without_the_named_field_is_not_a_log_without_traffic",
    ),
    Mutant(
        name="a plan passes by a log without the named field",
        file="ops/replay/local/evidence.py",
        text="    if lacks_field(ingested):",
        becomes="    if not ingested:",
        found_by="tests/cli/change/test_traffic.py::test_traffic_that_proves_nothing_is_rejected",
    ),
    Mutant(
        name="a part of a line from Docker counts as a complete line",
        file="ops/replay/ingest/parse/wrapping.py",
        text="(is_cut and line == wrapper.log)",
        becomes="False",
        found_by="tests/ops/replay/ingest/parse/test_line.py::test_partial_line_of_docker_is_set_aside",
    ),
    Mutant(
        name="a table that has lost files is read as complete",
        file="ops/replay/ingest/commit.py",
        text="if found != expected:",
        becomes="if found == 0:",
        found_by="tests/ops/replay/local/test_table.py::test_missing_events_of_a_run_that_ends_in_a_window_are_rejected",
    ),
    Mutant(
        name="the header of an xz file decides how much memory it takes",
        file="ops/replay/ingest/parse/logs.py",
        text="memlimit=XZ_MEMORY_MAX",
        becomes="memlimit=None",
        found_by="tests/ops/replay/ingest/parse/test_logs.py"
        "::test_xz_file_whose_dictionary_takes_gigabytes_is_not_unpacked",
    ),
    Mutant(
        name="a task cuts a line at the end of its part of a log",
        file="ops/replay/ingest/parse/logs.py",
        text="at, last = _find_line(file, begin), _find_line(file, end)",
        becomes="at, last = _find_line(file, begin), end",
        found_by="tests/ops/replay/ingest/parse/test_logs.py"
        "::test_parts_of_a_file_give_each_line_once_or_its_beginning",
    ),
    Mutant(
        name="events lose their order within a task",
        file="ops/replay/ingest/direct.py",
        text="begin = (self._task << _SEQUENCE_BITS) + self._lines",
        becomes="begin = self._task << _SEQUENCE_BITS",
        found_by="tests/ops/replay/ingest/test_direct.py"
        "::test_each_line_is_in_the_files_of_its_kind",
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
)
