from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from authorizerd.replay.ingest.commit import NO_ROWS, Content, Digest
from authorizerd.replay.ingest.contents import (
    ALL,
    First,
    add_digests,
    match_contents,
    split_hash,
)

Rows = list[int]


def digest_of(rows: Rows) -> Digest:
    """Return the digest of rows, whose last digits are their beginnings."""
    digest = NO_ROWS
    for row in rows:
        digest = add_digests(digest, (*split_hash(row), row % 100 if row >= 0 else 0, 0))
    return digest


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
                last=rows[-1], ends_unreadable=rows[-1] < 0, run=run,
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
        return First(digest_of(self._rows[content.run, content.file][:rows]), rows - 1)


# Three logs whose first lines differ, and which have lines in common.
LOGS = [[1, *range(10, 20)], [2, *range(10, 25)], [3, 3, 3, *range(15, 18)]]
runs = st.lists(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 16)), min_size=1, max_size=4),
    min_size=1,
    max_size=5,
)


@given(runs)
def test_copies_of_growing_logs_count_each_line_once(
    copies: list[list[tuple[int, int]]],
) -> None:
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
