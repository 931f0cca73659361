"""The job of ``replay ingest``: read audit logs, and add their events to a table.

**Invariant:** every line is an event, blank, or set aside with its reason. A run counts from the
moment its commit exists; before that, readers see the table as it was. Lines that the table already
has are not counted again.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Mapping, Sequence
from functools import partial, reduce
from itertools import islice
from typing import Final, NamedTuple

from msgspec.structs import replace
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from authorizerd.acl.audit.recorded.times import find_zone
from authorizerd.replay.ingest.commit import Commit, Input, Run, TableError
from authorizerd.replay.ingest.committing import (
    COMMITS_KEPT,
    check_commits,
    create_commit,
    remove_unneeded,
    write_totals,
)
from authorizerd.replay.ingest.contents import Shared, match_contents
from authorizerd.replay.ingest.delta import update_delta
from authorizerd.replay.ingest.inputs import check_apart, check_sources, find_inputs, sort_inputs
from authorizerd.replay.ingest.report import (
    DAMAGED,
    add_up,
    added_line,
    are_readable,
    summary_line,
    why_not_accepted,
)
from authorizerd.replay.ingest.rows import read_rows
from authorizerd.replay.ingest.runs import Runs, RunSummary
from authorizerd.replay.ingest.sums import make_parts, split_tuples, sum_tuples
from authorizerd.replay.ingest.table import Table, find_table, list_data_files, read_events
from authorizerd.replay.ingest.topics import (
    NewRecords,
    find_records,
    leave_out_topics,
    read_new_rows,
)
from authorizerd.replay.messages import EXIT_DONE, EXIT_FAULT
from authorizerd.replay.plans import IngestPlan
from authorizerd.replay.spark.errors import JobError
from authorizerd.replay.spark.failures import SPARK_ERRORS
from authorizerd.replay.spark.listing import escape_glob
from authorizerd.replay.spark.storage import open_storage
from authorizerd.replay.spark.topics import RECORDS_DELETED, tells_of_loss

_FILES_NAMED_MAX: Final = 10


class NotAcceptedError(JobError):
    """Too many lines of a run were set aside, so it was not added to the table."""


class _Tuples(NamedTuple):
    """The number of all tuples of the table, and the number of events that they cover."""

    number: int
    events: int


def run(spark: SparkSession, plan: IngestPlan) -> int:
    """Add the events of the plan's inputs to the table, and print what was added.

    Return 0, or 1 if too many lines were set aside; standard error names the reason.

    Raises:
        JobError: an input does not exist or cannot be read, ``out`` cannot be a table, or another
            ingest has added a run in the meantime.
    """
    try:
        find_zone(plan.layout.time_zone)
    except ValueError as error:
        raise JobError(str(error)) from error
    check_commits(spark, plan.out)
    table = find_table(spark, plan.out, overwrite=plan.overwrite)
    before = table.commit
    found = find_inputs(spark, plan.inputs)
    check_apart(found, plan.out)
    topics = find_records(spark, plan.topics, before.offsets)
    known = set(before.inputs)
    files = [file for file in found if file not in known]
    records = [new for new in topics if not new.is_recorded]
    if not files and not records:
        table.check()
        _write_derived(spark, plan, before)
        count = len(found) + len(topics)
        inputs = "the input" if count == 1 else f"all of the {count:,} inputs"
        print(f"nothing new: the table already has {inputs}")
        return EXIT_DONE
    check_sources(files, [new.name for new in records])
    ingest = _Ingest(spark, plan, before, files, records)
    try:
        summary, shared = ingest.write()
        commit = ingest.make_commit(summary)
    except NotAcceptedError as error:
        print(error, file=sys.stderr)
        return EXIT_FAULT
    create_commit(spark, plan.out, commit)
    _write_derived(spark, plan, commit)
    remove_unneeded(spark, plan.out, commit, kept=1 if plan.overwrite else COMMITS_KEPT)
    _print(summary, shared, commit)
    return EXIT_DONE


def _write_derived(spark: SparkSession, plan: IngestPlan, commit: Commit) -> None:
    """Write what other tools read of the newest commit."""
    write_totals(spark, plan.out, commit)
    try:
        storage, list_files = open_storage(spark, plan.out), partial(list_data_files, spark)
        update_delta(storage, plan.out, list_files, is_wanted=plan.delta)
    except TableError as error:
        raise JobError(f"--out: {error}") from error


class _Ingest:
    """One ingest of ``files`` and ``records`` into the table whose newest commit is ``before``."""

    def __init__(
        self,
        spark: SparkSession,
        plan: IngestPlan,
        before: Commit,
        files: Sequence[Input] = (),
        records: Sequence[NewRecords] = (),
    ) -> None:
        self._spark = spark
        self._plan = plan
        self._before = before if before.salt else replace(before, salt=secrets.randbits(62) | 1)
        self._files = files
        self._records = records
        self._runs = Runs(spark, plan.out, self._before.salt)
        self._tuples: dict[str, _Tuples] = {}  # by the run that wrote them
        self._read: set[str] = set()

    def write(self) -> tuple[RunSummary, dict[str, Shared]]:
        """Write a run, and return it with the rows that were left out of each file.

        Raises:
            NotAcceptedError: too many lines were set aside.
        """
        summary, shared = self._leave_out(self._write())
        ingested = summary.ingested
        if not are_readable(ingested, self._plan.bad_ratio_max):
            reason = why_not_accepted(ingested, self._plan.bad_ratio_max)
            raise NotAcceptedError(f"{reason}; see {self._plan.out}/set_aside/run={summary.run}")
        return summary, shared

    def _write(self) -> RunSummary:
        run = self._new_run()
        layout, inputs = self._plan.layout, sort_inputs(self._files)
        added = None if self._records else self._runs.write_directly(run, inputs, layout)
        if added is None:
            parts = [read_new_rows(self._spark, new, layout) for new in self._records]
            if self._files:
                parts.append(read_rows(self._spark, inputs, layout))
            try:
                self._runs.write(run, reduce(DataFrame.unionByName, parts))
            except SPARK_ERRORS as error:
                if tells_of_loss(error):
                    raise JobError(RECORDS_DELETED) from error
                raise
        else:
            self._tuples[run] = self._write_tuples(run, added)
        summary = self._summarize(run)
        self._check_sums(summary)
        self._read = {content.file for content in summary.contents}
        contents = leave_out_topics(summary.contents, self._records)
        return summary._replace(contents=contents)

    def _check_sums(self, summary: RunSummary) -> None:
        """Check that the run contains the rows that its tasks have summed up."""
        run, read = summary.run, summary.ingested.events
        expected = self._before.ingested.events + read
        if run in self._tuples and self._tuples[run].events != expected:
            summed = self._tuples[run].events - self._before.ingested.events
            self._runs.discard(run)
            raise JobError(
                f"--out: {self._plan.out}: expected the {summed} events that the tasks read, found "
                f"{read} in events/run={run}: check that all tasks run on this machine, and "
                "that nothing else writes there. The table is as it was"
            )

    def _leave_out(self, first: RunSummary) -> tuple[RunSummary, dict[str, Shared]]:
        """Return the run without the rows that the table already has; it is rewritten if needed."""
        matches = match_contents(first.contents, self._before.contents, self._runs.read_first)
        shared = {content.file: found for content, found in matches if found is not None}
        if not shared and not self._runs.is_scattered(first):
            return first, shared
        run = self._new_run()
        self._runs.rewrite(
            first.run, run, {file: found.first.end for file, found in shared.items()}
        )
        contents = []
        for content, found in matches:
            if found is None:
                contents.append(replace(content, run=run))
            elif found.rows < content.rows:
                skipped = {"skipped_rows": found.rows, "skipped_digest": found.first.digest}
                contents.append(replace(content, run=run, **skipped))
        return self._summarize(run)._replace(contents=tuple(contents)), shared

    def make_commit(self, summary: RunSummary) -> Commit:
        """Write the tuples unless they were written with the run, and return the next commit."""
        before, run, ingested = self._before, summary.run, summary.ingested
        runs, tuples_run, tuples = before.runs, before.tuples_run, before.ingested.tuples
        if ingested.events:
            if run not in self._tuples:
                events = read_events(self._spark, self._plan.out, [run])
                self._tuples[run] = self._write_tuples(run, make_parts(events))
            tuples_run, tuples = run, self._tuples[run].number
        if ingested.lines:
            ingested = replace(ingested, tuples=tuples)
            runs = (*runs, Run(id=run, days=summary.days, ingested=ingested))
        else:
            self._runs.discard(run)
        read = {file.uri for file in self._files}
        return Commit(
            number=before.number + 1,
            salt=before.salt,
            runs=runs,
            tuples_run=tuples_run,
            inputs=(*(file for file in before.inputs if file.uri not in read), *self._files),
            contents=(*before.contents, *summary.contents),
            offsets=before.offsets | {new.name: new.ends for new in self._records},
            ingested=replace(
                add_up([run.ingested for run in runs] or [ingested], tuples),
                # A damaged archive may have been replaced by an intact one.
                damaged=(*sorted({*before.ingested.damaged} - self._read), *ingested.damaged),
            ),
        )

    def _write_tuples(self, run: str, added: DataFrame) -> _Tuples:
        """Write the tuples of the table and of ``added``, and return their counts."""
        out = self._plan.out
        earlier = split_tuples(Table(self._spark, out, self._before).tuples())
        merged = sum_tuples(added.unionByName(earlier))
        merged.write.parquet(f"{out}/tuples/run={run}")
        events = sql.col("allowed_events") + sql.col("denied_events")
        figures = sql.count(sql.lit(1)), sql.coalesce(sql.sum(events), sql.lit(0))
        written = self._spark.read.parquet(escape_glob(f"{out}/tuples/run={run}"))
        ((number, summed),) = written.agg(*figures).collect()
        return _Tuples(number, summed)

    def _new_run(self) -> str:
        # A killed run with the same number may have left its directories behind.
        return f"{self._before.number + 1:08d}-{secrets.token_hex(4)}"

    def _summarize(self, run: str) -> RunSummary:
        return self._runs.summarize(run, self._plan.layout.time_zone, self._plan.sources)


def _print(summary: RunSummary, left_out: Mapping[str, Shared], commit: Commit) -> None:
    for file, shared in islice(left_out.items(), _FILES_NAMED_MAX):
        print(f"left out {shared.rows} lines of {file}: the table has them from {shared.file}")
    if len(left_out) > _FILES_NAMED_MAX:
        print(f"… and of {len(left_out) - _FILES_NAMED_MAX} more files")
    if len(commit.runs) > 1 or not summary.ingested.lines:
        print(added_line(summary.ingested))
    print(summary_line(commit.ingested))
    for file in summary.ingested.damaged:
        print(f"{file}: {DAMAGED}", file=sys.stderr)
