"""The audit log of a real daemon: rotation with workers, and a required audit that fails."""

import json
from pathlib import Path

from tests.end_to_end.worker_processes import two_workers
from tests.support.daemon_process import ask, new_log, running, wait_until
from tests.support.requests import evaluation


def test_workers_reopen_a_moved_file(tmp_path: Path) -> None:
    """They need no signal and lose no line. All workers hash a name to the same value."""
    audit, secret = tmp_path / "audit.log", tmp_path / "secret"
    secret.write_text("0123456789abcdef")
    secret.chmod(0o600)
    settings = {
        "authorizerd_audit_log": str(audit),
        "authorizerd_audit_format": "json",
        "authorizerd_audit_mask_principal": "hash",
        "authorizerd_audit_mask_secret_file": str(secret),
    }
    with two_workers(tmp_path, new_log(tmp_path), **settings) as daemon:
        for part in range(4):
            if part:
                audit.rename(tmp_path / f"audit.log.{part}")
            for _ in range(10):
                assert daemon.evaluate(evaluation()).json["decision"] is False
                daemon.decision.close()  # the next connection goes to either worker
        assert daemon.stop()[0] == 0
    lines = [
        json.loads(line)
        for file in tmp_path.glob("audit.log*")
        for line in file.read_text().splitlines()
    ]
    assert len(lines) == 40
    assert {line["principal"][:10] for line in lines} == {"User:hmac-"}
    assert len({line["principal"] for line in lines}) == 1


def test_decisions_are_refused_while_a_required_audit_fails(tmp_path: Path) -> None:
    """The daemon recovers by itself, loses no line, and logs the failure and its end once."""
    folder = tmp_path / "logs"
    folder.mkdir()
    audit = folder / "audit.log"
    settings = {"authorizerd.audit.log": str(audit), "authorizerd.audit.required": "true"}
    with running(tmp_path, new_log(tmp_path), settings) as daemon:
        folder.rename(tmp_path / "gone")
        wait_until(
            lambda: daemon.metric("authorizerd_audit_failing") == 1, "the failure is noticed"
        )
        refused = daemon.evaluate(evaluation())
        assert (refused.status, refused.headers["Content-Type"]) == (
            503,
            "text/plain; charset=utf-8",
        )
        assert daemon.metric("authorizerd_ready") == 0
        readiness = ask(daemon.admin, "GET", "/readyz")
        assert (readiness.status, readiness.body) == (
            503,
            b"decisions are refused: the audit log is required, but cannot be written\n",
        )
        folder.mkdir()
        wait_until(lambda: daemon.metric("authorizerd_audit_failing") == 0, "the audit works again")
        assert daemon.metric("authorizerd_ready") == 1
        assert daemon.evaluate(evaluation()).json["decision"] is False
        code, errors = daemon.stop()
    assert code == 0
    assert len(audit.read_text().splitlines()) == 1
    assert errors.count("lines cannot be written now") == 1
    assert errors.count("lines are written again; lost meanwhile: 0") == 1
