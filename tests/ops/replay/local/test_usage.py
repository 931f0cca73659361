"""The local engine: usage, a real broker's log, and tables."""

import json
import os
import shutil
from datetime import UTC
from pathlib import Path
from threading import Thread

import pytest
from msgspec.structs import replace

from authorizerd.acl.model import Acl
from authorizerd.acl.text.named_acl import parse_acl
from authorizerd.management.plan.traffic import TrafficChange, TrafficCount, TrafficEvidence
from authorizerd.replay.errors import NeedsSparkError, TrafficError, UsageError
from authorizerd.replay.judging.index import AclIndex
from authorizerd.replay.local import table
from authorizerd.replay.local.evidence import judge_traffic
from authorizerd.replay.local.runs import ingest
from authorizerd.replay.local.table import TableEngine
from authorizerd.replay.local.tallies import Tallies
from authorizerd.replay.local.traffic import LogEngine, read_traffic
from authorizerd.replay.plans import IngestPlan, LineLayout, UsagePlan
from authorizerd.replay.recorded.tuples import RecordedTuple
from authorizerd.replay.usage import evaluation
from tests.ops.replay.acl_sets import acl_set_of, topic_read
from tests.ops.replay.recorded_events import (
    START,
    Event,
    change_bytes_of_pages,
    damage_rows,
    write_events,
)
from tests.support.recorded_use import LAST_CLIENT_LINE, RecordedUse, read_recorded_use
from tests.support.sizes import size

LINE = (
    "[2026-11-0{} 16:00:00,000] DEBUG Principal = User:a is {} operation = Read from host = "
    "10.0.0.1 on resource = Topic:LITERAL:{} for request = Fetch with resourceRefCount = 1 based "
    "on rule DefaultDeny (kafka.authorizer.logger)\n"
)


def plans(folder: Path, log: Path, days: float | None) -> tuple[IngestPlan, UsagePlan]:
    names = [topic_read(name) for name in ("old", "new")]
    return (
        IngestPlan(inputs=(str(log),), out=str(folder / "out/events")),
        UsagePlan(events="", out=str(folder / "out"), acls=acl_set_of(names), lookback_days=days),
    )


def run(folder: Path, log: Path, days: float | None) -> int:
    logs, plan = plans(folder, log, days)
    return evaluation.run(plan, LogEngine(logs, plan.out))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log that reads ``old`` on the first day and ``new`` on the third."""
    path = tmp_path / "audit.log"
    lines = [LINE.format(1, "Allowed", "old"), LINE.format(2, "Denied", "x")]
    path.write_text("".join([*lines, LINE.format(3, "Allowed", "new")]))
    return path


@pytest.mark.parametrize(
    ("days", "unused", "events"),
    [(None, [], (2, 1)), (5, [], (2, 1)), (1, ["old"], (1, 1)), (0.5, ["old"], (1, 0))],
)
def test_lookback_counts_only_events_of_the_window(
    tmp_path: Path, log: Path, days: float | None, unused: list[str], events: tuple[int, int]
) -> None:
    assert run(tmp_path, log, days) == 0
    report = json.loads((tmp_path / "out/usage.json").read_text())
    assert [each["acl"]["resource_name"] for each in report["unused"]] == unused
    window = report["window"]
    assert (window["allowed_events"], window["denied_events"]) == events
    assert window["tuples"] == sum(events)
    assert "kafka-acls" in (tmp_path / "out/commands.sh").read_text()


def test_log_without_the_named_field_is_not_without_traffic(tmp_path: Path, log: Path) -> None:
    logs, plan = plans(tmp_path, log, None)
    lines = log.read_text().splitlines()
    log.write_text("\n".join(json.dumps({"event": {"original": line}}) for line in lines))
    named = replace(logs, layout=LineLayout(field="event.original"), bad_ratio_max=1)
    assert evaluation.run(plan, LogEngine(named, plan.out)) == 0
    for field in ("original", "event", "event.origin"):
        other = replace(named, layout=LineLayout(field=field))
        with pytest.raises(TrafficError, match="no line has a text in the JSON field that --line-"):
            LogEngine(other, plan.out)


@pytest.mark.parametrize(
    ("first", "last", "said"),
    [("Denied", "Denied", "all 2 recorded events are denials"),
     ("Allowed", "Denied", "no allowed request was recorded since 2026-11-02T")],
)  # fmt: skip
def test_record_without_allowed_requests_supports_no_claim(
    tmp_path: Path, log: Path, first: str, last: str, said: str
) -> None:
    log.write_text(LINE.format(1, first, "t") + LINE.format(3, last, "t"))
    with pytest.raises(UsageError, match=said):
        run(tmp_path, log, 1)
    assert not (tmp_path / "out").exists()


def test_sample_supports_no_claim(tmp_path: Path, log: Path) -> None:
    line = LINE.format(1, "Allowed", "t").replace("\n", " [sampleRate=0.1]\n")
    log.write_text(line)
    with pytest.raises(UsageError, match="no ACL can be called unused: the record is a sample"):
        run(tmp_path, log, None)


def test_log_that_grows_during_a_lookback_is_refused(tmp_path: Path, log: Path) -> None:
    source = LogEngine(plans(tmp_path, log, 1)[0], "")
    assert len(list(source.tuples(0))) == 3
    with open(log, "a", encoding="utf-8") as file:
        file.write(LINE.format(3, "Allowed", "later"))
    with pytest.raises(TrafficError, match="the logs were written while they were read"):
        source.tuples(0)


def test_lookback_refuses_a_pipe_instead_of_waiting(tmp_path: Path, log: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = Thread(target=pipe.write_bytes, args=(log.read_bytes(),))
    writer.start()
    with pytest.raises(TrafficError, match=r"pipe: a window .* reads the logs twice"):
        run(tmp_path, pipe, 1)
    writer.join()


@pytest.mark.parametrize("first", ["[2026-11-01 16:00:00,000]", "2026-11-01T16:00:00Z"])
def test_events_before_a_time_are_not_counted(first: str) -> None:
    """Also those of lines without a plain time, which are parsed one by one."""
    tallies = Tallies(UTC, since_ms=1_793_548_800_001)
    text = LINE.format(1, "Allowed", "old").removeprefix("[2026-11-01 16:00:00,000]")
    tallies.add([f"{first}{text}".encode()])
    assert sum(tally.lines for _, tally in tallies) == 0
    tallies = Tallies(UTC, since_ms=1_793_548_800_000)
    tallies.add([f"{first}{text}".encode()])
    assert [tally.lines for _, tally in tallies] == [1]


LOG = "kafka-authorizer.log.xz"


def judge(use: RecordedUse, log: Path, removed: set[Acl]) -> TrafficEvidence:
    acls = [dated.acl for dated in use.acls.acls]
    before, after = (
        AclIndex(some, use.acls.settings).snapshot
        for some in (acls, [acl for acl in acls if acl not in removed])
    )
    return judge_traffic(
        read_traffic(IngestPlan(inputs=(str(log),), out="")), before, after, use.acls.settings
    )


@pytest.mark.parametrize(("as_of", "count"), [(LAST_CLIENT_LINE, 1616), (None, 1751)])
def test_removing_unused_grants_denies_nothing(
    real_log_dir: Path, as_of: str | None, count: int
) -> None:
    use = read_recorded_use(real_log_dir, as_of)
    assert (len(use.acls.acls), len(use.unused)) == (count, 1456)
    evidence = judge(use, real_log_dir / LOG, set(use.unused))
    assert evidence.newly_denied == evidence.newly_allowed == TrafficChange()
    assert evidence.not_evaluated == {}
    # The ACLs at the end of the log contradict what was recorded under the earlier ones.
    drift = TrafficCount() if as_of else TrafficCount(events=2, tuples=1)
    assert evidence.not_reproduced == drift


def test_used_grants_are_named_as_causes(real_log_dir: Path) -> None:
    use = read_recorded_use(real_log_dir)
    ten = set(use.alone[:10])
    evidence = judge(use, real_log_dir / LOG, ten | set(use.unused))
    causes = evidence.newly_denied.causes
    assert len(ten) == 10
    assert {parse_acl(each.acl) for each in causes} == ten
    assert all(each.change == "delete" and each.events for each in causes)
    assert evidence.newly_allowed == TrafficChange()


START_MS = int(START.timestamp() * 1000)
DAY_MS = 86_400_000


def read_of(name: str, at: int, *, allowed: bool = True, host: str | None = None) -> Event:
    return Event("User:a", host, "READ", "TOPIC", name, allowed, at=at)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A table of three days; ``t`` is read on each of them, and denied at the end."""
    events = [read_of("t", at=day * DAY_MS) for day in range(3)]
    return write_events(tmp_path / "in", [*events, read_of("t", 2 * DAY_MS + 5, allowed=False)])


@pytest.mark.parametrize(
    ("since", "allowed"),
    [(0, 3), (1, 2), (DAY_MS, 2), (DAY_MS + 1, 1), (2 * DAY_MS, 1), (2 * DAY_MS + 1, 0)],
)
def test_window_contains_the_events_since_its_begin(folder: Path, since: int, allowed: int) -> None:
    (one,) = TableEngine(str(folder), "").tuples(START_MS + since)
    times = (START_MS + (3 - allowed) * DAY_MS, START_MS + 2 * DAY_MS) if allowed else (None, None)
    assert one[6:10] == (allowed, *times, None)
    assert one[10:] == (1, START_MS + 2 * DAY_MS + 5, START_MS + 2 * DAY_MS + 5, None)
    assert list(TableEngine(str(folder), "").tuples(START_MS + 3 * DAY_MS)) == []


def test_window_reads_only_its_own_days(folder: Path) -> None:
    first, *_ = sorted((folder / "events").glob("run=*/day=*"))
    damage_rows(first / "part-0.parquet")
    assert len(list(TableEngine(str(folder), "").tuples(START_MS + DAY_MS))) == 1
    with pytest.raises(TrafficError, match=rf"--events: {first}/part-0\.parquet: "):
        TableEngine(str(folder), "").tuples(START_MS)


def test_changed_byte_of_a_table_gives_no_other_rows(tmp_path: Path, log: Path) -> None:
    requests = [(1 + n % 3, "Allowed" if n % 4 else "Denied", f"t{n % 7}") for n in range(40)]
    log.write_text("".join(LINE.format(*each) for each in requests))
    logs, _ = plans(tmp_path, log, None)
    assert ingest(logs) == 0

    def read() -> list[list[RecordedTuple]]:
        engine = TableEngine(logs.out, "")
        return [list(engine.tuples(since_ms)) for since_ms in (None, 0)]

    expected, errors = read(), 0
    for file in Path(logs.out).rglob("*.parquet"):
        for place in change_bytes_of_pages(file, size(37, 1)):
            try:
                assert read() == expected, (file, place)
            except TrafficError:
                errors += 1
    assert errors
    assert read() == expected


def test_tuples_can_be_iterated_over_twice(folder: Path) -> None:
    tuples = TableEngine(str(folder), "").tuples()
    assert list(tuples) == list(tuples) == list(TableEngine(str(folder), "").tuples(START_MS))


def test_table_without_events_has_no_tuples(tmp_path: Path) -> None:
    assert list(TableEngine(str(write_events(tmp_path, [])), "").tuples()) == []


def test_missing_tuples_are_rejected(folder: Path) -> None:
    for file in (folder / "tuples").rglob("*.parquet"):
        file.unlink()
    with pytest.raises(TrafficError, match=r"--events: .*tuples.*: expected 1 tuples, found 0: "):
        TableEngine(str(folder), "").tuples()


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_missing_events_of_a_run_that_ends_in_a_window_are_rejected(
    folder: Path, lost: int
) -> None:
    assert len(list(TableEngine(str(folder), "").tuples(START_MS + 2 * DAY_MS))) == 1
    shutil.rmtree(sorted((folder / "events").glob("run=*/day=*"))[lost])
    left = 2 if lost == 2 else 3
    with pytest.raises(TrafficError, match=f"expected 4 events, found {left}: restore"):
        TableEngine(str(folder), "").tuples(START_MS + 2 * DAY_MS)
    assert (
        list(TableEngine(str(folder), "").tuples(START_MS + 3 * DAY_MS)) == []
    )  # the run ended before


def test_large_window_is_for_spark(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "WINDOW_BYTES_MAX", 1)
    with pytest.raises(NeedsSparkError, match="the events of the window have"):
        TableEngine(str(folder), "").tuples(START_MS)
    assert len(list(TableEngine(str(folder), "").tuples())) == 1


def test_missing_ingest_is_named(tmp_path: Path) -> None:
    with pytest.raises(TrafficError, match=r"--events: .*expected the output of ingest"):
        TableEngine(str(tmp_path), "")
