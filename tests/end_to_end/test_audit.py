"""The audit of a real daemon: rotated under its workers, and required of it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.end_to_end.test_durability import new_log
from tests.end_to_end.test_workers import two_workers
from tests.end_to_end.worker_processes import wait_until
from tests.support.daemon_process import running

READ_ORDERS = {
    "subject": {"type": "user", "id": "alice"},
    "action": {"name": "read"},
    "resource": {"type": "topic", "id": "orders"},
}


def test_workers_follow_a_file_that_is_moved(tmp_path: Path) -> None:
    """With no signal and no line lost; what is shown of a name is the same from each of them."""
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
                assert daemon.evaluate(READ_ORDERS).json["decision"] is False
                daemon.decision.close()  # the next one goes to either worker
        assert daemon.stop()[0] == 0
    lines = [
        json.loads(line)
        for file in tmp_path.glob("audit.log*")
        for line in file.read_text().splitlines()
    ]
    assert len(lines) == 40
    assert {line["principal"][:10] for line in lines} == {"User:hmac-"}
    assert len({line["principal"] for line in lines}) == 1


def test_a_required_audit_that_cannot_be_kept_refuses_until_it_can(tmp_path: Path) -> None:
    """By itself, and without a line lost; it is said once that it fails, and once that it ended."""
    folder = tmp_path / "logs"
    folder.mkdir()
    audit = folder / "audit.log"
    settings = {"authorizerd.audit.log": str(audit), "authorizerd.audit.required": "true"}
    with running(tmp_path, new_log(tmp_path), settings) as daemon:
        folder.rename(tmp_path / "gone")
        wait_until(lambda: daemon.metric("authorizerd_audit_failing") == 1, "it is found out")
        refused = daemon.evaluate(READ_ORDERS)
        assert (refused.status, refused.headers["Content-Type"]) == (
            503,
            "text/plain; charset=utf-8",
        )
        folder.mkdir()
        wait_until(lambda: daemon.metric("authorizerd_audit_failing") == 0, "and its end")
        assert daemon.evaluate(READ_ORDERS).json["decision"] is False
        code, errors = daemon.stop()
    assert code == 0
    assert len(audit.read_text().splitlines()) == 1
    assert errors.count("lines cannot be written now") == 1
    assert errors.count("lines are written again; lost meanwhile: 0") == 1
