from __future__ import annotations

import json
import os
from datetime import UTC
from pathlib import Path
from threading import Thread

import pytest
from msgspec.structs import replace

from authorizerd.replay.local.errors import TrafficError
from authorizerd.replay.local.tallies import Tallies
from authorizerd.replay.local.traffic import LogEngine
from authorizerd.replay.plans import IngestPlan, LineLayout, UsagePlan
from authorizerd.replay.usage import evaluation
from authorizerd.replay.usage.errors import UsageError
from tests.ops.replay.acl_sets import acl_set_of, topic_read

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


def test_log_without_the_named_field_is_not_a_log_without_traffic(
    tmp_path: Path, log: Path
) -> None:
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
    with pytest.raises(TrafficError, match="pipe: --lookback reads the logs twice"):
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
