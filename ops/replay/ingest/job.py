"""The job of ``replay ingest``: read audit logs, and add their events to a table.

**Invariant:** every line is an event, blank, or set aside with its reason. A run counts from the
moment its commit exists; before that, readers see the table as it was. Lines that the table has
already do not count again.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from authorizerd.replay.ingest.commit import (
    Commit,
    Content,
    Input,
    Run,
)
from authorizerd.replay.ingest.committing import (
    COMMITS_KEPT,
    create_commit,
    explain_conflict,
    remove_unneeded,
    write_totals,
)
from authorizerd.replay.ingest.contents import Shared, match_contents
from authorizerd.replay.ingest.inputs import (
    check_apart,
    check_sources,
    find_inputs,
    sort_inputs,
)
from authorizerd.replay.ingest.parse.event import Reason
from authorizerd.replay.ingest.parse.line import LineFormat
from authorizerd.replay.ingest.parse.times import find_zone
from authorizerd.replay.ingest.report import add_up, added_line, summary_line, why_not_accepted
from authorizerd.replay.ingest.rows import read_rows
from authorizerd.replay.ingest.runs import Cut, Runs, RunSummary
from authorizerd.replay.ingest.sums import split_tuples, sum_by_rule, sum_tuples
from authorizerd.replay.ingest.table import Table, find_table, read_events
from authorizerd.replay.ingest.topics import (
    NewRecords,
    find_records,
    leave_out_topics,
    read_new_rows,
)
from authorizerd.replay.ingest.tuples import TUPLE
from authorizerd.replay.messages import EXIT_DONE, EXIT_FAULT
from authorizerd.replay.plans import IngestPlan
from authorizerd.replay.spark.errors import JobError
from authorizerd.replay.spark.failures import SPARK_ERRORS
from authorizerd.replay.spark.paths import escape_glob
from authorizerd.replay.spark.topics import RECORDS_DELETED, tells_of_loss

_SETTINGS: Final = {
    # With the default, a batch of lines of maximum length would take gigabytes.
    "spark.sql.execution.arrow.maxBytesPerBatch": "16m",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    # Write the days concurrently: sorting by day would cost more than parsing.
    "spark.sql.maxConcurrentOutputFileWriters": "64",
}
_FILES_NAMED_MAX: Final = 10
_ALL: Final = 2**63 - 1
"""Higher than each ``sequence``."""


class NotAcceptedError(JobError):
    """Too many lines of a run were set aside, so it was not added to the table."""


class _Fresh(NamedTuple):
    """What the table does not have yet."""

    files: list[Input]
    records: list[NewRecords]


class _Tuples(NamedTuple):
    """The number of all tuples of the table, and that of the events that they sum up."""

    number: int
    events: int


class _Written(NamedTuple):
    """A run that has been written: what it contains, and the content of each file that it read.

    ``tuples`` is None unless they were written with the run.
    """

    run: str
    summary: RunSummary
    contents: tuple[Content, ...]
    shared: dict[str, Shared]
    tuples: _Tuples | None = None


def run(spark: SparkSession, plan: IngestPlan) -> int:
    """Add the events of the plan's inputs to the table, and print what was added.

    Return 0, or 1 if too many lines were set aside; standard error names the reason.

    Raises:
        JobError: an input does not exist or cannot be read, ``out`` cannot be a table, or another
            ingest has added a run meanwhile.
    """
    try:
        find_zone(plan.time_zone)
    except ValueError as error:
        raise JobError(str(error)) from error
    found = find_table(spark, plan.out, overwrite=plan.overwrite)
    files = find_inputs(spark, plan.inputs)
    check_apart(files, plan.out)
    records = find_records(spark, plan.topics, found.commit.offsets)
    known = set(found.commit.inputs)
    fresh = _Fresh(
        [file for file in files if file not in known],
        [new for new in records if not new.is_recorded],
    )
    if not any(fresh):
        write_totals(spark, plan.out, found.commit)
        print(f"nothing new: the table has all of the {len(files) + len(records)} inputs already")
        return EXIT_DONE
    check_sources(fresh.files, [new.name for new in fresh.records])
    with _settings(spark):
        try:
            written, commit = _Ingest(spark, plan, found.commit).write(fresh)
        except NotAcceptedError as error:
            print(error, file=sys.stderr)
            return EXIT_FAULT
        except Exception as error:
            number = found.commit.number + 1
            # Another ingest may have removed what this one was reading.
            if find_table(spark, plan.out, overwrite=True).commit.number >= number:
                raise JobError(explain_conflict(plan.out, number)) from error
            raise
    create_commit(spark, plan.out, commit)
    write_totals(spark, plan.out, commit)
    remove_unneeded(spark, plan.out, commit, kept=1 if plan.overwrite else COMMITS_KEPT)
    _print(plan, written, commit)
    return EXIT_DONE


@contextmanager
def _settings(spark: SparkSession) -> Iterator[None]:
    before = {key: spark.conf.get(key) for key in _SETTINGS}
    for key, value in _SETTINGS.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, earlier in before.items():
            spark.conf.set(key, str(earlier))


class _Ingest:
    """One ingest into the table whose newest commit is ``before``."""

    def __init__(self, spark: SparkSession, plan: IngestPlan, before: Commit) -> None:
        self._spark = spark
        self._plan = plan
        self._before = before if before.salt else replace(before, salt=secrets.randbits(62) | 1)
        self._runs = Runs(spark, plan.out, self._before.salt)

    def write(self, fresh: _Fresh) -> tuple[_Written, Commit]:
        """Write a run, and return it with the commit that makes it count.

        Raises:
            NotAcceptedError: too many lines were set aside.
        """
        if self._before.runs and not self._before.number:  # a table of version 0
            self._before = self._carry_forward()
        written = self._leave_out(self._write(fresh))
        self._check_accepted(written)
        return written, self._commit(fresh, written)

    def _carry_forward(self) -> Commit:
        """Return the commit with the days and contents of the run of version 0."""
        (old,) = self._before.runs
        summary = self._runs.summarize(old.id, old.ingested.time_zone, old.ingested.inputs)
        run = replace(old, days=summary.days)
        return replace(self._before, runs=(run,), contents=summary.contents)

    def _write(self, fresh: _Fresh) -> _Written:
        run = self._new_run()
        line_format = msgspec.convert(self._plan.format, LineFormat)
        how = (line_format, self._plan.time_zone)
        added = None
        if not fresh.records:
            added = self._runs.write_directly(run, sort_inputs(fresh.files), *how)
        if added is None:
            self._write_on_spark(run, fresh, *how)
        tuples = None if added is None else self._write_tuples(run, added)
        summary = self._summarize(run)
        if tuples is not None:
            self._check_sums(run, tuples, summary)
        contents = leave_out_topics(summary.contents, fresh.records)
        return _Written(run, summary, contents, {}, tuples)

    def _check_sums(self, run: str, tuples: _Tuples, summary: RunSummary) -> None:
        """Check that the rows of the run are those that its tasks have summed up.

        Raises:
            JobError: tasks wrote elsewhere, or something else changed the run's files.
        """
        summed, read = tuples.events - self._before.ingested.events, summary.ingested.events
        if summed != read:
            self._runs.discard(run)
            raise JobError(
                f"--out: {self._plan.out}: expected the {summed} events that the tasks have read, "
                f"found {read} in events/run={run}: check that all tasks run on this machine, and "
                "that nothing else writes there. The table is as it was"
            )

    def _write_on_spark(
        self, run: str, fresh: _Fresh, line_format: LineFormat, time_zone: str
    ) -> None:
        how = (line_format, time_zone)
        parts = [read_new_rows(self._spark, new, *how) for new in fresh.records]
        if fresh.files:
            parts.append(read_rows(self._spark, sort_inputs(fresh.files), *how))
        try:
            self._runs.write(run, reduce(DataFrame.unionByName, parts))
        except SPARK_ERRORS as error:
            if tells_of_loss(error):
                raise JobError(RECORDS_DELETED) from error
            raise

    def _leave_out(self, first: _Written) -> _Written:
        """Return the run without the rows that the table has; it is written again if needed."""
        matches = match_contents(first.contents, self._before.contents, self._runs.digest_first)
        shared = {content.file: found for content, found in matches if found is not None}
        if not shared and not self._runs.is_scattered(first.run, first.summary):
            return first
        run = self._new_run()
        cuts = {
            content.file: self._cut(content, found)
            for content, found in matches
            if found is not None
        }
        self._runs.rewrite(first.run, run, cuts)
        self._runs.discard(first.run)
        contents = tuple(
            _continue(content, run, found)
            for content, found in matches
            if found is None or found.rows < content.rows
        )
        return _Written(run, self._summarize(run), contents, shared)

    def _cut(self, content: Content, shared: Shared) -> Cut:
        """Return what to leave out of a file."""
        if shared.rows == content.rows:
            return Cut(_ALL, _ALL)
        end = self._runs.end_of(content, shared.rows)
        if not shared.blank_lines:
            return Cut(end, end)
        # Those between the last shared row and the first further one.
        return Cut(end, max(end, self._runs.end_of_blank(content, shared.blank_lines)))

    def _check_accepted(self, written: _Written) -> None:
        """Raise an error if too many lines were set aside."""
        ingested = written.summary.ingested
        # Multiply instead of dividing, because there may be no lines.
        if ingested.set_aside > self._plan.bad_ratio_max * ingested.lines:
            reason = why_not_accepted(ingested, self._plan.bad_ratio_max)
            raise NotAcceptedError(f"{reason}; see {self._plan.out}/set_aside/run={written.run}")

    def _commit(self, fresh: _Fresh, written: _Written) -> Commit:
        """Write the tuples, and return the next commit."""
        before, ingested = self._before, written.summary.ingested
        runs, tuples_run, tuples = before.runs, before.tuples_run, before.ingested.tuples
        if ingested.events:
            tuples_run = written.run
            tuples = self._count_tuples(written)
        if ingested.lines:
            ingested = replace(ingested, tuples=tuples)
            runs = (*runs, Run(id=written.run, days=written.summary.days, ingested=ingested))
        else:
            self._runs.discard(written.run)
        read = {file.uri for file in fresh.files}
        return Commit(
            number=before.number + 1,
            salt=before.salt,
            runs=runs,
            tuples_run=tuples_run,
            inputs=(*(file for file in before.inputs if file.uri not in read), *fresh.files),
            contents=(*before.contents, *written.contents),
            offsets=before.offsets | {new.name: new.ends for new in fresh.records},
            ingested=add_up([run.ingested for run in runs] or [ingested], tuples),
        )

    def _count_tuples(self, written: _Written) -> int:
        """Write the tuples unless they were written with the run, and return their number."""
        if written.tuples is not None:
            return written.tuples.number
        events = read_events(self._spark, self._plan.out, [written.run])
        return self._write_tuples(written.run, sum_by_rule(events)).number

    def _write_tuples(self, run: str, added: DataFrame) -> _Tuples:
        """Write the tuples of the table and of ``added``, and return their figures."""
        out = self._plan.out
        earlier = split_tuples(Table(self._spark, out, self._before).tuples())
        merged = sum_tuples(added.unionByName(earlier).repartition(*TUPLE))
        merged.write.parquet(f"{out}/tuples/run={run}")
        events = sql.col("allowed_events") + sql.col("denied_events")
        figures = sql.count(sql.lit(1)), sql.coalesce(sql.sum(events), sql.lit(0))
        written = self._spark.read.parquet(escape_glob(f"{out}/tuples/run={run}"))
        ((number, summed),) = written.agg(*figures).collect()
        return _Tuples(number, summed)

    def _new_run(self) -> str:
        # A killed run of the same number may have left its directories.
        return f"{self._before.number + 1:08d}-{secrets.token_hex(4)}"

    def _summarize(self, run: str) -> RunSummary:
        return self._runs.summarize(run, self._plan.time_zone, self._plan.sources)


def _continue(content: Content, run: str, shared: Shared | None) -> Content:
    """Return the content whose rows, after those that count already, are in ``run``."""
    if shared is None:
        return replace(content, run=run)
    return replace(content, run=run, skipped_rows=shared.rows, skipped_digest=shared.digest)


def _print(plan: IngestPlan, written: _Written, commit: Commit) -> None:
    for number, (file, shared) in enumerate(written.shared.items()):
        if number == _FILES_NAMED_MAX:
            print(f"… and of {len(written.shared) - number} more files")
            break
        print(f"left out {shared.rows} lines of {file}: the table has them of {shared.file}")
    if len(commit.runs) > 1 or not written.summary.ingested.lines:
        print(added_line(written.summary.ingested))
    print(summary_line(commit.ingested))
    if Reason.BROKEN_ARCHIVE in written.summary.ingested.reasons:
        place = f"{plan.out}/set_aside/run={written.run}"
        print(f"an archive is damaged, so events are missing: see {place}", file=sys.stderr)
