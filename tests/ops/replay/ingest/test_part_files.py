"""The files that a task of an ingest writes."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet as parquet
import pytest

from authorizerd.replay.ingest import part_files
from authorizerd.replay.ingest.parse.columns import EventReader
from authorizerd.replay.ingest.part_files import PartFiles

DENIAL = (
    "[2026-11-%02d 16:26:26,966] INFO Principal = User:%s is Denied operation = READ "
    "from host = h on resource = Topic:LITERAL:t for request = Fetch with resourceRefCount = 1"
)


def rows_of(lines: list[str]) -> pyarrow.RecordBatch:
    reader = EventReader(UTC, "auto")
    rows = reader.read(pyarrow.array([line.encode() for line in lines], pyarrow.binary()))
    return rows.append_column("file", pyarrow.repeat("file:/a.log", len(rows)))


def write(folder: Path, *batches: list[str]) -> None:
    """Write the rows of lines as task 3."""
    with closing(PartFiles(folder / "events", folder / "set_aside", task=3)) as files:
        for batch in batches:
            files.write(rows_of(batch))


def read(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for file in sorted(folder.rglob("*.parquet")):
        found += parquet.ParquetFile(file).read().to_pylist()
    return found


def test_each_line_is_in_the_files_of_its_kind(tmp_path: Path) -> None:
    write(tmp_path, [DENIAL % (21, "a"), "", "x"], [DENIAL % (22, "b"), DENIAL % (21, "c")])
    for day, expected in (
        ("2026-11-21", [("User:a", 0), ("User:c", 4)]),
        ("2026-11-22", [("User:b", 3)]),
    ):
        rows = read(tmp_path / "events" / f"day={day}")
        assert [(row["principal"], row["sequence"] - (3 << 33)) for row in rows] == expected
    aside = [("", "blank", 1), ("x", "no_decision", 2)]
    assert read(tmp_path / "set_aside") == [
        {"line": line, "reason": reason, "file": "file:/a.log", "sequence": (3 << 33) + number}
        for line, reason, number in aside
    ]


def test_task_that_runs_again_replaces_its_files(tmp_path: Path) -> None:
    for _ in range(2):
        write(tmp_path, [DENIAL % (21, "a"), "x"])
    assert len(read(tmp_path / "events")) == len(read(tmp_path / "set_aside")) == 1


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Limit a task to two open files of two rows; return how many were open at each time."""
    opened: list[int] = []

    class Counted(part_files._PartFile):
        def __init__(self, path: Path, schema: pyarrow.Schema) -> None:
            super().__init__(path, schema)
            opened.append((opened[-1] if opened else 0) + 1)

        def close(self) -> None:
            super().close()
            opened.append(opened[-1] - 1)

    monkeypatch.setattr(part_files, "_PartFile", Counted)
    monkeypatch.setattr(part_files, "FILES_MAX", 2)
    monkeypatch.setattr(part_files, "ROWS_MAX", 2)
    return opened


def test_number_of_open_files_and_of_their_rows_is_bounded(
    small_files: list[int], tmp_path: Path
) -> None:
    days = [21, 22, 23, 21, 21, 21, 22, 24, 23]
    write(tmp_path, *([DENIAL % (day, "a")] for day in days))
    assert max(small_files) == 2
    assert small_files[-1] == 0
    for day in set(days):
        files = list((tmp_path / "events" / f"day=2026-11-{day}").glob("*.parquet"))
        rows = [parquet.read_metadata(file).num_rows for file in files]
        assert sum(rows) == days.count(day)
        assert max(rows) <= 2
