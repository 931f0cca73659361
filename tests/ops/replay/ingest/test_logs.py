"""The names of logs, and those that stopped."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from authorizerd.replay.ingest.logs import (
    SHOWN_MAX,
    SILENT_MS,
    describe_stopped,
    find_live,
    find_stopped,
    merge_logs,
    name_log,
)
from authorizerd.replay.ingest.report import Log, add_up
from authorizerd.replay.text import format_time

NOW_MS = 1_795_278_666_718
BROKER = "/logs/broker-1/kafka-authorizer.log"
UUID = "0f8fad5b-d9cb-469f-a165-70867728950e"


@pytest.mark.parametrize(("file", "log"), [
    *((f"{BROKER}{suffix}", BROKER) for suffix in (
        "", ".1", ".12.gz", ".GZ", ".2026-11-20", ".2026-11-20-13", ".2026-11-20-13.gz",
        "-20261120.bz2", "-20261120T1300Z.zst", f"-2026-11-20-{UUID}.xz", ".2026-11-20.3",
    )),
    *((f"/logs/{folder}/broker-1/kafka-authorizer.log", BROKER) for folder in (
        "2026/11/20", "2026/11/20/13", "year=2026/month=11/day=20/hour=13", "dt=2026-11-20",
        "20261120",
    )),
    ("/logs/kafka-authorizer-2026-11-20.log", "/logs/kafka-authorizer.log"),
    (f"file:{BROKER}.1", BROKER),
    (f"file://{BROKER}.1", BROKER),
    ("file:///logs/a%20b.log", "/logs/a b.log"),
    ("file:/logs/a%20b.log", "/logs/a%20b.log"),
    ("s3a://logs/2026-11-20/broker-3%2B.log.gz", "s3a://logs/broker-3+.log"),
    ("kafka://host:9092/audit-2026-11-20.1/3", "kafka://host:9092/audit-2026-11-20.1/3"),
    ("/logs/broker-10001.log", "/logs/broker-10001.log"),
    ("/logs/broker-3", "/logs/broker-3"),
])  # fmt: skip
def test_rotations_and_archives_of_a_log_have_its_name(file: str, log: str) -> None:
    assert name_log(file) == log


FILES = st.sampled_from([f"/{name}.log{suffix}" for name in "abc" for suffix in ("", ".1", ".gz")])
TIMES = st.none() | st.integers(NOW_MS, NOW_MS + 5)
INGESTS = st.lists(st.tuples(st.sets(FILES), st.dictionaries(FILES, TIMES)), max_size=4)


@given(INGESTS)
def test_a_log_has_the_newest_event_of_all_its_files(
    ingests: list[tuple[set[str], dict[str, int | None]]],
) -> None:
    logs: dict[str, Log] = {}
    times: dict[str, list[int]] = {}
    for known, newest in ingests:
        read = known | newest.keys()
        logs = merge_logs(logs, read, newest)
        for file, at_ms in newest.items():
            times.setdefault(file[:6], []).extend([] if at_ms is None else [at_ms])
        last = {log: format_time(max(of)) if of else None for log, of in times.items()}
        named = {file[:6] for file in read}
        assert logs == {
            log: Log(last_at=at, is_read=log in named) for log, at in sorted(last.items())
        }


def test_a_log_without_recent_events_has_stopped() -> None:
    ends = {"a": NOW_MS, "b": NOW_MS - SILENT_MS, "c": NOW_MS - SILENT_MS - 1, "d": None}
    logs = merge_logs({}, (), ends)
    logs["c"] = replace(logs["c"], is_read=False)
    assert list(find_stopped(logs)) == ["c", "d"]
    assert list(find_stopped(logs, NOW_MS)) == ["b", "d"], "of those that were read"
    assert list(describe_stopped(logs)) == [
        "c: no event since 2026-11-20T16:31:06.717Z, and the newest ingest did not read it",
        "d: no event",
    ]
    assert find_stopped(merge_logs({}, (), {"d": None})).keys() == {"d"}
    many = merge_logs({}, (), dict.fromkeys(map(str, range(SHOWN_MAX + 3))))
    *_, last = describe_stopped(many)
    assert last == "and 3 other logs without recent events"


def test_a_log_whose_events_have_expired_is_not_named() -> None:
    ingested = replace(
        add_up([], 0),
        first_at=format_time(NOW_MS),
        logs={
            name: Log(last_at=format_time(at_ms), is_read=is_read)
            for name, at_ms, is_read in (("a", NOW_MS - 1, False), ("b", NOW_MS - 1, True),
                                         ("c", NOW_MS, False))
        },
    )  # fmt: skip
    assert list(find_live(ingested)) == ["b", "c"]
