"""Where ``authorizerd verify`` finds logs, ACLs and settings, and how it shows the result."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from authorizerd.acl.decision import MatchingAcl
from authorizerd.acl.releases import Release
from authorizerd.cli import broker_acls
from authorizerd.cli.broker_acls import BrokerAnswer
from authorizerd.cli.main import main
from authorizerd.protocol.verification import Cause
from authorizerd.replay.verify.judging import NEWEST
from tests.ops.replay.verify.scripted_broker import (
    END_S,
    MORE,
    QUESTIONS,
    START_MS,
    STEPS,
    Broker,
    Step,
    acls_at,
    causes,
    record,
    run,
    write_history,
    write_lines,
)
from tests.support.acls import question, snapshot_of
from tests.support.daemon_process import COMMAND
from tests.support.fixture_types import Capture, MonkeyPatch


@pytest.mark.parametrize(("words", "cause"), [
    ((), None),
    (("--super-users", "User:b"), Cause.SUPER_USERS),
    (("--override", "super.users="), Cause.SUPER_USERS),
    (("--override", "authorizerd.kafka.release=4.3"), Cause.RELEASE),
])  # fmt: skip
def test_configuration_names_log_and_settings(
    words: tuple[str, ...], cause: Cause | None, tmp_path: Path, capsys: Capture
) -> None:
    log = write_history(tmp_path / "log", STEPS, END_S)
    config = write_lines(tmp_path / "server.properties", [
        "node.id=1", f"log.dirs={log}", "super.users=User:c",
        "allow.everyone.if.no.acl.found=false", "authorizerd.kafka.release=4.4",
    ])  # fmt: skip
    broker = Broker(STEPS, super_users=["User:c"], release=Release.KAFKA_4_4)
    record(broker, (*QUESTIONS, question("User:d", topic="ranged")))
    path = write_lines(tmp_path / "audit.log", broker.lines)
    code, document = run(capsys, "--logs", path, "--config", config, *words)
    assert (code, set(causes(document))) == ((0, set()) if cause is None else (3, {cause}))
    assert document["states"] == len(STEPS)


@pytest.mark.parametrize(("listed_s", "expected"), [
    (0, {Cause.HISTORY_LACKS: 2}),
    (1, {NEWEST: 2}),
])  # fmt: skip
def test_listing_of_brokers_says_when_it_was_made(
    listed_s: int, expected: dict[str, int], tmp_path: Path, capsys: Capture,
    monkeypatch: MonkeyPatch,
) -> None:  # fmt: skip
    """An ACL that the listing lacks may be a newer one, if the line is as young."""
    answer = BrokerAnswer(
        snapshot_of(*acls_at(STEPS, 0)), (), {"allow.everyone.if.no.acl.found": "false"}, ""
    )
    monkeypatch.setattr(broker_acls, "read_brokers", lambda *_: answer)
    clock_ms = START_MS + 10_000
    monkeypatch.setattr(time, "time_ns", lambda: clock_ms * 1_000_000)
    broker = Broker((*STEPS[:1], Step(1, (MORE,))))
    for at_s in (5 - 1 + listed_s, 5 - 1 + listed_s + 0.5):
        broker.answer(at_s, QUESTIONS[0])
        broker.answer(at_s, QUESTIONS[4])
    path = write_lines(tmp_path / "audit.log", broker.lines)
    words = ("--logs", path, "--bootstrap-server", "b:9092", "--json")
    code, document = run(capsys, *words)
    expected_code = 5 if NEWEST in expected else 3
    assert (code, document["agreed"]) == (expected_code, 2)
    assert causes(document) | document["not_judged"] == expected
    assert document["acls"] == "b:9092, listed at 2026-10-14T17:46:50.000Z"
    assert main(["verify", *map(str, words[:-1])]) == expected_code
    page = capsys.readouterr().out
    assert f"one state of the ACLs for all times ({document['acls']}): decisions before" in page


def test_page_shows_each_difference_in_standard_input(tmp_path: Path) -> None:
    broker = Broker((*STEPS[:2], Step(150, (MORE,)), *STEPS[2:]))
    for at_s in (10, 205, 206):
        for each in (question(topic="t"), question("User:c", topic="v")):
            broker.answer(at_s, each)
    log = write_history(tmp_path, STEPS, END_S)
    words = ("verify", "--logs", "-", "--log-dir", str(log), "--super-users=")
    text = "\n".join(broker.lines)
    done = subprocess.run(
        [*COMMAND, *words], input=text, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (3, "")
    assert (
        done.stdout
        == f"""\
6 events of 6 lines, from 2026-10-14T17:46:50.000Z to 2026-10-14T17:50:06.000Z
4 states of the ACLs ({log}), from offset 2 at 2026-10-14T17:46:40.000Z to offset 6 at \
2026-10-14T17:53:20.000Z; window 5 s
allow.everyone.if.no.acl.found is unknown: pass --allow-everyone-if-no-acl-found
judged: 6 events
agreed: 4 events
differences, an ACL that the history lacks: 2 events
  /dev/stdin:4: User:c READ TOPIC v from 10.0.0.1, 2 events
    recorded: Allowed, {MatchingAcl(MORE.acl)}
    here: Denied, DefaultDeny, since offset 2 at 2026-10-14T17:46:40.000Z
    likely: the recorded ACL is in no state
"""
    )
