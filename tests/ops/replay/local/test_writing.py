"""Tasks that read logs and write a run without Spark."""

import errno
import gzip
import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet as parquet
import pytest

from authorizerd.replay.ingest.parse import columns
from authorizerd.replay.ingest.parse.columns import get_reader
from authorizerd.replay.ingest.schemas import SUMMED_BY
from authorizerd.replay.ingest.summary import Group, merge_groups
from authorizerd.replay.local import parts, writing
from authorizerd.replay.local.parts import Part, plan_tasks
from authorizerd.replay.local.writing import Places, RunFiles, Work, write_parts
from authorizerd.replay.plans import LineLayout
from authorizerd.replay.text import write_file

SALT = 77
LINE = (
    "[2026-11-{:02d} 16:26:{:02d},966] INFO Principal = User:{} is Denied operation = READ "
    "from host = h on resource = Topic:LITERAL:t for request = {} with resourceRefCount = 1\n"
)


def write_log(path: Path, lines: int) -> Path:
    """Write a log whose tuples, requests and days repeat, with a line of each other kind."""
    texts = [
        LINE.format(21 + n % 2, n % 60, n % 5, "Fetch" if n % 3 else "Metadata")
        for n in range(lines)
    ]
    path.write_bytes("".join([*texts, "\n", "unknown\n"]).encode())
    return path


def places_in(folder: Path) -> Places:
    return Places(folder / "events", folder / "aside")


def run(tasks: list[list[Part]], folder: Path) -> tuple[list[Group], list[dict[str, Any]]]:
    """Run the tasks one by one, and return their groups of rows, and the parts of tuples."""
    works = [
        Work(number, some, places_in(folder), LineLayout(), SALT)
        for number, some in enumerate(tasks)
    ]
    done = list(map(write_parts, works))
    groups = merge_groups(group for each in done for group in each.groups)
    return groups, [row for each in done for part in each.tuples for row in part.to_pylist()]


def rows_in(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.rglob("*.parquet"))
    table = pyarrow.concat_tables([parquet.ParquetFile(file).read() for file in files])
    found: list[dict[str, Any]] = table.sort_by("sequence").to_pylist()
    return found


def sum_rows(rows: list[dict[str, Any]]) -> dict[tuple[object, ...], tuple[int, object, object]]:
    """Return the number of events, the first and the last time of each tuple, answer and rule."""
    sums: dict[tuple[object, ...], tuple[int, Any, Any]] = {}
    for row in rows:
        key = tuple(row[name] for name in SUMMED_BY)
        first, last = row.get("first_at", row.get("at")), row.get("last_at", row.get("at"))
        number, earlier, later = sums.get(key, (0, first, last))
        sums[key] = number + row.get("events", 1), min(earlier, first), max(later, last)
    return sums


@pytest.mark.parametrize("texts_max", [3, 200_000])
@pytest.mark.parametrize("task_bytes", [1000, 100_000])
def test_tasks_write_each_line_in_order_and_sum_up_the_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task_bytes: int, texts_max: int
) -> None:
    monkeypatch.setattr(parts, "TASK_BYTES_MIN", task_bytes)
    monkeypatch.setattr(parts, "TASK_BYTES_MAX", task_bytes)
    monkeypatch.setattr(columns, "TEXTS_MAX", texts_max)
    log = write_log(tmp_path / "a b*é\u3000%\x85^.log", 40)
    packed = tmp_path / "c.log.GZ"
    packed.write_bytes(gzip.compress(LINE.format(23, 1, "z", "Fetch").encode()))
    get_reader.cache_clear()
    tasks = plan_tasks([log, packed], 2)
    assert len(tasks) == (8 if task_bytes == 1000 else 1)
    groups, sums = run(tasks, tmp_path / "run")
    events = rows_in(tmp_path / "run/events")
    assert sum_rows(sums) == sum_rows(events)
    reader = get_reader(LineLayout(), SALT)
    lines = log.read_bytes().splitlines()[:40]
    expected = reader.read(pyarrow.array(lines, pyarrow.binary())).to_pylist()
    names = events[0].keys() - {"file", "sequence", "line", "reason"}
    assert [{name: event[name] for name in names} for event in events[:-1]] == [
        {name: row[name] for name in names} for row in expected
    ]
    assert {event["file"] for event in events[:-1]} == {
        f"file://{tmp_path}/a%20b*é%E3%80%80%25%C2%85%5E.log"
    }
    assert (events[-1]["principal"], events[-1]["file"]) == ("User:z", packed.as_uri())
    aside = rows_in(tmp_path / "run/aside")
    assert [(row["line"], row["reason"]) for row in aside] == [
        ("", "blank"), ("unknown", "no_decision"),
    ]  # fmt: skip
    check_groups(groups, events, aside)


def check_groups(
    groups: list[Group], events: list[dict[str, Any]], aside: list[dict[str, Any]]
) -> None:
    """Check the groups of a run against its rows."""
    for group in groups:
        rows = [
            row
            for row in (aside if group.reason else events)
            if (row["file"], row["reason"]) == (group.file, group.reason)
            and (group.reason or str(row["at"].date()) == group.day)
        ]
        halves = [(row["hash"] & 0xFFFFFFFF, row["hash"] >> 32 & 0xFFFFFFFF) for row in rows]
        assert group.rows == len(rows)
        assert group.digest == tuple(map(sum, zip(*halves, strict=True)))
        assert (group.begins, group.ends) == (rows[0]["sequence"], rows[-1]["sequence"])
        assert group.last == rows[-1]["hash"]
        if not group.reason:
            times = [round(row["at"].timestamp() * 1000) for row in rows]
            assert (group.first_ms, group.last_ms) == (min(times), max(times))
            assert group.allowed == sum(row["allowed"] for row in rows)
    assert sum(group.rows for group in groups) == len(events) + len(aside)


def test_small_files_share_a_task_and_large_ones_are_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "TASK_BYTES_MIN", 100)
    monkeypatch.setattr(parts, "TASK_BYTES_MAX", 100)
    sizes = {"a": 250, "b": 30, "c": 30, "d": 0, "e.gz": 3, "f.gz": 9}
    for name, size in sizes.items():
        (tmp_path / name).write_bytes(bytes(size))
    files = [tmp_path / name for name in sizes]
    tasks = plan_tasks(files, 2)
    found = [[(part.path.name, part.begin, part.end) for part in parts] for parts in tasks]
    assert found == [
        [("a", 0, 100)], [("a", 100, 200)], [("a", 200, 250), ("b", 0, 30)],
        [("c", 0, 30), ("e.gz", 0, 3)], [("f.gz", 0, 9)],
    ]  # fmt: skip
    monkeypatch.setattr(parts, "TASK_BYTES_MAX", 10_000)
    for cores, tasks_of_each in ((1, 4), (2, 8)):
        (tmp_path / "a").write_bytes(bytes(4000))
        assert len(plan_tasks(files[:1], cores)) == tasks_of_each
    assert plan_tasks([], 2) == []


DENIAL = (
    "[2026-11-%02d 16:26:26,966] INFO Principal = User:%s is Denied operation = READ "
    "from host = h on resource = Topic:LITERAL:t for request = Fetch with resourceRefCount = 1"
)


def write(folder: Path, *batches: list[str]) -> None:
    """Write the rows of lines as task 3."""
    reader = get_reader(LineLayout(), SALT)
    sequence = 3 << 33
    with closing(RunFiles(places_in(folder), 3, SALT)) as files:
        for batch in batches:
            rows = reader.read(pyarrow.array([line.encode() for line in batch], pyarrow.binary()))
            files.write(writing._name_rows(rows, "file:/a.log", sequence))
            sequence += len(rows)


def test_each_line_is_in_the_files_of_its_kind(tmp_path: Path) -> None:
    write(tmp_path, [DENIAL % (21, "a"), "", "x"], [DENIAL % (22, "b"), DENIAL % (21, "c")])
    for day, expected in (
        ("2026-11-21", [("User:a", 0), ("User:c", 4)]),
        ("2026-11-22", [("User:b", 3)]),
    ):
        rows = rows_in(tmp_path / "events" / f"day={day}")
        assert [(row["principal"], row["sequence"] - (3 << 33)) for row in rows] == expected
    aside = [("", "blank", 1), ("x", "no_decision", 2)]
    names = ("line", "reason", "file", "sequence")
    assert [tuple(row[name] for name in names) for row in rows_in(tmp_path / "aside")] == [
        (line, reason, "file:/a.log", (3 << 33) + number) for line, reason, number in aside
    ]


def test_task_that_runs_again_replaces_its_files(tmp_path: Path) -> None:
    for _ in range(2):
        write(tmp_path, [DENIAL % (21, "a"), "x"])
    assert len(rows_in(tmp_path / "events")) == len(rows_in(tmp_path / "aside")) == 1


def test_number_of_open_files_and_of_their_rows_is_bounded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    opened: list[int] = []

    class Counted(parquet.ParquetWriter):  # type: ignore[misc] # pyarrow has no annotations
        def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401
            super().__init__(*arguments, **options)
            opened.append((opened[-1] if opened else 0) + 1)

        def close(self) -> None:
            if self.is_open:
                opened.append(opened[-1] - 1)
            super().close()

    monkeypatch.setattr(parquet, "ParquetWriter", Counted)
    monkeypatch.setattr(writing, "FILES_MAX", 2)
    monkeypatch.setattr(writing, "ROWS_MAX", 2)
    days = [21, 22, 23, 21, 21, 21, 22, 24, 23]
    write(tmp_path, *([DENIAL % (day, "a")] for day in days))
    assert max(opened) == 2
    assert opened[-1] == 0
    for day in set(days):
        files = list((tmp_path / "events" / f"day=2026-11-{day}").glob("*.parquet"))
        rows = [parquet.read_metadata(file).num_rows for file in files]
        assert sum(rows) == days.count(day)
        assert max(rows) <= 2


def test_file_that_cannot_be_read_or_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only opening a file names it; reading and writing do not."""
    path = tmp_path / "a.log"

    def fail(*args: object, **options: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(parts, "read_part", fail)
    monkeypatch.setattr(Path, "write_text", fail)
    path.write_bytes(b"a")
    ((part,),) = plan_tasks([path], 1)
    for do in (lambda: list(part.read_blocks()), lambda: write_file(path, "text")):
        with pytest.raises(OSError, match=r"a\.log"):
            do()


@pytest.mark.parametrize("suffix", ["log", "log.gz"])
@pytest.mark.parametrize("is_renamed", [True, False])
def test_log_that_is_rotated_before_it_is_read_is_named(
    is_renamed: bool, suffix: str, tmp_path: Path
) -> None:
    path = write_log(tmp_path / f"a.{suffix}", 9)
    ((part,),) = plan_tasks([path], 1)
    if is_renamed:
        path.rename(tmp_path / "a.1")
        write_log(path, 99)
    else:
        os.truncate(path, 9)
    with pytest.raises(OSError, match="replaced or cut") as raised:
        list(part.read_blocks())
    assert raised.value.filename == str(path)
