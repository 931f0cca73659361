"""``verify --follow`` as a process beside a daemon, and what it refuses."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from authorizerd.cli.main import main
from authorizerd.protocol.verification import Findings, decode_findings
from tests.ops.replay.verify.scripted_broker import Step, write_history
from tests.support.daemon_process import ask_at, new_log, run, running, wait_until
from tests.support.fixture_types import Capture
from tests.support.forked_command import StartedCommand, start_command
from tests.support.requests import evaluation

CHANGE = 2
"""The lines of a change of ACLs: one for each of its two requests."""
ALICE = ("--allow-principal", "User:alice", "--operation", "read", "--topic", "orders")


class Verifier:
    """A running ``verify --follow``."""

    def __init__(self, process: StartedCommand) -> None:
        self.process = process
        assert process.stdout is not None
        first = process.stdout.readline()
        self._address = first.strip().removeprefix("authorizerd verify: metrics at http://")
        self._address = self._address.removesuffix("/metrics")

    def read(self) -> dict[tuple[str, ...], float]:
        """Return the metrics' values, by name and the values of labels (reason, result)."""
        text = ask_at(self._address, "GET", "/metrics").body.decode()
        return {
            (sample.name.removeprefix("authorizerd_"), *sample.labels.values()): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def wait_for(self, *key: str, value: float) -> None:
        wait_until(lambda: self.read().get(key, 0) == value, f"{key} is {value}")

    def end(self, number: signal.Signals) -> tuple[int, str]:
        self.process.send_signal(number)
        output, _ = self.process.communicate(timeout=30)
        return self.process.wait(), output


@contextmanager
def verifying(*words: str | Path) -> Iterator[Verifier]:
    fixed = ("--follow", "--listen", "127.0.0.1:0", "--window", "1s")
    process = start_command(["verify", *fixed, *words], stdout=subprocess.PIPE)
    try:
        yield Verifier(process)
    finally:
        process.kill()
        if process.stdout is not None and not process.stdout.closed:
            process.communicate()
        process.wait()


def test_daemons_decisions_are_counted_once_while_both_are_restarted(tmp_path: Path) -> None:
    """The daemon has a log of its own; its audit log is rotated while nobody reads it."""
    audit, state, log_dir = tmp_path / "audit.log", tmp_path / "state", new_log(tmp_path)
    settings = {
        "authorizerd.audit.log": str(audit), "authorizerd.audit.level": "DEBUG",
        "super.users": "User:ANONYMOUS",
        "listeners": "PLAINTEXT://127.0.0.1:0",
    }  # fmt: skip
    words = ("--logs", audit, "--log-dir", log_dir, "--state", state)
    known = ("--super-users", "User:ANONYMOUS", "--allow-everyone-if-no-acl-found", "false")
    agreed = ("verified_decisions_total", "", "agreed")
    asked = 0

    def ask(times: int) -> None:
        nonlocal asked
        asked += times
        for _ in range(times):
            assert daemon.evaluate(evaluation()).status == 200

    def count_decisions() -> int:
        """Count the lines, without the one that names the offset of the change."""
        texts = (path.read_text() for path in tmp_path.glob("audit.log*"))
        return sum(line.count("based on rule") for text in texts for line in text.splitlines())

    def wait_until_counted(verifier: Verifier) -> None:
        """Wait until all decisions are written, with those of the change of ACLs, and agree."""
        wait_until(lambda: count_decisions() == asked + CHANGE, "all lines are written")
        verifier.wait_for(*agreed, value=count_decisions())

    with running(tmp_path, log_dir, settings) as daemon:
        ask(3)
        admin = ("--daemon-metrics", daemon.ready["admin_http"])
        with verifying(*words, *known, *admin) as verifier:
            address = daemon.ready["listeners"]["PLAINTEXT"]
            assert run("acls", "--bootstrap-server", address, "--add", *ALICE).returncode == 0
            ask(3)
            wait_until_counted(verifier)
            code, _ = verifier.end(signal.SIGTERM)
            assert code == 0
        audit.rename(tmp_path / "audit.log.1")
        daemon.stop()
    with running(tmp_path, log_dir, settings) as daemon:
        admin = ("--daemon-metrics", daemon.ready["admin_http"])
        with verifying(*words, *known, *admin) as verifier:
            ask(2)
            wait_until_counted(verifier)
            verifier.end(signal.SIGKILL)
        ask(2)
        with verifying(*words, *known, *admin) as verifier:
            wait_until_counted(verifier)
            lines = audit.read_text().splitlines()
            with audit.open("a") as file:
                file.write(lines[-1].replace("alice", "mallory") + "\n")
            cause = "an ACL that the history lacks"
            verifier.wait_for("disagreements_total", cause, value=1)
            values = verifier.read()
            code, output = verifier.end(signal.SIGINT)
    assert code == 0
    found = json.loads(output)
    assert (found["principal"], found["recorded_allowed"], found["allowed"]) == (
        "User:mallory", True, False,
    )  # fmt: skip
    assert values["verified_decisions_total", "", "differed"] == 1
    assert values["verify_lost_files_total",] == values["verify_bytes_behind",] == 0
    assert values["verify_history_lag_seconds",] < 30
    saved = decode_findings(state.read_bytes(), Findings)
    assert saved.counts.agreed == count_decisions() - 1
    assert msgspec.to_builtins(saved.latest[0]) == found


def test_missing_logs_are_named_only_at_the_first_start(tmp_path: Path, capsys: Capture) -> None:
    log_dir = write_history(tmp_path / "log", [Step(0)])
    words = ("--logs", str(tmp_path / "none"), "--log-dir", str(log_dir))
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    assert main(["verify", "--follow", "--state", str(tmp_path / "state"), *words]) == 1
    assert "no files found" in capsys.readouterr().err
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
