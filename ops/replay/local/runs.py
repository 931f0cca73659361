"""Write the runs of an events table without Spark, and read them back.

**Invariant:** a run's directories are its own: no other run writes into them, and nothing reads
them before a commit names the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset

from authorizerd.replay.errors import JobError, NeedsSparkError
from authorizerd.replay.ingest.adding import TupleCount, Written, add
from authorizerd.replay.ingest.commit import Commit, Content, Input, Run, TableError
from authorizerd.replay.ingest.contents import First
from authorizerd.replay.ingest.delta import DataFile, list_local_files
from authorizerd.replay.ingest.grouping import HEAD, digest_rows, hash_head
from authorizerd.replay.ingest.inputs import collect, describe, sort_inputs
from authorizerd.replay.ingest.parse.hashes import RowHashes
from authorizerd.replay.ingest.records import NewRecords, Offsets
from authorizerd.replay.ingest.schemas import ASIDE
from authorizerd.replay.ingest.summary import BLANK, Group, group_of_level, merge_groups
from authorizerd.replay.local.files import find_input
from authorizerd.replay.local.parts import plan_tasks
from authorizerd.replay.local.sums import merge_parts, split_tuples, sum_file
from authorizerd.replay.local.table import find_events, list_events, read_tuples
from authorizerd.replay.local.writing import (
    ROWS_MAX,
    WRITTEN,
    Places,
    RunFiles,
    Work,
    write_parts,
)
from authorizerd.replay.options import is_uri
from authorizerd.replay.plain_files import LocalFiles
from authorizerd.replay.plans import IngestPlan, LineLayout
from authorizerd.replay.processes import CORES, do_tasks
from authorizerd.replay.recorded.parquet_files import FORMAT, create_parquet, open_parquet
from authorizerd.replay.topics import Topic

_FILE: Final = "file:"


class LocalRuns:
    """The runs in the directory of a table on this machine; see ``adding.Runs``."""

    def __init__(self, table: str) -> None:
        self.storage = LocalFiles()
        self.folder = Path(table)
        self._tuples: dict[str, list[pa.Table]] = {}  # the parts of those of a run just written

    def check(self, commit: Commit) -> None:
        try:
            for run in commit.runs:
                find_events(self.folder, run)
            read_tuples(self.folder, commit)
        except TableError as error:
            raise JobError(f"--out: {error}") from error

    def list_files(self, folder: str, /) -> Iterator[DataFile]:
        return list_local_files(folder)

    def find_inputs(self, inputs: Sequence[str]) -> tuple[Input, ...]:
        return find_inputs(inputs)

    def find_records(self, topics: Sequence[Topic], recorded: Offsets) -> list[NewRecords]:
        assert not topics, "only Spark reads topics"
        return []

    def write(
        self,
        run: str,
        salt: int,
        files: Sequence[Input],
        records: Sequence[NewRecords],
        layout: LineLayout,
    ) -> Written:
        assert not records, "only Spark reads topics"
        tasks = plan_tasks((Path(file.uri.removeprefix(_FILE)) for file in files), CORES)
        places = self._places(run)
        for place in places:
            place.mkdir(parents=True)
        works = [Work(number, parts, places, layout, salt) for number, parts in enumerate(tasks)]
        done = list(do_tasks(write_parts, works))
        self._tuples[run] = [part for each in done for part in each.tuples]
        groups = merge_groups(group for each in done for group in each.groups)
        return Written(groups, sum(each.files for each in done))

    def rewrite(self, old: str, new: str, cuts: Mapping[str, int], salt: int) -> Written:
        before = self._places(old)
        with closing(RunFiles(self._places(new), 0, salt)) as files:
            for rows in _read(before.aside, ASIDE):
                files.write_aside(_cut(rows, cuts))
            for rows in _read(before.events, WRITTEN):
                kept = _cut(rows, cuts)
                files.write_events(kept.append_column("day", kept["at"].cast(pa.date32())))
        return Written(merge_groups(files.groups), files.count)

    def read_first(self, content: Content, rows: int, salt: int) -> First:
        places = self._places(content.run)
        is_of_file = pc.field("file") == content.file
        columns = ["sequence", "hash"]
        events = dataset.dataset(places.events, WRITTEN, format=FORMAT)
        lines = dataset.dataset(places.aside, ASIDE, format=FORMAT)
        is_counted = is_of_file & (pc.field("reason") != BLANK)
        found = pa.concat_tables(
            [
                events.to_table(columns, filter=is_of_file),
                lines.to_table(columns, filter=is_counted),
            ]
        )
        first = found.take(pc.sort_indices(found, [("sequence", "ascending")])[:rows])
        end = first["sequence"][-1].as_py()
        last = events.to_table(list(HEAD), filter=pc.field("sequence") == end)
        head = hash_head(RowHashes(salt), last, 0) if last else None
        return First(digest_rows(first), end, head)

    def write_tuples(self, run: str, before: Commit) -> TupleCount:
        parts = self._tuples.get(run)
        if parts is None:
            files = self._places(run).events.glob("day=*/*.parquet")
            parts = list(map(sum_file, sorted(files)))
        return self._write_tuples(run, [*parts, *split_tuples(read_tuples(self.folder, before))])

    def write_kept(self, name: str, kept: Sequence[Run]) -> TupleCount:
        files = [file for run in kept for file in list_events(self.folder, run)]
        return self._write_tuples(name, map(sum_file, files))

    def group_kept(self, run: Run) -> list[Group]:
        return [group for file in list_events(self.folder, run) for group in _group_by_level(file)]

    def _write_tuples(self, run: str, parts: Iterable[pa.Table]) -> TupleCount:
        tuples = merge_parts(parts)
        folder = self.folder / "tuples" / f"run={run}"
        folder.mkdir(parents=True)
        for number, begin in enumerate(range(0, len(tuples), ROWS_MAX)):
            with create_parquet(folder / f"part-{number:05d}.parquet", tuples.schema) as file:
                file.write_table(tuples.slice(begin, ROWS_MAX))
        events = pc.add(pc.sum(tuples["allowed_events"]), pc.sum(tuples["denied_events"]))
        return TupleCount(len(tuples), events.as_py() or 0)

    def _places(self, run: str) -> Places:
        return Places(
            self.folder / "events" / f"run={run}", self.folder / "set_aside" / f"run={run}"
        )


def _group_by_level(file: Path) -> Iterator[Group]:
    """Yield the events of a file by level."""
    rows = open_parquet(file).read(["level", "allowed", "at"])
    rows = rows.set_column(2, "at", rows["at"].cast(pa.int64()))  # microseconds
    figures = [("allowed", "count"), ("allowed", "sum"), ("at", "min"), ("at", "max")]
    names = ["level", "allowed_count", "allowed_sum", "at_min", "at_max"]
    sums = rows.group_by("level").aggregate(figures).select(names)
    for level, count, allowed, first, last in zip(*sums.to_pydict().values(), strict=True):
        yield group_of_level(level, count, allowed, first // 1000, last // 1000)


def _read(folder: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the files in a directory of a run, in the order of their names."""
    for file in sorted(folder.rglob("*.parquet")):
        yield from open_parquet(file).iter_batches(columns=schema.names)


def _cut(rows: pa.RecordBatch, cuts: Mapping[str, int]) -> pa.RecordBatch:
    """Return the rows after those that ``cuts`` names."""
    file = rows["file"].dictionary_encode()
    ends = pa.array([cuts.get(name, -1) for name in file.dictionary.to_pylist()], pa.int64())
    return rows.filter(pc.greater(rows["sequence"], ends.take(file.indices)))


def find_inputs(inputs: Sequence[str]) -> tuple[Input, ...]:
    """Return the logs that paths, directories and globs match, each once.

    Raises:
        JobError: an input matches no file, or one that cannot be read.
        NeedsSparkError: an input is a URI, Parquet, or a glob with braces or brackets.
    """
    found = collect(inputs, lambda text: map(describe, find_input(text)))
    parquet_files = sort_inputs(found).parquet
    if parquet_files:
        name = parquet_files[0].removeprefix(_FILE)
        raise NeedsSparkError(f"{name}: expected an audit log, found Parquet")
    return found


def ingest(plan: IngestPlan) -> int:
    """Add the events of logs on this machine to a table; see ``add``.

    Raises:
        JobError: as ``add``.
        NeedsSparkError: this process cannot read an input, or write the table.
    """
    if plan.topics:
        raise NeedsSparkError(f"{plan.topics[0].uri}: topics are read by Spark")
    if is_uri(plan.out):
        raise NeedsSparkError(f"{plan.out}: expected a path on this machine, found a URI")
    try:
        return add(plan, LocalRuns(plan.out))
    except OSError as error:
        place = error.filename or f"--out: {plan.out}"
        raise JobError(f"{place}: {error.strerror or error}") from error
    except pa.ArrowException as error:  # only what an ingest wrote is read as Parquet
        raise JobError(
            f"--out: {error}: restore the file, or run ingest with --overwrite"
        ) from error
