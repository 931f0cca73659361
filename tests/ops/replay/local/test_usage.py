from __future__ import annotations

import json
import os
from collections import Counter
from datetime import UTC
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.model import Acl, Question
from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.judging.report import Count
from authorizerd.replay.local import usage
from authorizerd.replay.local.errors import TrafficError
from authorizerd.replay.local.running import read_accepted
from authorizerd.replay.local.tallies import Tallies
from authorizerd.replay.local.traffic import Traffic
from authorizerd.replay.local.usage import LocalJudge, run_usage
from authorizerd.replay.plans import IngestPlan, UsagePlan
from authorizerd.replay.usage.recorded import RecordedTuple
from authorizerd.replay.usage.suggestions import AclUsage
from tests.ops.replay.acl_sets import acl_set_of, topic_read
from tests.ops.replay.usage.recording import tuples_batch
from tests.ops.replay.usage.strategies import acl_sets, recorded_events
from tests.oracles.scan import decide
from tests.oracles.usage import Recorded, is_wide, used_acls

LINE = (
    "[2026-11-0{} 16:00:00,000] DEBUG Principal = User:a is {} operation = Read from host = "
    "10.0.0.1 on resource = Topic:LITERAL:{} for request = Fetch with resourceRefCount = 1 based "
    "on rule DefaultDeny (kafka.authorizer.logger)\n"
)


def judge_of(acl_set: AclSet, events: list[Recorded], **more: Any) -> LocalJudge:  # noqa: ANN401
    rows = tuples_batch(events, **more).to_pylist()
    return LocalJudge((RecordedTuple(**row) for row in rows), acl_set)


@given(acl_sets(unknown_codes=True), recorded_events(), st.integers(0, 3))
def test_use_is_that_of_a_scan(acl_set: AclSet, events: list[Recorded], names_max: int) -> None:
    summed = judge_of(acl_set, events).sum_uses(names_max)
    acls = [item.acl for item in acl_set.acls]
    expected: dict[Acl, AclUsage] = {}
    for acl, used in used_acls(acls, acl_set.super_users, events).items():
        names = used.names if is_wide(acl) else []
        expected[acl] = AclUsage(
            used.events_alone, len(used.alone), used.events_shared, len(used.shared), used.last_ms,
            len(names), min(names, default=None), max(names, default=None),
            tuple(names[:names_max]),
        )  # fmt: skip
    assert summed.usage == expected
    by_super_users, disagreeing = 0, 0
    for event in events:
        if event.question.principal in acl_set.super_users:
            by_super_users += 1
        else:
            answer, _ = decide(acls, acl_set.allow_everyone_if_no_acl_found, event.question)
            disagreeing += answer != event.allowed
    assert (summed.by_super_users.events, summed.disagreeing.events) == (
        by_super_users,
        disagreeing,
    )


def test_tuples_that_no_acl_can_decide_are_counted_by_reason() -> None:
    everything = acl_set_of([topic_read("*")])
    events = [Recorded(question, True, 5) for question in (_question("t"), _question("u"))]
    summed = judge_of(everything, events, pattern_type="PREFIXED").sum_uses(9)
    assert summed.usage == {}
    assert summed.not_evaluated == {"pattern type is not LITERAL": Count(events=2, tuples=2)}


def _question(name: str) -> Question:
    return Question("User:a", "10.0.0.1", 3, 2, name)


@given(acl_sets(), recorded_events(), st.sets(st.integers(0, 11)))
def test_comparison_is_that_of_a_scan(
    acl_set: AclSet, events: list[Recorded], removed: set[int]
) -> None:
    acls = [item.acl for item in acl_set.acls]
    kept = [acl for number, acl in enumerate(acls) if number not in removed]
    changed: dict[bool, Counter[Any]] = {True: Counter(), False: Counter()}
    for event in events:
        if event.question.principal in acl_set.super_users:
            continue
        before, after = (
            decide(some, acl_set.allow_everyone_if_no_acl_found, event.question)[0]
            for some in (acls, kept)
        )
        if before != after:
            changed[after][event.question] += 1
    whole, by_acl = judge_of(acl_set, events).compare(acl_set.with_acls(kept, "kept"))
    counts = {
        answer: Count(events=found.total(), tuples=len(found)) for answer, found in changed.items()
    }
    if whole is None:
        assert counts == {True: Count(), False: Count()}
    else:
        assert counts == {True: whole.newly_allowed, False: whole.newly_denied}
        least = min(
            (one.principal, one.resource_name) for found in changed.values() for one in found
        )
        assert (whole.principal, whole.resource_name) == least
    assert set(by_acl) <= set(acls) - set(kept)


def plans(folder: Path, log: Path, days: float | None) -> tuple[IngestPlan, UsagePlan]:
    names = [topic_read(name) for name in ("old", "new")]
    return (
        IngestPlan(inputs=(str(log),), out=str(folder / "out/events")),
        UsagePlan(events="", out=str(folder / "out"), acls=acl_set_of(names), lookback_days=days),
    )


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
    assert run_usage(*plans(tmp_path, log, days)) == 0
    report = json.loads((tmp_path / "out/usage.json").read_text())
    assert [each["acl"]["resource_name"] for each in report["unused"]] == unused
    window = report["window"]
    assert (window["allowed_events"], window["denied_events"]) == events
    assert window["tuples"] == sum(events)
    assert "kafka-acls" in (tmp_path / "out/commands.sh").read_text()


@pytest.mark.parametrize(
    ("first", "last", "said"),
    [("Denied", "Denied", "all 2 recorded events are denials"),
     ("Allowed", "Denied", "no allowed request was recorded since 2026-11-02T")],
)  # fmt: skip
def test_record_without_allowed_requests_supports_no_claim(
    tmp_path: Path, log: Path, first: str, last: str, said: str
) -> None:
    log.write_text(LINE.format(1, first, "t") + LINE.format(3, last, "t"))
    (tmp_path / "out").mkdir()
    for name in ("usage.json", "commands.sh"):
        (tmp_path / "out" / name).write_text("of an earlier run")
    with pytest.raises(TrafficError, match=said):
        run_usage(*plans(tmp_path, log, 1))
    assert list((tmp_path / "out").iterdir()) == []


def test_log_that_grows_during_a_lookback_is_refused(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(logs: IngestPlan) -> Traffic:
        traffic = read_accepted(logs)
        with open(log, "a", encoding="utf-8") as file:
            file.write(LINE.format(3, "Allowed", "later"))
        return traffic

    monkeypatch.setattr(usage, "read_accepted", read)
    with pytest.raises(TrafficError, match="the logs were written while they were read"):
        run_usage(*plans(tmp_path, log, 1))
    assert not (tmp_path / "out/usage.json").exists()


def test_lookback_refuses_a_pipe_instead_of_waiting(tmp_path: Path, log: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = Thread(target=pipe.write_bytes, args=(log.read_bytes(),))
    writer.start()
    with pytest.raises(TrafficError, match="pipe: --lookback reads the logs twice"):
        run_usage(*plans(tmp_path, pipe, 1))
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
