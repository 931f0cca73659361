"""Read audit logs, and add their events to a table.

**Invariant:** every line is an event, blank, or set aside with its reason. A run counts from the
moment its commit exists; before that, readers see the table as it was. Lines that the table already
has are not counted again.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from msgspec.structs import replace

from authorizerd.acl.audit.recorded.times import find_zone
from authorizerd.replay.errors import JobError
from authorizerd.replay.ingest.commit import (
    PARTS,
    Commit,
    Content,
    Input,
    Run,
    TableError,
    find_newest_commit,
    name_commit,
)
from authorizerd.replay.ingest.committing import (
    COMMITS_KEPT,
    conflict,
    create_commit,
    find_table,
    remove_unneeded,
    write_totals,
)
from authorizerd.replay.ingest.contents import First, Shared, match_contents
from authorizerd.replay.ingest.delta import DataFile, update_delta
from authorizerd.replay.ingest.expiry import expire, find_cut, find_kept
from authorizerd.replay.ingest.inputs import check_apart, check_sources
from authorizerd.replay.ingest.logs import merge_logs, name_log
from authorizerd.replay.ingest.records import NewRecords, Offsets
from authorizerd.replay.ingest.report import (
    DAMAGED,
    Log,
    add_up,
    added_line,
    are_readable,
    summary_line,
    why_not_accepted,
)
from authorizerd.replay.ingest.summary import Group, RunSummary, summarize
from authorizerd.replay.messages import EXIT_DONE, EXIT_FAULT
from authorizerd.replay.plain_files import Storage
from authorizerd.replay.plans import IngestPlan, LineLayout
from authorizerd.replay.text import format_count
from authorizerd.replay.topics import Topic

_FILES_NAMED_MAX: Final = 10
_FILES_A_DAY_MAX: Final = 8
_ROWS_A_FILE_MIN: Final = 100_000


class NotAcceptedError(JobError):
    """Too many lines of a run were set aside, so it was not added to the table."""


class TupleCount(NamedTuple):
    """The number of distinct tuples, and the number of events that they cover."""

    number: int
    events: int


class Written(NamedTuple):
    """The rows of a run in groups, and the number of its files of events."""

    groups: Sequence[Group]
    files: int


class Runs(Protocol):
    """Finds what an ingest reads, and writes and reads the runs of a table. All methods block.

    ``folder`` is the table's directory on this machine; None if only Spark reaches it.
    """

    @property
    def storage(self) -> Storage: ...

    @property
    def folder(self) -> Path | None: ...

    def check(self, commit: Commit) -> None:
        """Raise JobError if files of a live run are missing."""

    def find_inputs(self, inputs: Sequence[str]) -> tuple[Input, ...]:
        """Return the files that paths, directories, globs and URIs match, each once.

        Raises:
            JobError: an input matches no file, or one that cannot be read.
        """

    def find_records(self, topics: Sequence[Topic], recorded: Offsets) -> list[NewRecords]:
        """Return the new records of each topic.

        Raises:
            JobError: a topic cannot be read, or is not the topic that was read before.
        """

    def write(
        self,
        run: str,
        salt: int,
        files: Sequence[Input],
        records: Sequence[NewRecords],
        layout: LineLayout,
    ) -> Written:
        """Write the rows of files and records; ``salt`` is the key of their hashes."""

    def rewrite(self, old: str, new: str, cuts: Mapping[str, int], salt: int) -> Written:
        """Write the run ``old`` as ``new``, clustered by day.

        Args:
            cuts: the ``sequence`` of the last row of a file to leave out.
        """

    def read_first(self, content: Content, rows: int, salt: int) -> First:
        """Return the given number of leading rows of a content, from its run."""

    def write_tuples(self, run: str, before: Commit) -> TupleCount:
        """Write the tuples of a commit and of ``run``, and return their counts."""

    def write_kept(self, name: str, kept: Sequence[Run]) -> TupleCount:
        """Write the tuples of what has not expired of live runs, as those of a new run."""

    def list_files(self, folder: str, /) -> Iterable[DataFile]:
        """List the Parquet files in a run's directory and below."""

    def group_kept(self, run: Run) -> Sequence[Group]:
        """Return what has not expired of the events of a live run, by level."""


def add(plan: IngestPlan, runs: Runs) -> int:
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
    storage = runs.storage
    storage.check_creates(f"{plan.out}/commits/{name_commit(1)}")
    before = find_table(storage, plan.out, overwrite=plan.overwrite)
    found = runs.find_inputs(plan.inputs)
    check_apart(found, plan.out)
    topics = runs.find_records(plan.topics, before.offsets)
    known = set(before.inputs)
    files = [file for file in found if file not in known]
    records = [new for new in topics if not new.is_recorded]
    if not files and not records:
        runs.check(before)
        _write_derived(plan, runs, before)
        count = len(found) + len(topics)
        inputs = "the input" if count == 1 else f"all of the {count:,} inputs"
        print(f"nothing new: the table already has {inputs}")
        _expire(plan, runs, before)
        return EXIT_DONE
    check_sources(files, [new.name for new in records])
    partitions = (f"{new.name}/{partition}" for new in topics for partition in new.ends)
    names = [*(file.uri for file in found), *partitions]
    ingest = _Ingest(runs, plan, before, files, records, names)
    commit: Commit | None = None
    try:
        summary, shared = ingest.write()
        commit = ingest.make_commit(summary, shared)
        create_commit(storage, plan.out, commit, runs.folder)
    except NotAcceptedError as error:
        print(error, file=sys.stderr)
        return EXIT_FAULT
    except Exception as error:
        if commit is None:  # else it may exist, whatever failed
            with suppress(Exception):  # the next commit removes what remains
                ingest.discard_all()
        # The next commit of another ingest also removes the files of this one.
        newest = find_newest_commit(storage, plan.out)
        if newest is not None and newest.number > before.number and newest != commit:
            raise conflict(plan.out, before.number + 1) from error
        raise
    _write_derived(plan, runs, commit)
    remove_unneeded(storage, plan.out, commit, kept=1 if plan.overwrite else COMMITS_KEPT)
    _print(summary, shared, commit)
    _expire(plan, runs, commit)
    return EXIT_DONE


def _write_derived(plan: IngestPlan, runs: Runs, commit: Commit) -> None:
    """Write what other tools read of the newest commit."""
    write_totals(runs.storage, plan.out, commit)
    try:
        update_delta(runs.storage, plan.out, runs.list_files, is_wanted=plan.delta)
    except TableError as error:
        raise JobError(f"--out: {error}") from error


def _expire(plan: IngestPlan, runs: Runs, commit: Commit) -> None:
    """Remove the events before the plan's first day from the table, if there are any.

    Raises:
        JobError: events are missing, or another ingest has added a run in the meantime.
    """
    kept = commit.runs if plan.first_day is None else find_kept(commit, plan.first_day)
    if kept == commit.runs:
        return
    name = _name_run(commit)
    number, events = runs.write_kept(name, kept)
    groups = [(cut.id, group) for cut in find_cut(commit, kept) for group in runs.group_kept(cut)]
    after = expire(commit, kept, groups, name, number)
    if after.ingested.events != events:
        raise JobError(
            f"--out: {plan.out}: expected {after.ingested.events} events since {plan.first_day}, "
            f"found {events}: restore the missing files, or run ingest with --overwrite"
        )
    create_commit(runs.storage, plan.out, after, runs.folder)
    _write_derived(plan, runs, after)
    remove_unneeded(runs.storage, plan.out, after, kept=COMMITS_KEPT)
    expired = commit.ingested.events - events
    count = format_count(expired, "event")
    print(f"{count} before {plan.first_day} expired; left: {summary_line(after.ingested)}")


def _name_run(before: Commit) -> str:
    # A killed run with the same number may have left its directories behind.
    return f"{before.number + 1:08d}-{secrets.token_hex(4)}"


class _Ingest:
    """One ingest of ``files`` and ``records`` into the table whose newest commit is ``before``.

    ``found`` names all inputs, also those without anything new.
    """

    def __init__(
        self,
        runs: Runs,
        plan: IngestPlan,
        before: Commit,
        files: Sequence[Input],
        records: Sequence[NewRecords],
        found: Sequence[str],
    ) -> None:
        self._runs = runs
        self._found = found
        self._plan = plan
        self._before = before if before.salt else replace(before, salt=secrets.randbits(62) | 1)
        self._files = files
        self._records = records
        self._read: set[str] = set()
        self._written: list[str] = []

    def write(self) -> tuple[RunSummary, dict[str, Shared]]:
        """Write a run, and return it with the rows that were left out of each file.

        Raises:
            NotAcceptedError: too many lines were set aside.
        """
        run, salt, layout = self._begin_run(), self._before.salt, self._plan.layout
        written = self._runs.write(run, salt, self._files, self._records, layout)
        first = self._summarize(run, written)
        self._read = {content.file for content in first.contents}
        # Only files may be copies: records have offsets.
        topics = tuple(f"{new.name}/" for new in self._records)
        contents = (each for each in first.contents if not each.file.startswith(topics))
        first = first._replace(contents=tuple(contents))
        summary, shared = self._leave_out(first, written.files)
        ingested = summary.ingested
        if not are_readable(ingested, self._plan.bad_ratio_max):
            reason = why_not_accepted(ingested, self._plan.bad_ratio_max)
            raise NotAcceptedError(f"{reason}; see {self._plan.out}/set_aside/run={summary.run}")
        return summary, shared

    def _leave_out(self, first: RunSummary, files: int) -> tuple[RunSummary, dict[str, Shared]]:
        """Return the run without the rows that the table already has; it is rewritten if needed."""
        salt = self._before.salt

        def read_first(content: Content, rows: int) -> First:
            return self._runs.read_first(content, rows, salt)

        matches = match_contents(first.contents, self._before.contents, read_first)
        shared = {content.file: found for content, found in matches if found is not None}
        expected = len(first.days) * _FILES_A_DAY_MAX + first.ingested.events // _ROWS_A_FILE_MIN
        if not shared and files <= expected:
            return first, shared
        run = self._begin_run()
        cuts = {file: found.first.end for file, found in shared.items()}
        written = self._runs.rewrite(first.run, run, cuts, salt)
        self._discard(first.run)
        contents = []
        for content, found in matches:
            if found is None:
                contents.append(replace(content, run=run))
            elif found.rows < content.rows:
                skipped = {"skipped_rows": found.rows, "skipped_digest": found.first.digest}
                contents.append(replace(content, run=run, **skipped))
        return self._summarize(run, written)._replace(
            contents=tuple(contents), newest=first.newest
        ), shared

    def make_commit(self, summary: RunSummary, shared: Container[str]) -> Commit:
        """Write the tuples, and return the next commit; ``shared`` are files with known lines."""
        before, run, ingested = self._before, summary.run, summary.ingested
        runs, tuples_run, tuples = before.runs, before.tuples_run, before.ingested.tuples
        if ingested.events:
            tuples_run, tuples = run, self._write_tuples(summary)
        if ingested.lines:
            ingested = replace(ingested, tuples=tuples)
            runs = (*runs, Run(id=run, days=summary.days, ingested=ingested))
        else:
            self._discard(run)
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
                logs=self._find_logs(summary, shared),
            ),
        )

    def _find_logs(self, summary: RunSummary, shared: Container[str]) -> dict[str, Log]:
        """Return what is known of the logs; a copy of another log's lines tells nothing.

        A partition without events may have no broker, and Parquet has the logs that it names.
        """
        read = [uri for uri in self._found if not uri.endswith(".parquet")]
        with_events = set(map(name_log, summary.newest))
        newest: dict[str, int | None] = {
            file.uri: None
            for file in self._files
            if file.uri in read and name_log(file.uri) not in with_events
        }
        added = {content.file for content in summary.contents}
        newest |= {
            file: at_ms
            for file, at_ms in summary.newest.items()
            if file in added or file not in shared
        }
        return merge_logs(self._before.ingested.logs, read, newest)

    def _write_tuples(self, summary: RunSummary) -> int:
        """Write the tuples, and return their number.

        Raises:
            JobError: they do not cover the table's events.
        """
        run, read = summary.run, summary.ingested.events
        number, events = self._runs.write_tuples(run, self._before)
        if events != self._before.ingested.events + read:
            self._discard(run)
            raise JobError(
                f"--out: {self._plan.out}: expected the {read} events of events/run={run} in its "
                f"tuples, found {events - self._before.ingested.events}: check that nothing else "
                "writes there. The table is as it was"
            )
        return number

    def discard_all(self) -> None:
        """Remove the runs that were written: they may fill the disk."""
        for run in self._written:
            self._discard(run)

    def _begin_run(self) -> str:
        self._written.append(_name_run(self._before))
        return self._written[-1]

    def _discard(self, run: str) -> None:
        for part in PARTS:
            self._runs.storage.remove(f"{self._plan.out}/{part}/run={run}")

    def _summarize(self, run: str, written: Written) -> RunSummary:
        return summarize(run, written.groups, self._plan.layout.time_zone, self._plan.sources)


def _print(summary: RunSummary, left_out: Mapping[str, Shared], commit: Commit) -> None:
    for file, shared in islice(left_out.items(), _FILES_NAMED_MAX):
        source = "" if shared.file == file else f" from {shared.file}"
        print(f"left out {format_count(shared.rows, 'line')} of {file}: the table has them{source}")
    if len(left_out) > _FILES_NAMED_MAX:
        print(f"… and of {len(left_out) - _FILES_NAMED_MAX} more files")
    if len(commit.runs) > 1 or not summary.ingested.lines:
        print(added_line(summary.ingested))
    print(summary_line(commit.ingested))
    for file in summary.ingested.damaged:
        print(f"{file}: {DAMAGED}", file=sys.stderr)
