"""Rounds of ``authorizerd sync`` on a real daemon: what they change, and when they change none."""

from __future__ import annotations

import json
import math
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from authorizerd.cli.change.apply_server import Answered, KafkaAclServer, Unanswered
from authorizerd.cli.errors import CommandError
from authorizerd.cli.sync import rounds
from authorizerd.cli.sync.rounds import Outcome, Rounds
from authorizerd.management.plan.changes import AclRequest
from tests.cli.change.acl_servers import some_acls
from tests.cli.sync.stage import Stage, watch_plans
from tests.support.acls import acl
from tests.support.daemon_process import DaemonProcess, closed_address
from tests.support.printed import run_main

BEFORE = some_acls(range(12))
AFTER = some_acls(range(3, 15))
OTHER = acl("User:other", topic="other")


@pytest.fixture
def stage(shared_daemon: DaemonProcess, tmp_path: Path) -> Stage:
    stage = Stage(shared_daemon.ready["listeners"]["PLAINTEXT"], tmp_path, BEFORE)
    stage.want(AFTER)
    return stage


def test_round_makes_the_acls_as_desired_and_the_next_one_finds_nothing_to_do(stage: Stage) -> None:
    (line,) = stage.once()
    assert (line["event"], line["created"], line["deleted"], line["left"]) == ("changed", 3, 3, 0)
    assert stage.acls == set(AFTER)
    assert stage.once() == []


def test_dry_run_changes_nothing(stage: Stage) -> None:
    (line,) = stage.once("--dry-run")
    assert (line["event"], line["created"], line["deleted"]) == ("dry run", 3, 3)
    assert stage.acls == set(BEFORE)


def use_tests(stage: Stage, text: str) -> None:
    path = stage.folder / "tests.yaml"
    path.write_text(text)
    stage.flags += ["--tests", path]


def use_traffic(stage: Stage) -> None:
    path = stage.folder / "audit.log"
    path.write_text(
        "[2026-11-21 16:26:26,966] DEBUG Principal = User:u1 is Allowed operation = READ from host "
        "= 10.0.0.7 on resource = Topic:LITERAL:t1 for request = Fetch with resourceRefCount = 1 "
        "(kafka.authorizer.logger)\n"
    )
    stage.flags += ["--traffic", path]


BLOCKED, FAILED = 3, 1


@pytest.mark.parametrize(("obstruct", "code", "reason"), [
    (lambda stage: stage.desired.unlink(), FAILED, "other"),
    (lambda stage: stage.desired.write_text(""), FAILED, "other"),
    (lambda stage: stage.desired.write_text("acls: [{"), FAILED, "other"),
    (lambda stage: stage.want(BEFORE[:2]), BLOCKED, "removals"),
    (lambda stage: stage.want([]) or stage.desired.rename(stage.desired), FAILED, "other"),
    (lambda stage: use_tests(stage, "tests: [u1 may READ topic t1]"), BLOCKED, "tests"),
    (lambda stage: use_tests(stage, "tests: [u1 may dance]"), FAILED, "other"),
    (lambda stage: use_tests(stage, ""), FAILED, "other"),
    (use_traffic, BLOCKED, "traffic"),
    (lambda stage: stage.flags.extend(["--traffic", "nowhere.log"]), FAILED, "other"),
    (lambda stage: stage.flags.extend(["--bootstrap-server", closed_address()]), FAILED, "other"),
])  # fmt: skip
def test_obstacle_changes_nothing(
    stage: Stage, obstruct: Callable[[Stage], object], code: int, reason: str
) -> None:
    obstruct(stage)
    (line,) = stage.once(code=code)
    assert line["event"] == "blocked"
    assert set(line["reasons"]) == {reason}
    assert stage.acls == set(BEFORE)
    assert stage.blocked.exists() is (code == BLOCKED)


def test_blocked_plan_replaces_no_other_file(stage: Stage) -> None:
    stage.blocked.write_text("by hand")
    stage.want(BEFORE[:2])
    (line,) = stage.once(code=BLOCKED)
    assert set(line["reasons"]) == {"removals", "other"}
    assert "--blocked-plan" in line["reasons"]["other"]
    assert stage.blocked.read_text() == "by hand"


def test_removals_are_accepted_by_their_digest_only(stage: Stage) -> None:
    stage.want(BEFORE[:2])
    (line,) = stage.once(code=BLOCKED)
    digest = line["reasons"]["removals"].rpartition(" ")[2]
    stage.want(BEFORE[:1])
    stage.once("--accept-removals", digest, code=BLOCKED)
    stage.want([*BEFORE[:2], OTHER])  # what is created does not matter
    stage.once("--accept-removals", digest)
    assert stage.acls == {*BEFORE[:2], OTHER}


def test_blocked_plan_can_be_reviewed_and_applied(stage: Stage) -> None:
    stage.want(BEFORE[:2])
    rounds = stage.new_rounds()
    assert rounds.run() is Outcome.BLOCKED
    assert rounds.status.reasons.keys() == {"removals"}
    run_main("acls", "apply", stage.blocked, "--bootstrap-server", stage.address)
    assert stage.acls == set(BEFORE[:2])
    assert rounds.run() is Outcome.IN_STEP
    assert not rounds.status.reasons


def test_acls_are_listed_only_if_a_file_or_an_acl_has_changed(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change_nothing() -> None:
        pass

    patient, listings = stage.new_rounds(), watch_plans(monkeypatch)
    changes: list[tuple[Callable[[], None], int]] = [
        (change_nothing, 1),
        (change_nothing, 2),  # after its own changes
        (change_nothing, 2),
        (lambda: stage.want([*AFTER, OTHER]), 3),
        (change_nothing, 4),
        (lambda: stage.set_acls([OTHER]), 5),
        (change_nothing, 6),
        (change_nothing, 6),
    ]
    for change, number in changes:
        change()
        assert patient.run() is Outcome.IN_STEP
        assert len(listings) == number
        assert stage.acls >= set(AFTER)
    assert (patient.status.created, patient.status.deleted) == (3 + 1 + 12, 3)


def test_acls_of_brokers_are_listed_now_and_then(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They do not tell an offset."""
    monkeypatch.setattr(Rounds, "_read_offset", lambda self: None)
    patient, listings = stage.new_rounds(), watch_plans(monkeypatch)
    for _ in range(5):
        patient.run()
    assert len(listings) == 1
    monkeypatch.setattr(rounds, "LOOK_SHARE", math.inf)
    stage.set_acls([])
    stage.want([*AFTER, OTHER])
    patient.run()
    stage.set_acls(AFTER)
    patient.run()
    assert stage.acls == {*AFTER, OTHER}
    assert len(listings) == 3


@pytest.mark.parametrize("has_offset", [True, False])
def test_plan_that_raced_is_made_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, has_offset: bool
) -> None:
    patient = stage.new_rounds()
    if not has_offset:
        monkeypatch.setattr(Rounds, "_read_offset", lambda self: None)
    watch_plans(monkeypatch, lambda: stage.set_acls([*BEFORE, OTHER]))
    assert patient.run() is Outcome.RACED
    assert stage.acls == {*BEFORE, OTHER}
    watch_plans(monkeypatch)
    assert patient.run() is Outcome.IN_STEP
    assert stage.acls == set(AFTER)
    assert patient.status.races == 1


def test_plan_that_could_not_be_made_is_made_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, a round that fails would pass for one that found nothing to do."""

    def fail() -> None:
        raise CommandError("the broker has gone")

    patient = stage.new_rounds()
    for _ in range(2):
        assert patient.run() is Outcome.IN_STEP
    stage.set_acls(BEFORE)
    watch_plans(monkeypatch, fail)
    assert patient.run() is Outcome.FAILED
    assert patient.status.reasons == {"other": "the broker has gone"}
    watch_plans(monkeypatch)
    assert patient.run() is Outcome.IN_STEP
    assert stage.acls == set(AFTER)


def test_two_processes_with_the_same_files_do_not_undo_each_other(stage: Stage) -> None:
    both = [stage.new_rounds(), stage.new_rounds()]
    for desired in (AFTER, [*AFTER, OTHER], AFTER):
        stage.want(desired)
        for _ in range(2):
            for each in both:
                assert each.run() is Outcome.IN_STEP
        assert stage.acls == set(desired)
    assert sum(each.status.created for each in both) == 4


def test_signal_waits_for_the_request_in_flight_and_a_restart_continues(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    send = KafkaAclServer.send

    async def send_and_signal(
        self: KafkaAclServer, request: AclRequest, expected: int | None
    ) -> Answered | Unanswered:
        os.kill(os.getpid(), signal.SIGTERM)
        return await send(self, request, expected)

    stage.want(AFTER[3:])
    patient = stage.new_rounds()
    monkeypatch.setattr(KafkaAclServer, "send", send_and_signal)
    assert patient.run() is Outcome.FAILED
    line = json.loads(capsys.readouterr().out)
    assert (line["event"], line["created"], line["left"]) == ("interrupted", 1, 8)
    assert len(stage.acls) == len(BEFORE) + 1
    monkeypatch.undo()
    (line,) = stage.once("--max-removals", "9")
    assert (line["created"] + line["deleted"], line["left"]) == (8, 0)
    assert stage.acls == set(AFTER[3:])
