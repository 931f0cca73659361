from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from authorizerd.replay.ingest.commit import (
    Commit,
    Content,
    Input,
    Run,
    TableError,
    decode_commit,
    encode_commit,
    find_numbers,
    name_commit,
    read_newest,
)
from authorizerd.replay.ingest.report import Ingested

NOTHING = Ingested(
    accepted=True, lines=0, blank_lines=0, events=0, set_aside=0, reasons={}, allowed_events=0,
    denied_events=0, tuples=0, first_at=None, last_at=None, time_zone="UTC", inputs=(), levels={},
)  # fmt: skip
ONE = msgspec.structs.replace(NOTHING, lines=1, events=1, allowed_events=1, tuples=1)
COMMIT = Commit(
    number=3,
    salt=7,
    runs=(
        Run(id="00000001-a", days=("2026-11-21",), ingested=ONE),
        Run(id="00000002-a", days=(), ingested=NOTHING),
    ),
    tuples_run="00000002-a",
    inputs=(Input(uri="file:/a.log", bytes=1, modified_ms=2),),
    contents=(
        Content(
            file="file:///a.log",
            rows=1,
            digest=(1, 2, 3, 4),
            first=3,
            last=3,
            ends_unreadable=False,
            run="00000001-a",
        ),
    ),
    offsets={"kafka://h:1/audit": {0: 5, 1: 9}},
    ingested=ONE,
)


def test_commit_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert decode_commit(encode_commit(COMMIT)) == COMMIT
    (tmp_path / "commits").mkdir()
    for number in (9, 10):
        commit = msgspec.structs.replace(COMMIT, number=number)
        (tmp_path / "commits" / name_commit(number)).write_bytes(encode_commit(commit))
    (tmp_path / "commits" / ".00000011.json.being-written").write_text("{")
    (tmp_path / "ingest.json").write_text("{}")
    assert read_newest(tmp_path).number == 10


def test_numbers_are_those_of_commits_newest_first() -> None:
    names = [name_commit(2), "_SUCCESS", "00000010.json.crc", name_commit(10), "10.json"]
    assert find_numbers(names) == [10, 2]


def test_globs_are_those_of_a_run() -> None:
    assert COMMIT.tuples_glob == "tuples/run=00000002-a/*.parquet"
    assert COMMIT.runs[1].events_glob == "events/run=00000002-a/day=*/*.parquet"
    assert msgspec.structs.replace(COMMIT, tuples_run=None).tuples_glob is None


@pytest.mark.parametrize(("first_day", "expected"), [
    ("", [True, False]), ("2026-11-21", [True, False]), ("2026-11-22", [False, False]),
])  # fmt: skip
def test_run_that_ends_before_a_window_is_not_read(first_day: str, expected: list[bool]) -> None:
    assert [run.may_contain(first_day) for run in COMMIT.runs] == expected


def test_commit_of_an_earlier_version_gets_defaults() -> None:
    fields = msgspec.json.decode(encode_commit(COMMIT)) | {"schema_version": 0}
    del fields["contents"]
    read = decode_commit(msgspec.json.encode(fields))
    assert (read.contents, read.runs) == ((), COMMIT.runs)


def test_newer_schema_version_is_rejected(tmp_path: Path) -> None:
    newer = encode_commit(COMMIT).replace(b'"schema_version":1', b'"schema_version":2,"x":[]')
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / name_commit(3)).write_bytes(newer)
    with pytest.raises(TableError, match=r"00000003.json: expected schema version 1 .* found 2"):
        read_newest(tmp_path)


@pytest.mark.parametrize(("data", "reason"), [
    (None, "expected the output of ingest: .*commits has no commit"),
    (b"{}", "00000003.json: .*missing required field"),
    (b"no", "00000003.json: "),
    (b"\xff", "00000003.json: .*restore the file"),
    (b'{"schema_version":%b}' % (b"1" * 3000), "00000003.json: Expected `int` <= 2147483647 "),
    (b'{"a":' * 2000, "00000003.json: it is nested too deeply: restore the file"),
])  # fmt: skip
def test_directory_that_is_not_a_table_is_rejected(
    tmp_path: Path, data: bytes | None, reason: str
) -> None:
    if data is not None:
        (tmp_path / "commits").mkdir()
        (tmp_path / "commits" / name_commit(3)).write_bytes(data)
    with pytest.raises(TableError, match=reason):
        read_newest(tmp_path)
