"""A watch of a topic of a real Kafka: it shows a denial, and survives kill -9."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from authorizerd.replay.ingest.commit import list_commits
from authorizerd.replay.plain_files import LocalFiles
from tests.conformance.audit_topic import AuditTopic

LOSES_ACCESS = "User:growth-svc-31"
TIMEOUT_SECONDS = 300.0
AUTHORIZERD = (sys.executable, "-P", "-m", "authorizerd.cli.main", "replay", "whatif")
NEW_DENIAL = (
    b"[2026-11-21 17:00:00,000] DEBUG Principal = User:zoe is Allowed operation = READ from host = "
    b"10.0.0.9 on resource = Topic:LITERAL:plans for request = Fetch with resourceRefCount = 1 "
    b"based on rule DefaultAllow (kafka.authorizer.logger)"
)
NO_AUDIT_LINE = b"[2026-11-21 17:00:00,000] INFO Stopping (kafka.server.KafkaServer)"


@pytest.fixture
def candidate(real_log_dir: Path, tmp_path: Path) -> Path:
    """Return the broker's ACLs, without those of one principal."""
    listed = (real_log_dir / "acls-list.txt").read_text().splitlines(keepends=True)
    kept = tmp_path / "candidate.txt"
    kept.write_text("".join(line for line in listed if f"principal={LOSES_ACCESS}," not in line))
    return kept


class Watch:
    """The command that watches the topic; its job is a process group of its own."""

    def __init__(self, words: Sequence[str | Path], folder: Path) -> None:
        self._process = subprocess.Popen(
            words,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "TMPDIR": str(folder)},
        )

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def kill_job(self) -> str:
        """Kill Spark and its driver, and return what the command printed."""
        task = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        (job,) = task.read_text().split()
        os.killpg(int(job), signal.SIGKILL)
        return self._process.communicate(timeout=TIMEOUT_SECONDS)[0]

    def end(self, number: signal.Signals) -> tuple[int, str]:
        """Send a signal; return the exit code and what the command printed."""
        self._process.send_signal(number)
        said = self._process.communicate(timeout=TIMEOUT_SECONDS)[0]
        return self._process.returncode, said

    def stop(self) -> None:
        """End the command and its job, whatever they are doing."""
        if self.is_running:
            for _ in range(2):
                self._process.send_signal(signal.SIGTERM)
                time.sleep(0.5)
            self._process.communicate(timeout=TIMEOUT_SECONDS)


class Watched:
    """A topic, and the watch that reads it."""

    def __init__(self, topic: AuditTopic, out: Path, words: Sequence[str | Path]) -> None:
        self.out = out
        self._words = words
        self.watch = Watch(words, out.parent)
        self.feed = topic.feed

    def restart(self) -> None:
        self.watch = Watch(self._words, self.out.parent)

    def report(self, name: str) -> dict[str, Any]:
        """Return a report, or an empty one if there is none yet."""
        try:
            report: dict[str, Any] = json.loads((self.out / f"{name}.json").read_text())
        except FileNotFoundError:
            return {}
        return report

    def wait_for(self, reached: Callable[[], object], what: str) -> float:
        """Wait until ``reached`` returns a true value, and return the seconds that it took."""
        began = time.monotonic()
        while not reached():
            assert self.watch.is_running, self.watch.end(signal.SIGTERM)[1]
            assert time.monotonic() - began < TIMEOUT_SECONDS, f"no {what}"
            time.sleep(0.02)
        return time.monotonic() - began

    def wait_for_lines(self, count: int) -> None:
        self.wait_for(lambda: self.report("whatif").get("events") == count, f"{count} events")

    def batch(self) -> int:
        """Return the number of the last commit: the first one has no batch."""
        return max(list_commits(LocalFiles(), str(self.out / "follow")), default=0)


@pytest.fixture
def watched(
    audit_topic: AuditTopic, connector: str, candidate: Path, tmp_path: Path
) -> Iterator[Watched]:
    out = tmp_path / "out"
    words: list[str | Path] = [
        *(*AUTHORIZERD, "--follow", audit_topic.uri, "--interval", "2s", "--from-beginning"),
        *("--command-config", audit_topic.client_config, "--out", out),
        *("--acls", candidate, "--super-users", "User:admin", "--conf", f"spark.jars={connector}"),
    ]
    watched = Watched(audit_topic, out, words)
    yield watched
    watched.watch.stop()


def test_watch_shows_new_denial_and_counts_each_line_once_after_kills(
    watched: Watched, audit_lines: list[bytes], candidate: Path, tmp_path: Path
) -> None:
    """The report equals that of the same lines in a file, which the local engine reads."""
    watched.feed(audit_lines[:3000])
    watched.wait_for_lines(3000)
    # Between the commit and the reports of a batch.
    before = watched.batch()
    watched.feed(audit_lines[3000:6000])
    watched.wait_for(lambda: watched.batch() > before, "batch")
    said = watched.watch.kill_job()
    assert "exit code -9" in said
    watched.feed(audit_lines[6000:9000])
    watched.restart()
    watched.wait_for_lines(9000)
    # In the middle of a batch, before its commit.
    watched.feed(audit_lines[9000:])
    written = f"tuples/run={watched.batch() + 1:08}-*"
    watched.wait_for(lambda: [*(watched.out / "follow").glob(written)], "next batch")
    watched.watch.kill_job()
    watched.restart()
    watched.wait_for_lines(len(audit_lines))
    watched.feed([NEW_DENIAL, NO_AUDIT_LINE])
    seconds = watched.wait_for(
        lambda: "User:zoe" in json.dumps(watched.report("whatif")), "denial in the report"
    )
    print(f"a denial showed in the report after {seconds:.1f} s, at an interval of 2 s")  # noqa: T201 - a figure, which decides nothing
    watched.wait_for(lambda: watched.report("ingest")["lines"] == len(audit_lines) + 2, "last line")
    code, said = watched.watch.end(signal.SIGTERM)
    assert code == 3
    assert "newly denied: User:zoe READ TOPIC plans from 10.0.0.9: DefaultDeny\n" in said
    assert f"newly denied: {LOSES_ACCESS} " in said
    assert watched.report("ingest")["reasons"] == {"no_decision": 1}
    log = tmp_path / "audit.log"
    log.write_bytes(b"\n".join([*audit_lines, NEW_DENIAL, NO_AUDIT_LINE]) + b"\n")
    local = tmp_path / "local"
    words: list[str | Path] = [
        *AUTHORIZERD,
        "--logs",
        log,
        "--acls",
        candidate,
        "--super-users",
        "User:admin",
    ]
    subprocess.run([*words, "--engine", "local", "--out", local], check=False, timeout=60)
    assert (watched.out / "whatif.json").read_text() == (local / "whatif.json").read_text()
    # No secret of the client settings is in what the watch wrote.
    secret = "admin-secret"
    assert secret not in said
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and "authorizerd-" in str(path)]
    assert kept, "the logs of the killed jobs"
    for path in [*watched.out.rglob("*.json"), *kept]:
        assert secret.encode() not in path.read_bytes(), path
