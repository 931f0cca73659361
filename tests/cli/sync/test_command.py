"""``authorizerd sync`` as a process: its port, its log, signals and restarts."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from authorizerd.cli.sync.command import find_pause
from authorizerd.cli.sync.rounds import Outcome
from tests.cli.sync.stage import Stage
from tests.cli.sync.syncing import syncing
from tests.support.acls import acl
from tests.support.daemon_process import new_log, running
from tests.support.printed import run_main

ONE, TWO = acl("User:one"), acl("User:two")
EVIL = acl("User:\x1b[31mevil\u202e")


def test_process_follows_the_files_and_survives_restarts(tmp_path: Path) -> None:
    with running(tmp_path, new_log(tmp_path), super_users="User:ANONYMOUS") as daemon:
        stage = Stage(daemon.ready["listeners"]["PLAINTEXT"], tmp_path, [])
        stage.want([ONE])
        with syncing(tmp_path, stage.words()) as first:
            assert first.read_line()["created_acls"] == [str(ONE)]
            stage.want([TWO, EVIL])
            line = first.read_line()
            assert (line["event"], line["created"], line["deleted"]) == ("changed", 2, 1)
            first.wait_until_in_step()
            assert first.read_metric("acls_created_total") == 3
            assert first.read_metric('blocked{reason="other"}') == 0
            stage.desired.write_text("")
            assert (
                "expected desired ACLs, found an empty file"
                in first.read_line()["reasons"]["other"]
            )
            assert first.read_metric('blocked{reason="other"}') == 1
            assert first.check_health() == (503, "the last round made no change: other\n")
            first.process.send_signal(signal.SIGKILL)
        stage.want([TWO])
        with syncing(tmp_path, stage.words()) as second:
            assert second.read_line()["deleted"] == 1
            second.wait_until_in_step()
            second.process.send_signal(signal.SIGTERM)
            assert second.read_line()["event"] == "ended"
            assert second.process.wait() == 0
        assert stage.acls == {TWO}


@pytest.mark.parametrize(("flags", "reason"), [
    (["--accept-removals", "x"], "--accept-removals: expected --once as well"),
    (["--listen", "0.0.0.0:1"], "expected a loopback address"),
    (["--interval", "0s"], "expected a time such as 30s"),
    (["--max-removals", "-1"], "expected a number"),
    (["--max-shrink", "2"], "expected a number from 0 to 1"),
    (["--log-dir", "x"], "sync changes ACLs through servers"),
    ([], "expected --bootstrap-server HOST:PORT, or a profile"),
])  # fmt: skip
def test_invalid_arguments_are_rejected(
    flags: list[str], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AUTHORIZERD_PROFILE", raising=False)
    assert reason in run_main("sync", "desired.yaml", *flags, code=2).err


def test_pauses_differ_and_are_short_after_a_race() -> None:
    usual = {find_pause(10, Outcome.IN_STEP, 2) for _ in range(100)}
    assert len(usual) == 100
    assert 7 <= min(usual) <= max(usual) <= 9
    assert 0.9 <= find_pause(10, Outcome.IN_STEP, 60) <= 1.1
    raced = {find_pause(10, Outcome.RACED, 2) for _ in range(100)}
    assert len(raced) == 100
    assert max(raced) <= 1
