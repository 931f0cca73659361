"""``authorizerd sync`` as a process: its port, its log, signals and restarts."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from authorizerd.cli.sync.command import find_pause
from authorizerd.cli.sync.rounds import Outcome
from tests.cli.sync.stage import Stage
from tests.support.acls import acl
from tests.support.daemon_process import ask_at, new_log, running, wait_until
from tests.support.forked_command import StartedCommand, start_command
from tests.support.printed import run_main

ONE, TWO = acl("User:one"), acl("User:two")
EVIL = acl("User:\x1b[31mevil\u202e")


class Syncing:
    """A running ``authorizerd sync``."""

    def __init__(self, process: StartedCommand) -> None:
        self.process = process
        self.address = self.read_line()["metrics"].split("/")[2]

    def read_line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.strip().isprintable()
        found: dict[str, Any] = json.loads(line)
        return found

    def read_metric(self, name: str) -> float:
        text = ask_at(self.address, "GET", "/metrics").body.decode()
        (value,) = (
            line.split()[-1]
            for line in text.splitlines()
            if line.startswith(f"authorizerd_sync_{name} ")
        )
        return float(value)

    def check_health(self) -> tuple[int, str]:
        answer = ask_at(self.address, "GET", "/health")
        return answer.status, answer.body.decode()


@contextmanager
def syncing(stage: Stage, *flags: str) -> Iterator[Syncing]:
    words = stage.words("--interval", "1s", "--listen", "127.0.0.1:0", *flags)
    process = start_command(words, stdout=subprocess.PIPE)
    try:
        yield Syncing(process)
    finally:
        process.kill()
        process.communicate()
        process.wait()


def test_process_follows_the_files_and_survives_restarts(tmp_path: Path) -> None:
    with running(tmp_path, new_log(tmp_path), super_users="User:ANONYMOUS") as daemon:
        stage = Stage(daemon.ready["listeners"]["PLAINTEXT"], tmp_path, [])
        stage.want([ONE])
        with syncing(stage) as first:
            assert first.read_line()["created_acls"] == [str(ONE)]
            stage.want([TWO, EVIL])
            line = first.read_line()
            assert (line["event"], line["created"], line["deleted"]) == ("changed", 2, 1)
            wait_until(lambda: first.check_health()[0] == 200, "the health is good")
            assert first.read_metric("acls_created_total") == 3
            assert first.read_metric('blocked{reason="other"}') == 0
            stage.desired.write_text("")
            assert (
                "expected desired ACLs, found an empty file"
                in first.read_line()["reasons"]["other"]
            )
            assert first.read_metric('blocked{reason="other"}') == 1
            assert first.check_health() == (503, "the last round made no change: other\n")
            assert ask_at(first.address, "GET", "/").status == 404
            first.process.send_signal(signal.SIGKILL)
        stage.want([TWO])
        with syncing(stage) as second:
            assert second.read_line()["deleted"] == 1
            wait_until(lambda: second.check_health()[0] == 200, "the health is good")
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
    usual = {find_pause(10, Outcome.IN_STEP) for _ in range(100)}
    assert len(usual) == 100
    assert 9 <= min(usual) <= max(usual) <= 11
    raced = {find_pause(10, Outcome.RACED) for _ in range(100)}
    assert len(raced) == 100
    assert max(raced) <= 1
