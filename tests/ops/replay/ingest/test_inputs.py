"""The files of an ingest, and the lines that they share with files of earlier runs."""

import os
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from authorizerd.replay.errors import JobError, TrafficError
from authorizerd.replay.ingest.commit import NO_ROWS, Content, Digest, Input
from authorizerd.replay.ingest.contents import ALL, First, add_digests, match_contents, split_hash
from authorizerd.replay.ingest.inputs import check_sources
from authorizerd.replay.local.files import find_logs
from authorizerd.replay.local.runs import find_inputs


def test_pipe_is_rejected_instead_of_read_as_empty(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.log")
    for text in (f"{tmp_path}/pipe.log", str(tmp_path)):
        with pytest.raises(JobError, match=r"/pipe\.log: expected a regular file"):
            find_inputs((text,))


def test_unreadable_file_of_a_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken.log").symlink_to("nowhere")
    with pytest.raises(JobError, match=r"/broken\.log: No such file or directory"):
        find_inputs((str(tmp_path),))


def test_name_that_is_not_utf_8_is_rejected_before_the_ingest(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.log")).touch()
    for find, error in ((find_inputs, JobError), (find_logs, TrafficError)):
        with pytest.raises(error, match="/caf\udce9\\.log: expected a name in UTF-8"):
            find((str(tmp_path),))


def test_link_to_a_directory_above_lists_no_file_twice(tmp_path: Path) -> None:
    (tmp_path / "logs" / "old").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    for file in ("logs/a.log", "elsewhere/b.log"):
        (tmp_path / file).touch()
    (tmp_path / "logs" / "old" / "loop").symlink_to(tmp_path / "logs")
    (tmp_path / "logs" / "more").symlink_to(tmp_path / "elsewhere")
    found = [file.uri for file in find_inputs((str(tmp_path / "logs"),))]
    assert found == [f"file:{tmp_path}/logs/{name}" for name in ("a.log", "more/b.log")]


def test_hidden_file_named_directly_is_an_error(tmp_path: Path) -> None:
    hidden = [tmp_path / name for name in ("_a.log", ".a.log", "a.log._COPYING_")]
    for file in (*hidden, tmp_path / "b.log"):
        file.touch()
    for file in hidden:
        with pytest.raises(JobError, match="no files found"):
            find_inputs((str(tmp_path / "b.log"), str(file)))
    for text in (f"{tmp_path}/*", str(tmp_path)):
        assert [file.uri for file in find_inputs((text,))] == [f"file:{tmp_path}/b.log"]


NEW, OLD = (
    "file:/t/events/run=00000001-a/day=2026-11-21/a.parquet",
    "s3://b/u/events/run=00000001-b/day=1/a.parquet",
)
LOG, OTHER_TOOL, TOPIC = "file:/logs/a.log", "file:/events/a.parquet", "kafka://h:1/audit"


@pytest.mark.parametrize(("uris", "topics", "found"), [
    ((NEW, LOG), (), f"file:/t: .*found {LOG}"),
    ((LOG, OLD, f"{LOG}.gz"), (), f"s3://b/u: .*found {LOG}"),
    ((NEW, OLD), (), "file:/t: .*found s3://b/u"),
    ((NEW,), (TOPIC,), f"file:/t: .*found {TOPIC}"),
    ((NEW, NEW.replace("run=00000001", "run=00000002"), OTHER_TOOL), (), None),
    ((LOG, f"{LOG}.gz", OTHER_TOOL), (TOPIC,), None),
])  # fmt: skip
def test_table_is_not_mixed_with_what_it_may_contain(
    uris: tuple[str, ...], topics: tuple[str, ...], found: str | None
) -> None:
    files = [Input(uri=uri, bytes=1, modified_ms=1) for uri in uris]
    raised = nullcontext() if found is None else pytest.raises(JobError, match=found)
    with raised:
        check_sources(files, topics)


Rows = list[int]


def digest_of(rows: Rows) -> Digest:
    """Return the digest of rows."""
    digest = NO_ROWS
    for row in rows:
        digest = add_digests(digest, split_hash(row))
    return digest


def head_of(row: int) -> int | None:
    """Return the beginning of a row, its last digits; None if it was set aside."""
    return row % 100 if row >= 0 else None


class Model:
    """A table whose rows are their own hashes; negative rows are lines that were set aside."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], Rows] = {}
        self._recorded: list[Content] = []

    @property
    def rows(self) -> Counter[int]:
        return Counter(row for rows in self._rows.values() for row in rows)

    def ingest(self, logs: dict[str, Rows]) -> None:
        """Add a run that reads ``logs``."""
        run = f"run{len(self._rows)}"
        read = [
            Content(
                file=file, rows=len(rows), digest=digest_of(rows),
                first=next((row % 100 for row in rows if row >= 0), None),
                last=rows[-1], last_head=head_of(rows[-1]), run=run,
            )
            for file, rows in logs.items()
        ]  # fmt: skip
        self._rows |= {(run, file): rows for file, rows in logs.items()}
        for content, shared in match_contents(read, self._recorded, self._read_first):
            left_out = shared.rows if shared else 0
            assert shared is None or shared.first.end in (left_out - 1, ALL)
            of_file = self._rows[run, content.file] = logs[content.file][left_out:]
            if of_file:
                digest = shared.first.digest if shared else NO_ROWS
                self._recorded.append(
                    replace(content, skipped_rows=left_out, skipped_digest=digest)
                )

    def _read_first(self, content: Content, rows: int) -> First:
        first = self._rows[content.run, content.file][:rows]
        return First(digest_of(first), rows - 1, head_of(first[-1]))


# Three logs whose first lines differ, and which have lines in common.
LOGS = [[1, *range(10, 20)], [2, *range(10, 25)], [3, 3, 3, *range(15, 18)]]
runs = st.lists(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 16)), min_size=1, max_size=4),
    min_size=1,
    max_size=5,
)


@given(runs)
def test_copies_of_growing_logs_count_each_line_once(copies: list[list[tuple[int, int]]]) -> None:
    table = Model()
    longest = dict.fromkeys(range(3), 0)
    for run in copies:
        table.ingest({str(place): LOGS[log][:size] for place, (log, size) in enumerate(run)})
        for log, size in run:
            longest[log] = max(longest[log], min(size, len(LOGS[log])))
    assert table.rows == Counter(row for log, size in longest.items() for row in LOGS[log][:size])


@pytest.mark.parametrize(("first", "second", "counted", "together"), [
    ([1, 2], [1, 3], [1, 2, 1, 3], None),  # equal lines of two logs
    ([1, 2], [2, 1], [1, 2, 2, 1], None),
    ([1, 2, 3], [2, 3], [1, 2, 3, 2, 3], None),
    ([1, 2, -3], [1, 2, 3, 4], [1, 2, -3, 3, 4], [1, 2, 3, 4]),  # a line that was being written
    ([1, 2, -3], [1, 2, 3], [1, 2, -3, 3], None),
    ([1, 2, -3], [1, 5, 6, 7], [1, 2, -3, 1, 5, 6, 7], None),  # only their first lines are equal
    ([1, 2, 103], [1, 2, 3, 4], [1, 2, 103, 3, 4], [1, 2, 3, 4]),  # cut behind its beginning
    ([1, 2, 103], [1, 2, 3], [1, 2, 103, 3], None),
    ([1, 2, 5], [1, 2, 3, 4], [1, 2, 5, 1, 2, 3, 4], None),
    ([-5, 101], [-5, 1, 2], [-5, 101, 1, 2], [-5, 1, 2]),  # the cut line is the only event
    ([-5, 101], [-6, 1, 2], [-5, 101, -6, 1, 2], None),
    ([101], [1, 2], [101, 1, 2], None),
    ([1, 2, 3, 4], [1, 2, -3], [1, 2, 3, 4], None),
    ([1, -3], [2, 3], [1, -3, 2, 3], None),
    ([-1], [-1, 2], [-1, -1, 2], None),  # nothing identifies a log without an event
    ([-1, -2], [-1, -2], [-1, -2], None),
    ([-5, 1, 2], [-5, 1, 2, 3], [-5, 1, 2, 3], None),
])  # fmt: skip
def test_only_a_log_that_begins_with_all_of_another_shares_its_lines(
    first: Rows, second: Rows, counted: Rows, together: Rows | None
) -> None:
    table, at_once = Model(), Model()
    table.ingest({"a": first})
    table.ingest({"b": second})
    at_once.ingest({"a": first, "b": second})
    assert table.rows == Counter(counted)
    assert at_once.rows == Counter(together or counted)
