"""``authorizer.class.name`` in a real daemon: none, one of somebody's own, and back."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.end_to_end.test_admin_clients import binding, created, described, new_log
from tests.support.daemon_process import DaemonProcess, run, running, write_config

SECURITY_DISABLED = 54
QUARANTINE = "ops.example.quarantine.QuarantineAuthorizer"


def new_admin(daemon: DaemonProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": daemon.ready["listeners"]["PLAINTEXT"]})


def is_allowed(daemon: DaemonProcess, name: str) -> bool:
    answer = daemon.evaluate(
        {
            "subject": {"type": "user", "id": name},
            "action": {"name": "read"},
            "resource": {"type": "topic", "id": "orders"},
        }
    )
    decision: bool = answer.json["decision"]
    return decision


def test_switching_there_and_back_leaves_the_acls_untouched(tmp_path: Path) -> None:
    """Without an authorizer all is open and ACLs are refused; with the built-in one all is back."""
    log_dir = new_log(tmp_path)
    orders = binding()
    with running(tmp_path, log_dir, super_users="User:ANONYMOUS") as daemon:
        assert created(new_admin(daemon), orders) == [None]
        assert is_allowed(daemon, "alice")
        assert not is_allowed(daemon, "bob")
        assert daemon.stop()[0] == 0
    with running(tmp_path, log_dir, authorizer_class_name="") as daemon:
        ((code, text),) = created(new_admin(daemon), binding("other"))
        assert (code, text) == (SECURITY_DISABLED, "No Authorizer is configured.")
        assert is_allowed(daemon, "bob")
        assert daemon.metric("authorizerd_acls") == -1
        exit_code, errors = daemon.stop()
        assert exit_code == 0
        assert "there is no authorizer, and everyone may do anything" in errors
    settings = {"authorizer.class.name": QUARANTINE, "quarantine.principals": "User:alice"}
    with running(tmp_path, log_dir, settings, super_users="User:ANONYMOUS") as daemon:
        assert not is_allowed(daemon, "alice")
        assert described(new_admin(daemon)) == {orders}
        assert daemon.metric("authorizerd_acls") == 1
        assert daemon.metric('authorizerd_purgatory_size{operation="acl-update"}') == 0
        assert daemon.stop()[0] == 0
    with running(tmp_path, log_dir, super_users="User:ANONYMOUS") as daemon:
        assert described(new_admin(daemon)) == {orders}
        assert is_allowed(daemon, "alice")
        assert daemon.stop()[0] == 0


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        (
            {"authorizer.class.name": "com.example.Mine"},
            "authorizer.class.name: com.example.Mine: there is no module com",
        ),
        (
            {"authorizer.class.name": QUARANTINE, "quarantine.principals": "mallory"},
            f"{QUARANTINE}: ValueError: quarantine.principals: mallory is not Type:name",
        ),
    ],
)
def test_an_authorizer_that_cannot_be_used_is_one_clear_line(
    tmp_path: Path, settings: dict[str, str], error: str
) -> None:
    """The daemon does not start with another one in its place."""
    config = write_config(tmp_path, new_log(tmp_path), settings)
    done = run("serve", "--config", config)
    assert (done.returncode, done.stderr) == (1, f"authorizerd: {error}\n")
