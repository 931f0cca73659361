"""``authorizer.class.name`` in a real daemon: no authorizer, a custom one, and the built-in one."""

from pathlib import Path

from tests.support.admin_client import binding, create_acls, describe_acls, new_admin
from tests.support.daemon_process import DaemonProcess, new_log, run, running, write_config
from tests.support.requests import evaluation

SECURITY_DISABLED = 54
QUARANTINE = "tools.example.quarantine.QuarantineAuthorizer"


def is_allowed(daemon: DaemonProcess, user: str) -> bool:
    return daemon.evaluate(evaluation(user)).json["decision"] is True


def test_changing_the_authorizer_keeps_the_acls(tmp_path: Path) -> None:
    """Without an authorizer, everything is allowed and ACLs cannot be changed."""
    log_dir = new_log(tmp_path)
    orders = binding()
    with running(tmp_path, log_dir, super_users="User:ANONYMOUS") as daemon:
        assert create_acls(new_admin(daemon), orders) == [None]
        assert is_allowed(daemon, "alice")
        assert not is_allowed(daemon, "bob")
        assert daemon.stop()[0] == 0
    with running(tmp_path, log_dir, authorizer_class_name="") as daemon:
        ((code, text),) = create_acls(new_admin(daemon), binding("other"))
        assert (code, text) == (SECURITY_DISABLED, "No Authorizer is configured.")
        assert is_allowed(daemon, "bob")
        assert daemon.metric("authorizerd_acls") == -1
        exit_code, errors = daemon.stop()
        assert exit_code == 0
        assert "there is no authorizer, and everyone may do anything" in errors
    settings = {"authorizer.class.name": QUARANTINE, "quarantine.principals": "User:alice"}
    with running(tmp_path, log_dir, settings, super_users="User:ANONYMOUS") as daemon:
        assert not is_allowed(daemon, "alice")
        assert describe_acls(new_admin(daemon)) == {orders}
        assert daemon.metric("authorizerd_acls") == 1
        assert daemon.metric('authorizerd_purgatory_size{operation="acl-update"}') == 0
        assert daemon.stop()[0] == 0
    with running(tmp_path, log_dir, super_users="User:ANONYMOUS") as daemon:
        assert describe_acls(new_admin(daemon)) == {orders}
        assert is_allowed(daemon, "alice")
        assert daemon.stop()[0] == 0


def test_invalid_setting_of_an_authorizer_prevents_the_start_with_one_line(tmp_path: Path) -> None:
    settings = {"authorizer.class.name": QUARANTINE, "quarantine.principals": "mallory"}
    error = f"{QUARANTINE}: ValueError: quarantine.principals: mallory is not Type:name"
    config = write_config(tmp_path, new_log(tmp_path), settings)
    done = run("serve", "--config", config)
    assert (done.returncode, done.stderr) == (1, f"authorizerd: {error}\n")
