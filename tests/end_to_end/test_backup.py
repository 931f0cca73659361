"""A daemon that writes, checkpoints and removes segments is backed up again and again."""

from contextlib import closing
from pathlib import Path
from threading import Event, Thread
from typing import Any

import msgspec
from confluent_kafka.admin import AdminClient

from authorizerd.cli.broker_acls import BrokerReader, run_on_brokers
from authorizerd.cli.change.apply_server import Answered, KafkaAclServer, Listed
from authorizerd.cli.main import main
from authorizerd.management.plan.changes import AclRequest
from authorizerd.metadata.backups.backup_reader import read_backup
from authorizerd.metadata.directory import find_files
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.daemon.decision_place import entry
from tests.support.acls import acl
from tests.support.admin_client import (
    binding,
    create_acls,
    delete_acls,
    describe_acls,
    filter_of,
    new_admin,
)
from tests.support.daemon_process import DaemonProcess, ask, new_log, running, wait_until
from tests.support.fixture_types import Capture
from tests.support.requests import evaluation

OFTEN = {
    "metadata.log.max.record.bytes.between.snapshots": "1",  # a checkpoint each second
    "metadata.max.retention.bytes": "1",
    "metadata.log.segment.bytes": "1024",
}
TOKEN = {"Authorization": "Bearer root.secret"}
BACKUPS = 10
CHECKPOINTS = 3
KEPT = 3


class Churn:
    """A client that creates the ACL of topic 1, 2, and so on, and deletes the oldest of four.

    ``asked`` is the newest that it may have created, ``acknowledged`` the newest that it has.
    """

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin
        self._is_over = Event()
        self._thread = Thread(target=self._run)
        self.asked = self.acknowledged = 0
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over.is_set():
            self.asked += 1
            assert create_acls(self._admin, binding(f"{self.asked}")) == [None]
            self.acknowledged = self.asked
            if self.asked > KEPT:
                delete_acls(self._admin, filter_of(f"{self.asked - KEPT}"))

    def close(self) -> None:
        self._is_over.set()
        self._thread.join()


def test_each_backup_of_a_live_daemon_is_a_state_that_it_had(
    tmp_path: Path, capsys: Capture
) -> None:
    """It has all that was acknowledged before, and nothing that was not asked for."""
    log_dir = new_log(tmp_path)
    offset, seen = -1, set[int]()
    with (
        running(tmp_path, log_dir, OFTEN, super_users="User:ANONYMOUS") as daemon,
        closing(Churn(new_admin(daemon))) as churn,
    ):
        number = 0
        while number < BACKUPS or len(seen) < CHECKPOINTS:
            before = churn.acknowledged
            out = tmp_path / f"{number}.checkpoint"
            assert main(["backup", "--log-dir", str(log_dir), str(out)]) == 0, capsys.readouterr()
            after = churn.asked
            backup = read_backup(out)
            topics = sorted(int(acl.resource_name) for acl in backup.state.acls.values())
            newest = max(topics, default=0)
            assert before <= newest <= after
            assert topics in (
                [*range(max(newest - KEPT, 0) + 1, newest + 1)],
                [*range(max(newest - KEPT, 1), newest + 1)],
            )
            assert backup.facts.offset >= offset
            offset = backup.facts.offset
            seen |= {each.end_offset for each in find_files(log_dir).checkpoints}
            number += 1
        wait_until(lambda: find_files(log_dir).segments[0].base_offset > 0, "segments are removed")


def evaluate(daemon: DaemonProcess, topic: str) -> Any:  # noqa: ANN401 - a JSON document
    body = msgspec.json.encode(evaluation("alice", topic=topic))
    headers = {**TOKEN, "Content-Type": "application/json"}
    return ask(daemon.decision, "POST", "/access/v1/evaluation", body, headers).json


def test_daemon_serves_exactly_the_restored_acls(tmp_path: Path, capsys: Capture) -> None:
    """Offsets go on: a client that has seen a later one is answered, and a watcher lists again."""
    log_dir, out = new_log(tmp_path), tmp_path / "out.checkpoint"
    kept, removed, lost = (binding(name) for name in ("kept", "removed", "lost"))
    with running(tmp_path, log_dir, super_users="User:ANONYMOUS") as daemon:
        admin = new_admin(daemon)
        assert create_acls(admin, kept, removed) == [None, None]
        assert main(["backup", "--log-dir", str(log_dir), str(out)]) == 0
        delete_acls(admin, filter_of("removed"))
        assert create_acls(admin, lost) == [None]
        offset = int(daemon.metric("authorizerd_snapshot_offset"))
        assert main(["restore", str(out), "--log-dir", str(log_dir)]) == 1
        assert "in use by another process" in capsys.readouterr().err
        assert daemon.stop()[0] == 0
    assert main(["restore", str(out), "--log-dir", str(log_dir)]) == 0
    assert "compared with the old log: 1 ACL added, 1 ACL removed\n" in capsys.readouterr().out
    tokens = tmp_path / "tokens"
    tokens.write_text(entry("root", "User:root"))
    more = {"authorizerd.tokens.file": str(tokens), "super.users": "User:ANONYMOUS;User:root"}
    with running(tmp_path, log_dir, more) as daemon:
        assert describe_acls(new_admin(daemon)) == {kept, removed}
        assert evaluate(daemon, "kept")["context"]["offset"] > offset
        assert evaluate(daemon, "removed")["decision"] is True
        assert evaluate(daemon, "lost")["decision"] is False
        assert ask(daemon.decision, "GET", f"/v1/watch?after={offset}", None, TOKEN).status == 410
        assert create_acls(new_admin(daemon), lost) == [None]
        assert describe_acls(new_admin(daemon)) == {kept, removed, lost}
        assert daemon.stop()[0] == 0
    assert main(["check-log", str(log_dir)]) == 0


def test_offset_of_before_a_restore_is_rejected_although_no_acl_is_left(tmp_path: Path) -> None:
    """A checkpoint without ACLs does not show that there were some before it."""
    log_dir, out = new_log(tmp_path), tmp_path / "out.checkpoint"
    listed: list[Listed] = []
    answers = []

    async def list_acls(reader: BrokerReader) -> None:
        listed.append(await KafkaAclServer(reader).list_acls())

    async def send(reader: BrokerReader) -> None:
        request = AclRequest("create_allow", (acl("User:a", topic="late"),))
        answers.append(await KafkaAclServer(reader).send(request, listed[0].offset))

    with running(tmp_path, log_dir, super_users="User:ANONYMOUS") as daemon:
        admin = new_admin(daemon)
        assert create_acls(admin, binding("seen")) == [None]
        run_on_brokers(daemon.ready["listeners"]["PLAINTEXT"], None, list_acls)
        delete_acls(admin, filter_of("seen"))
        assert main(["backup", "--log-dir", str(log_dir), str(out)]) == 0
    assert main(["restore", str(out), "--log-dir", str(log_dir)]) == 0
    with running(tmp_path, log_dir, super_users="User:ANONYMOUS") as daemon:
        run_on_brokers(daemon.ready["listeners"]["PLAINTEXT"], None, send)
        assert describe_acls(new_admin(daemon)) == set()
    (answer,) = answers
    assert isinstance(answer, Answered)
    assert [error.code for error in answer.errors] == [ErrorCode.INVALID_UPDATE_VERSION]
