"""Commits of a table, and the figures of an ingest. Neither needs Spark."""

import errno
import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import msgspec
import pytest

from authorizerd.replay.errors import JobError
from authorizerd.replay.ingest import committing, report
from authorizerd.replay.ingest.commit import (
    Commit,
    Content,
    Input,
    Run,
    TableError,
    decode_commit,
    encode_commit,
    list_commits,
    name_commit,
    read_newest,
)
from authorizerd.replay.ingest.committing import create_commit, find_table
from authorizerd.replay.plain_files import LocalFiles
from authorizerd.replay.text import encode_json

NOTHING = report.Ingested(
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
            file="file:///a.log", rows=1, digest=(1, 2), first=3, last=3, last_head=3,
            run="00000001-a",
        ),
    ),
    offsets={"kafka://h:1/audit": {0: 5, 1: 9}},
    ingested=ONE,
)  # fmt: skip


def test_commit_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert decode_commit(encode_commit(COMMIT)) == COMMIT
    (tmp_path / "commits").mkdir()
    for number in (9, 10):
        commit = msgspec.structs.replace(COMMIT, number=number)
        (tmp_path / "commits" / name_commit(number)).write_bytes(encode_commit(commit))
    for name in (".00000011.json.being-written", "_SUCCESS", "00000012.json.crc", "13.json"):
        (tmp_path / "commits" / name).write_text("{")
    (tmp_path / "ingest.json").write_text("{}")
    assert read_newest(tmp_path).number == 10


@pytest.mark.parametrize(("first_day", "expected"), [
    ("", [True, False]), ("2026-11-21", [True, False]), ("2026-11-22", [False, False]),
])  # fmt: skip
def test_run_that_ends_before_a_window_is_not_read(first_day: str, expected: list[bool]) -> None:
    assert [run.may_contain(first_day) for run in COMMIT.runs] == expected


def test_table_of_an_earlier_version_is_read_but_not_added_to(tmp_path: Path) -> None:
    fields = msgspec.json.decode(encode_commit(COMMIT)) | {"schema_version": 1}
    content = fields["contents"][0]
    content |= {"digest": [1, 2, 3, 4], "ends_unreadable": False}
    del content["last_head"]
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits/00000003.json").write_bytes(msgspec.json.encode(fields))
    read = read_newest(tmp_path)
    assert (read.contents, read.runs) == ((), COMMIT.runs)
    with pytest.raises(JobError, match=r"run ingest with --input .* and a new --out"):
        find_table(LocalFiles(), str(tmp_path), overwrite=False)
    assert find_table(LocalFiles(), str(tmp_path), overwrite=True).number == 3


def test_newer_schema_version_is_rejected(tmp_path: Path) -> None:
    newer = encode_commit(COMMIT).replace(b'"schema_version":2', b'"schema_version":3,"x":[]')
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / name_commit(3)).write_bytes(newer)
    with pytest.raises(TableError, match=r"00000003.json: expected schema version 2 .* found 3"):
        read_newest(tmp_path)


@pytest.mark.parametrize(("data", "reason"), [
    (None, "expected the output of ingest: .*commits has no commit"),
    (b"{}", "00000003.json: .*missing required field"),
    (b"no", "00000003.json: "),
    (b"\xff", "00000003.json: .*restore the file"),
    (b'{"schema_version":%b}' % (b"1" * 3000), "00000003.json: Expected `int` <= 2147483647 "),
    (b'{"a":' * 2000, "00000003.json: it is nested too deeply: restore the file"),
])  # fmt: skip
def test_directory_without_table_is_rejected(
    tmp_path: Path, data: bytes | None, reason: str
) -> None:
    if data is not None:
        (tmp_path / "commits").mkdir()
        (tmp_path / "commits" / name_commit(3)).write_bytes(data)
    with pytest.raises(TableError, match=reason):
        read_newest(tmp_path)


NO_LINES = report.add_up([], 0)
RUN = Run(id="00000001-ab", days=(), ingested=NO_LINES)
FIRST = Commit(number=1, salt=1, runs=(RUN,), tuples_run=None, ingested=NO_LINES)
CONFLICT = "another ingest added commit 1 in the meantime"


def create(table: Path, commit: Commit = FIRST) -> None:
    create_commit(LocalFiles(), str(table), commit, table)


def numbers_in(table: Path) -> list[int]:
    return list_commits(LocalFiles(), str(table))


def fail(monkeypatch: pytest.MonkeyPatch, name: str, number: int) -> None:
    """Let a function of ``os`` fail with an error number."""

    def raise_error(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, name, raise_error)


def test_commit_is_created_once(tmp_path: Path) -> None:
    create(tmp_path)
    other = Commit(number=1, salt=2, runs=(), tuples_run=None, ingested=NO_LINES)
    with pytest.raises(JobError, match=CONFLICT):
        create(tmp_path, other)
    assert read_newest(tmp_path) == FIRST
    assert {path.name for path in (tmp_path / "commits").iterdir()} == {"00000001.json"}


def test_of_many_writers_of_one_commit_one_succeeds(tmp_path: Path) -> None:
    commits = [msgspec.structs.replace(FIRST, salt=salt) for salt in range(1, 33)]
    with ThreadPoolExecutor(16) as pool:
        created = [commit for commit, error in pool.map(partial(attempt, tmp_path), commits)
                   if error is None]  # fmt: skip
    assert created == [read_newest(tmp_path)]
    assert [path.name for path in (tmp_path / "commits").iterdir()] == ["00000001.json"]


def attempt(table: Path, commit: Commit) -> tuple[Commit, JobError | None]:
    try:
        create(table, commit)
    except JobError as error:
        return commit, error
    return commit, None


def test_a_disk_without_hard_links_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(monkeypatch, "link", errno.EPERM)
    with pytest.raises(OSError, match=r"cannot be created in one step here, because .* hard links"):
        create(tmp_path)
    assert list((tmp_path / "commits").iterdir()) == []


@pytest.mark.parametrize("left", [(), ("_temporary/0",), (".part-0.crc",)])
def test_a_commit_that_spark_was_stopped_in_writing_is_passed_over(
    tmp_path: Path, left: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Earlier versions let Spark write a commit, whose directory appears before its content."""
    create(tmp_path)
    half = tmp_path / "commits/00000002.json"
    half.mkdir()
    for name in left:
        (half / name).mkdir(parents=True)
    assert read_newest(tmp_path) == FIRST
    assert "passed over: " in capsys.readouterr().err
    second = msgspec.structs.replace(FIRST, number=2)
    create(tmp_path, second)
    assert read_newest(tmp_path) == second
    assert half.is_file()


def test_a_commit_that_an_earlier_version_wrote_on_spark_is_read(tmp_path: Path) -> None:
    part = tmp_path / "commits/00000001.json/part-00000"
    part.parent.mkdir(parents=True)
    part.write_bytes(encode_commit(FIRST) + b"\n")
    (part.parent / "_SUCCESS").touch()
    assert read_newest(tmp_path) == FIRST
    with pytest.raises(JobError, match=CONFLICT):
        create(tmp_path)


def test_run_and_commit_are_on_the_disk_before_the_commit_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    day = tmp_path / f"events/run={RUN.id}/day=2026-11-21"
    day.mkdir(parents=True)
    (day / "a.parquet").touch()
    before: set[int] = set()
    after: set[int] = set()
    fsync = os.fsync

    def note(descriptor: int) -> None:
        (after if numbers_in(tmp_path) else before).add(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    create(tmp_path)
    commit = tmp_path / "commits/00000001.json"
    first = (day / "a.parquet", day, day.parent, day.parent.parent, commit)
    assert before == {path.stat().st_ino for path in first}
    assert after == {path.stat().st_ino for path in (commit.parent, tmp_path)}


@pytest.mark.parametrize(("number", "numbers"), [(errno.EINVAL, [1]), (errno.EIO, [])])
def test_failure_of_the_disk_leaves_no_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, numbers: list[int]
) -> None:
    """Some file systems cannot write a directory at once, which is not a failure."""
    fail(monkeypatch, "fsync", number)
    if numbers:
        create(tmp_path)
    else:
        with pytest.raises(OSError, match=os.strerror(number)):
            create(tmp_path)
    assert numbers_in(tmp_path) == numbers


@pytest.mark.parametrize(("is_taken", "error", "said"), [
    (True, JobError, CONFLICT), (False, FileNotFoundError, os.strerror(errno.ENOENT)),
])  # fmt: skip
def test_commit_whose_files_another_ingest_removes_is_a_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_taken: bool, error: type[Exception],
    said: str,
) -> None:  # fmt: skip
    if is_taken:
        create(tmp_path)
    (tmp_path / f"events/run={RUN.id}").mkdir(parents=True)
    fail(monkeypatch, "fsync", errno.ENOENT)
    with pytest.raises(error, match=said):
        create(tmp_path)


def test_commit_that_nobody_can_read_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committing, "TEXT_BYTES_MAX", 10)
    with pytest.raises(JobError, match=r"expected a commit of at most 10 bytes, found \d+: too"):
        create(tmp_path)
    assert numbers_in(tmp_path) == []


INGESTED = report.Ingested(
    accepted=True, lines=6, blank_lines=1, events=3, set_aside=2, reasons={"no_time": 2},
    allowed_events=1, denied_events=2, tuples=2, first_at="2026-11-21T16:26:26.966Z", last_at=None,
    time_zone="UTC", inputs=("a.log",), levels={"INFO": 3},
)  # fmt: skip


def test_figures_read_back() -> None:
    assert report.decode_ingested(encode_json(INGESTED)) == INGESTED


def test_explanations_are_neither_bad_nor_good_lines() -> None:
    def count(bad_ratio_max: float, **reasons: int) -> report.Ingested:
        return report.count_lines(
            levels=Counter(DEBUG=5), reasons=Counter(reasons), blank_lines=1, allowed=5,
            first_ms=0, last_ms=0, time_zone="UTC", inputs=(), bad_ratio_max=bad_ratio_max,
        )  # fmt: skip

    ingested = count(0, explanation=20)
    assert (ingested.lines, ingested.explanations, ingested.set_aside) == (26, 20, 0)
    assert ingested.accepted
    assert report.summary_line(ingested).endswith(
        "of 26 lines; 0 set aside, 20 explanations left out"
    )
    assert report.add_up([ingested] * 2, 0).explanations == 40
    assert count(0.25, explanation=20, no_time=2).accepted
    assert not count(0.24, explanation=20, no_time=2).accepted


@pytest.mark.parametrize(("events", "reasons", "is_accepted"), [
    (0, {"no_line_field": 3}, False), (0, {"no_line_field": 1, "no_decision": 9}, False),
    (1, {"no_line_field": 9}, True), (0, {"no_decision": 9}, True), (0, {}, True),
])  # fmt: skip
def test_no_share_permits_that_every_line_lacks_the_named_field(
    events: int, reasons: dict[str, int], is_accepted: bool
) -> None:
    ingested = report.count_lines(
        levels=Counter(DEBUG=events), reasons=Counter(reasons), blank_lines=0, allowed=events,
        first_ms=None, last_ms=None, time_zone="UTC", inputs=(), bad_ratio_max=1,
    )  # fmt: skip
    assert ingested.accepted is is_accepted
    is_named = "no line has a text in the JSON field that" in report.why_not_accepted(ingested, 1)
    assert is_named is not is_accepted


@pytest.mark.parametrize(
    "name", ["lines", "blank_lines", "explanations", "events", "set_aside", "denied_events"]
)
def test_figures_that_do_not_add_up_are_rejected(name: str) -> None:
    record = msgspec.to_builtins(INGESTED) | {name: 77}
    with pytest.raises(ValueError, match=r"lines were read|counts of allowed"):
        report.Ingested(**record)
    with pytest.raises(msgspec.DecodeError):
        report.decode_ingested(msgspec.json.encode(record).decode())
