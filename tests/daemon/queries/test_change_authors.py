"""A daemon names who changed its own log, and the author is certain."""

import json
from pathlib import Path
from typing import Any

import pytest

from authorizerd.acl.past import PastChange
from authorizerd.config.configuration import parse
from authorizerd.daemon.queries.change_authors import AuthorReader
from tests.support.acls import acl
from tests.support.admin_client import binding, create_acls, delete_acls, new_admin
from tests.support.daemon_process import DaemonProcess, ask_at, new_log, running, wait_until

CHANGE = PastChange(1, 0, True, bytes(16), acl(topic="t"))
QUESTION = {
    "subject": {"type": "user", "id": "alice"},
    "action": {"name": "read"},
    "resource": {"type": "topic", "id": "orders"},
    "context": {"as_of": 0},
}


def ask(daemon: DaemonProcess, path: str) -> Any:  # noqa: ANN401 - JSON
    address, body = daemon.ready["decision_http"], json.dumps(QUESTION).encode()
    answer = ask_at(address, "POST", path, body, {"Content-Type": "application/json"})
    assert answer.status == 200
    return json.loads(answer.body)


@pytest.mark.parametrize("format", ["kafka", "json"])
def test_daemon_knows_who_changed_its_own_log(format: str, tmp_path: Path) -> None:
    """The audit log is at level INFO, so it has no line of an allowed request itself."""
    log = tmp_path / "audit.log"
    settings = {"authorizerd.audit.log": str(log), "authorizerd.audit.format": format}
    with running(tmp_path, new_log(tmp_path), settings, super_users="User:ANONYMOUS") as daemon:
        admin = new_admin(daemon)
        create_acls(admin, binding("orders"))
        delete_acls(admin)
        create_acls(admin, binding("orders"))
        create_acls(admin, binding("orders"))  # changes nothing
        wait_until(lambda: log.read_bytes().count(b"\n") >= 3, "lines of three changes")
        answers = ask(daemon, "/v1/history")["answers"]
        assert [each["decision"] for each in answers] == [False, True, False, True]
        by = {
            "certainty": "written", "principals": ["User:ANONYMOUS"], "by_way_of": None,
            "reason": "",
        }  # fmt: skip
        assert [each["change"]["by"] for each in answers[1:]] == [by] * 3
        assert ask(daemon, "/v1/explain")["as_of"]["now"]["since"]["by"] == by
        assert log.read_bytes().count(b"\n") == 3


def test_without_an_audit_log_nobody_is_looked_for() -> None:
    """A stream cannot be read again."""
    for line in ("", "authorizerd.audit.log=stdout\n"):
        configuration = parse(f"node.id=1\nlog.dirs=/log\n{line}", source="test")
        assert AuthorReader(configuration).read([CHANGE]) is None
