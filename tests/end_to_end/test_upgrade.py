"""Files of earlier versions: what a new version reads, and what it continues."""

import shutil
from pathlib import Path

import pytest

from authorizerd.cli.main import main
from authorizerd.config.configuration import parse
from authorizerd.config.errors import ConfigurationError
from authorizerd.config.properties import parse_properties
from tests.support.admin_client import binding, create_acls, describe_acls, new_admin
from tests.support.daemon_process import running
from tests.support.fixture_types import Capture
from tests.support.requests import evaluation

UPGRADE = Path(__file__).parents[1] / "data" / "upgrade"
"""A log that version 0.1 wrote, with SCRAM users, and all keys of its configuration."""
USERS = {"User:alice", "User:*", "User:bob"}


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return Path(shutil.copytree(UPGRADE / "log-0.1", tmp_path / "log"))


def test_every_key_of_0_1_is_still_read() -> None:
    text = (UPGRADE / "server-0.1.properties").read_text()
    configuration = parse(text, source="server-0.1.properties")
    assert configuration.ignored_keys == ()
    assert len(parse_properties(text, source="")) == 35
    assert configuration.file_values["super.users"] == "User:root;User:admin"
    assert configuration.audit_log == "audit.log"


def test_value_that_0_1_accepted_is_rejected_by_its_key() -> None:
    text = (UPGRADE / "server-0.1.properties").read_text()
    changed = text.replace("update.timeout.ms=30000", "update.timeout.ms=50")
    with pytest.raises(ConfigurationError, match="100") as rejected:
        parse(changed, source="server.properties")
    assert rejected.value.key == "authorizerd.update.timeout.ms"


def test_log_of_0_1_is_valid_and_continues(log_dir: Path, tmp_path: Path, capsys: Capture) -> None:
    assert main(["check-log", str(log_dir)]) == 0
    with running(tmp_path, log_dir, super_users="User:ANONYMOUS") as daemon:
        admin = new_admin(daemon)
        assert {each.principal for each in describe_acls(admin)} == USERS
        for user, expected in (("alice", True), ("bob", False), ("carol", False)):
            assert daemon.evaluate(evaluation(user)).json["decision"] is expected
        create_acls(admin, binding("new", principal="User:new"))
    with running(tmp_path, log_dir, super_users="User:ANONYMOUS") as daemon:
        assert {each.principal for each in describe_acls(new_admin(daemon))} == USERS | {"User:new"}
    assert main(["check-log", str(log_dir)]) == 0
    capsys.readouterr()
    assert main(["shell", "--log-dir", str(log_dir), "find", "/image/scram"]) == 0
    assert "dora" in capsys.readouterr().out
