"""``verify --follow``: each line is counted once, and not before its history is known."""

from __future__ import annotations

import json
import shutil
import socket
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from random import Random

import pytest

from authorizerd.acl.decision import MatchingAcl
from authorizerd.acl.model import Acl
from authorizerd.config.endpoints import HttpEndpoint
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY, segment_name
from authorizerd.protocol.records.metadata import MetadataRecord
from authorizerd.protocol.verification import Cause, Counts
from authorizerd.replay.errors import AclSourceError, TrafficError
from authorizerd.replay.verify.follow import files, history, shadow
from authorizerd.replay.verify.follow.history import Contact, HistoryFollower, ask_contact
from authorizerd.replay.verify.follow.state import State, hold_state, read_state
from authorizerd.replay.verify.judging import AHEAD
from tests.ops.replay.verify.follow.rotated_logs import (
    CrashingFollower,
    RotatedLog,
    new_shadow,
)
from tests.ops.replay.verify.scripted_broker import (
    START_MS,
    Step,
    make_line,
    write_history,
    write_lines,
)
from tests.support.acls import acl, question
from tests.support.fixture_types import Capture
from tests.support.log_files import (
    METADATA_VERSION,
    added,
    data_batch,
    removed,
    write_kafka_checkpoint,
    write_segment,
)
from tests.support.sizes import size

ACL = acl(topic="t")
ASKED = question(topic="t")
STEPS = (Step(0, (added(1, ACL),)), Step(500, (removed(1),)))
ALLOWED = str(MatchingAcl(ACL))


@pytest.fixture(autouse=True)
def finished_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a renamed log end soon."""
    monkeypatch.setattr(files, "FINISHED_S", 0.05)


def line_at(at_s: float, *, allowed: bool = True) -> str:
    return make_line(at_s, ASKED, ALLOWED if allowed else "DefaultDeny", allowed=allowed)


def batch(offset: int, records: Sequence[MetadataRecord], *, time_s: float) -> bytes:
    return data_batch(offset, records, epoch=0, time_ms=START_MS + round(time_s * 1000))


def append(log_dir: Path, batch: bytes) -> None:
    """Write a batch to the end of the log."""
    last = max((log_dir / METADATA_TOPIC_DIRECTORY).glob("*.log"))
    with last.open("ab") as file:
        file.write(batch)


def settle(follower: CrashingFollower) -> Counts:
    for _ in range(5):
        follower.step()
    return follower.shadow.state.counts


@pytest.mark.parametrize("pattern", ["", "*"])
@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("seed", range(size(15, 200)))
def test_each_line_is_counted_once_across_rotations_crashes_and_restarts(
    seed: int, copies: bool, pattern: str, tmp_path: Path
) -> None:
    """The oracle counts what the broker wrote."""
    chance = Random(seed)
    log_dir = write_history(tmp_path / "log", STEPS, 2_000)
    (tmp_path / "audit").mkdir()
    log = RotatedLog(tmp_path / "audit", copies=copies)
    known_ms = [START_MS + 20_000]
    follower = CrashingFollower(
        chance, log_dir, [f"{log.path}{pattern}"], ask=lambda: Contact(known_ms[-1], 0)
    )
    times = iter(n / 8 for n in range(80, 100_000))
    wrong = unread = 0
    log.write([line_at(9)])
    follower.step()

    def write() -> None:
        nonlocal wrong
        some = []
        for _ in range(chance.randrange(4)):
            is_wrong = chance.random() < 0.2
            wrong += is_wrong
            some.append(line_at(next(times), allowed=not is_wrong))
        unknown = [f"no audit line {next(times)}"] * (chance.random() < 0.1)
        log.write(some + unknown, cut=chance.choice((0, 0, 1, 30)) if some + unknown else 0)

    for _ in range(size(60, 200)):
        action = chance.choice(("write", "write", "write", "rotate", "step", "step", "crash"))
        if action == "write":
            write()
        elif action == "step":
            known_ms.append(max(known_ms[-1], START_MS + chance.randrange(60_000)))
            crash_in = chance.choice((None, None, chance.randrange(1, 12)))
            follower.step(crash_in)
            unread = unread if crash_in else 0
        elif action == "crash":
            follower.crash()
        elif unread < 3:  # later files are gone
            unread += 1
            log.rotate()
            if chance.random() < 0.3:
                follower.step()
            log.truncate()
    log.write(())
    known_ms.append(START_MS + 1_000_000)
    counts = settle(follower)
    assert counts.lines == len(log.lines)
    assert sum(counts.disagreements.values()) == wrong
    assert sum(counts.set_aside.values()) == sum("no audit" in line for line in log.lines)
    assert (counts.lost_files, follower.shadow.lag.bytes) == (0, 0)


def test_log_that_was_renamed_or_truncated_between_two_readings_is_read_to_its_end(
    tmp_path: Path,
) -> None:
    """Of a log without a copy, the lines after the last reading are lost, which is counted."""
    log_dir = write_history(tmp_path / "log", STEPS, 2_000)
    log = tmp_path / "audit.log"
    follower = CrashingFollower(Random(0), log_dir, [log])
    write_lines(log, [line_at(10), line_at(11)])
    follower.step()
    with log.open("a") as file:
        file.write(line_at(12) + "\n" + line_at(13))  # nobody completes the last one
    log.rename(tmp_path / "audit.log.2026-10-14-17")
    (tmp_path / "audit.log.2026-10-14-17").unlink()  # the open file remains
    write_lines(log, [line_at(14)])
    follower.step()
    time.sleep(files.FINISHED_S)
    counts = settle(follower)
    assert (counts.lines, counts.lost_files) == (5, 0)
    log.write_text("")
    follower.step()
    write_lines(log, [line_at(15)])
    counts = settle(follower)
    assert (counts.lines, counts.lost_files) == (6, 1)
    assert [Path(each.path) for each in follower.shadow.state.files] == [log]


def test_log_that_was_read_further_than_its_copy_is_not_lost(tmp_path: Path) -> None:
    log_dir = write_history(tmp_path / "log", STEPS, 2_000)
    log = write_lines(tmp_path / "audit.log", [line_at(10)])
    follower = CrashingFollower(Random(0), log_dir, [f"{log}*"])
    follower.step()
    shutil.copyfile(log, tmp_path / "audit.log.1")
    write_lines(log, [line_at(10), line_at(11)])
    follower.step()
    write_lines(log, [line_at(12)])
    counts = settle(follower)
    assert (counts.lines, counts.lost_files) == (3, 0)


def test_log_that_is_missing_is_waited_for(tmp_path: Path) -> None:
    log_dir = write_history(tmp_path / "log", STEPS, 2_000)
    folder, away = tmp_path / "audit", tmp_path / "away"
    folder.mkdir()
    write_lines(folder / "audit.log", [line_at(10)])
    follower = CrashingFollower(Random(0), log_dir, [folder / "audit.log"])
    follower.step()
    folder.rename(away)
    follower.crash()
    assert settle(follower).lines == 1
    away.rename(folder)
    write_lines(folder / "audit.log", [line_at(10), line_at(11)])
    assert settle(follower) == Counts(
        agreed=2, judged_since_ms=START_MS + 10_000, judged_ms=START_MS + 11_000
    )


def test_line_waits_until_the_history_is_known_past_its_window(tmp_path: Path) -> None:
    """The ACL comes within the window, so judging the line earlier would find a difference."""
    log_dir = write_history(tmp_path / "log", [Step(0)], 104.9)
    log = write_lines(tmp_path / "audit.log", [line_at(10, allowed=False), line_at(100)])
    follower = CrashingFollower(Random(0), log_dir, [log])
    follower.step()
    state, lag = follower.shadow.state, follower.shadow.lag
    assert (state.counts.agreed, lag.lines, lag.history_ms) == (1, 1, START_MS + 104_900)
    assert lag.oldest_ms == START_MS + 100_000
    follower.crash()
    append(log_dir, batch(2, [added(1, ACL)], time_s=104.95))
    assert settle(follower).agreed == 1
    append(log_dir, batch(3, [METADATA_VERSION], time_s=105))
    assert settle(follower) == Counts(
        agreed=2, judged_since_ms=START_MS + 10_000, judged_ms=START_MS + 100_000
    )


def test_history_is_followed_through_growth_checkpoints_and_replacement(tmp_path: Path) -> None:
    log_dir = write_history(tmp_path / "log", [Step(0)], 10)
    reader = HistoryFollower(log_dir, "log")

    def read() -> tuple[list[list[Acl]], int]:
        reader.read(0)
        states = [list(each.acls.values()) for each in reader.history.snapshots()]
        return states, reader.offset

    assert read() == ([[]], 1)
    append(log_dir, batch(2, [added(1, ACL)], time_s=20))
    assert read() == ([[], [ACL]], 2)
    # The owner of the log replaces what was read, and continues.
    write_kafka_checkpoint(log_dir, 3, [added(1, ACL)], epoch=0, time_ms=START_MS + 20_000)
    write_segment(log_dir, 3, batch(3, [removed(1)], time_s=30))
    (log_dir / METADATA_TOPIC_DIRECTORY / segment_name(0)).unlink()
    assert read() == ([[], [ACL], []], 3)
    # It goes further than was read: the states between are unknown.
    write_kafka_checkpoint(log_dir, 9, [added(2, ACL)], epoch=0, time_ms=START_MS + 90_000)
    write_segment(log_dir, 9, batch(9, [removed(2)], time_s=95))
    (log_dir / METADATA_TOPIC_DIRECTORY / segment_name(3)).unlink()
    assert read() == ([[ACL], []], 9)
    assert reader.history.states[0].time_ms == START_MS + 90_000
    # Another batch has the same offset: a new leader has replaced the end of the log.
    segment = write_segment(log_dir, 9, batch(9, [METADATA_VERSION], time_s=0))
    assert read() == ([[ACL]], 9)
    # While it is missing, or begins again, what is known stays.
    segment.parent.rename(tmp_path / "away")
    with pytest.raises(AclSourceError, match="no metadata log"):
        read()
    write_segment(log_dir, 0, batch(0, [METADATA_VERSION], time_s=0))
    assert read() == ([[ACL]], 9)


def test_contradiction_in_the_history_is_reported_until_it_is_gone(
    tmp_path: Path, capsys: Capture
) -> None:
    log_dir = write_history(tmp_path / "log", STEPS)
    log = write_lines(tmp_path / "audit.log", [line_at(10)])
    follower = CrashingFollower(Random(0), log_dir, [log])
    follower.step()
    append(log_dir, batch(2, [removed(7)], time_s=600))
    write_lines(log, [line_at(10), line_at(550, allowed=False)])
    assert settle(follower).lines == 1
    assert capsys.readouterr().err.count("trying again") == 1
    write_history(tmp_path / "log", STEPS, 700)
    assert settle(follower).agreed == 2


def test_old_states_are_forgotten_unless_a_line_may_need_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "STATES_MAX", 10)
    toggled = [Step(n, ((added, removed)[n % 2](1),)) for n in range(31)]
    log_dir = write_history(tmp_path / "log", toggled)
    reader = HistoryFollower(log_dir, "log")
    reader.read(START_MS + 40_000)
    states = reader.history.states
    assert (len(states), states[0].time_ms) == (6, START_MS + 25_000)
    assert [len(each.acls) for each in reader.history.snapshots()] == [0, 1, 0, 1, 0, 1]
    reader = HistoryFollower(log_dir, "log")
    reader.read(START_MS + 3_500)
    assert reader.history.states[0].time_ms == START_MS + 3_000


def test_copy_of_listings_is_known_until_the_daemons_last_contact(tmp_path: Path) -> None:
    log_dir = write_history(tmp_path / "log", STEPS[:1])
    log = write_lines(tmp_path / "audit.log", [line_at(10), line_at(100)])
    state = tmp_path / "state"
    for contact, expected in (
        (None, 0),
        (Contact(START_MS + 20_000, 0), 1),
        (Contact(START_MS + 200_000, 1), 1),  # its files do not have offset 1 yet
        (Contact(START_MS + 200_000, 0), 2),
    ):
        shadow = new_shadow(state, log_dir, [log], ask=[contact].pop)
        shadow.step()
        shadow.close()
        assert shadow.state.counts.agreed == expected


def test_daemon_that_does_not_answer_only_delays(tmp_path: Path, capsys: Capture) -> None:
    log_dir = write_history(tmp_path / "log", STEPS[:1])
    log = write_lines(tmp_path / "audit.log", [line_at(10)])
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    ask = partial(ask_contact, HttpEndpoint(host="127.0.0.1", port=port))
    shadow = new_shadow(tmp_path / "s", log_dir, [log], ask=ask)
    shadow.step()
    assert (shadow.state.counts.lines, "refused" in capsys.readouterr().err) == (0, True)


def test_line_of_the_future_does_not_delay_the_others(tmp_path: Path) -> None:
    log_dir = write_history(tmp_path / "log", STEPS, 2_000)
    lines = [line_at(10), line_at(10**9), line_at(11)]
    log = write_lines(tmp_path / "audit.log", lines)
    follower = CrashingFollower(Random(0), log_dir, [log])
    follower.step()
    counts = follower.shadow.state.counts
    assert (counts.agreed, counts.not_judged) == (2, {AHEAD: 1})
    assert counts.judged_ms == START_MS + 11_000


def test_differences_are_logged_up_to_a_number_a_minute(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shadow, "MESSAGES_PER_MINUTE", 2)
    minutes = iter((0, 0, 0, 0, 60))
    monkeypatch.setattr(shadow, "_read_minute", lambda: next(minutes))
    log_dir = write_history(tmp_path / "log", STEPS, 2_000)
    others = [
        make_line(10 + n, question(f"User:{n}", topic="t"), "DefaultDeny", allowed=True)
        for n in range(5)
    ]
    log = write_lines(tmp_path / "audit.log", others)
    follower = CrashingFollower(Random(0), log_dir, [log])
    follower.step()
    printed = capsys.readouterr().out.splitlines()
    assert printed[2] == "authorizerd verify: 2 more differences"
    first = json.loads(printed[0])
    assert first["line"] == f"{log}:1"
    assert (first["recorded_allowed"], first["allowed"], first["rule"]) == (
        True,
        False,
        "DefaultDeny",
    )
    assert first["cause"] == Cause.UNKNOWN
    assert [json.loads(each)["principal"] for each in printed[:2] + printed[3:]] == [
        "User:0",
        "User:1",
        "User:4",
    ]
    latest = [each.principal for each in follower.shadow.state.latest]
    assert latest == ["User:4", "User:3", "User:2", "User:1", "User:0"]


def test_memory_for_lines_that_wait_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "READ_BYTES", 1_000)
    monkeypatch.setattr(files, "WAITING_BYTES_MAX", 2_500)
    log_dir = write_history(tmp_path / "log", STEPS, 12)
    lines = [line_at(10 + n / 8) for n in range(100)]
    log = write_lines(tmp_path / "audit.log", lines)
    follower = CrashingFollower(Random(0), log_dir, [log])
    follower.step()
    lag = follower.shadow.lag
    assert lag.bytes == log.stat().st_size
    assert 0 < lag.lines < 10
    write_history(tmp_path / "log", STEPS, 2_000)
    for _ in lines:
        follower.step()
    assert follower.shadow.state.counts.agreed == len(lines)


@pytest.mark.parametrize(("text", "error"), [
    (b"", "not a state file, or a damaged one: invalid JSON"),
    (b"\xff", "damaged one: invalid JSON.*: restore the file, or name another one"),
    (b'{"kind":"authorizerd verify --follow","version":1,"history"', "damaged one: invalid JSON"),
    (b'{"version":1,"history":"log","window_ms":1}', "damaged one: kind is missing"),
    (b'{"kind":"authorizerd verify --follow","version":1}', "damaged one: history is missing"),
    (b'{"kind":"other","version":1,"history":"log","window_ms":1}', "found 'other' version 1"),
    (b'{"kind":"authorizerd verify --follow","version":2}', "found .* version 2"),
    (
        b'{"kind":"authorizerd verify --follow","version":1,"history":"other","window_ms":1}',
        "the comparison with other",
    ),
])  # fmt: skip
def test_damaged_or_foreign_state_is_an_error(text: bytes, error: str, tmp_path: Path) -> None:
    (tmp_path / "state").write_bytes(text)
    with pytest.raises((TrafficError, AclSourceError), match=error):
        read_state(tmp_path / "state", State(history="log", window_ms=1))
    assert (tmp_path / "state").read_bytes() == text


def test_state_has_one_user(tmp_path: Path) -> None:
    with (
        hold_state(tmp_path / "state"),
        pytest.raises(TrafficError, match="in use"),
        hold_state(tmp_path / "state"),
    ):
        pass
    with hold_state(tmp_path / "state"):
        pass
    with pytest.raises(TrafficError, match="No such file"), hold_state(tmp_path / "none/state"):
        pass
    with pytest.raises(TrafficError, match="directory"):
        read_state(tmp_path, State(history="log", window_ms=1))
