"""A daemon that lists the ACLs of another daemon, which is a Kafka broker to it."""

import signal
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from authorizerd.acl.model import Acl, AclFilter
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.kafka_rig.properties import find_lasting_ports
from tests.support.acls import acl
from tests.support.daemon_process import DaemonProcess, new_log, running, wait_until
from tests.support.kafka_connection import KafkaConnection
from tests.support.requests import evaluation

READ, WRITE = acl("User:a", "READ", topic="t"), acl("User:a", "WRITE", topic="t")
ANONYMOUS = {"super.users": "User:ANONYMOUS"}


@contextmanager
def followed(folder: Path, port: int) -> Iterator[DaemonProcess]:
    """Run the daemon that owns the log, on a port that stays the same after a restart."""
    folder.mkdir(exist_ok=True)
    log = folder / "log" if (folder / "log").exists() else new_log(folder)
    with running(folder, log, {**ANONYMOUS, "listeners": f"PLAINTEXT://127.0.0.1:{port}"}) as other:
        yield other


@contextmanager
def following(folder: Path, port: int, **more: str) -> Iterator[DaemonProcess]:
    folder.mkdir(exist_ok=True)
    config: Mapping[str, str] = {
        **ANONYMOUS,
        "authorizerd.source": "brokers",
        "authorizerd.source.bootstrap.servers": f"127.0.0.1:{port}",
        "authorizerd.source.poll.ms": "200",
        **{key.replace("_", "."): value for key, value in more.items()},
    }
    with running(folder, folder / "copy", config) as daemon:
        yield daemon


def change(daemon: DaemonProcess, *created: Acl, deleted: str | None = None) -> list[int]:
    """Create ACLs, or delete those of a topic; return the codes of the errors."""
    with closing(KafkaConnection(daemon.ready["listeners"]["PLAINTEXT"])) as connection:
        if deleted is not None:
            results = connection.delete(AclFilter(resource_name=deleted))
            return [each.error.code for each in results if each.error is not None]
        return [each.code for each in connection.create(*created) if each is not None]


def list_acls(daemon: DaemonProcess) -> set[Acl] | None:
    with closing(KafkaConnection(daemon.ready["listeners"]["PLAINTEXT"])) as connection:
        listed = connection.describe()
    return set(listed) if isinstance(listed, list) else None


def wait_for(daemon: DaemonProcess, *expected: Acl) -> None:
    wait_until(lambda: list_acls(daemon) == set(expected), f"{expected} are followed")


def may_read(daemon: DaemonProcess) -> bool:
    answer = daemon.evaluate(evaluation("a", topic="t"))
    assert answer.status == 200
    return bool(answer.json["decision"])


def test_daemon_follows_lists_and_restarts(tmp_path: Path) -> None:
    """Changes arrive, are refused here, and are in the copy after a kill."""
    (port,) = find_lasting_ports(1)
    with followed(tmp_path / "one", port) as other:
        assert change(other, READ) == []
        with following(tmp_path / "two", port) as daemon:
            assert list_acls(daemon) == {READ}
            assert may_read(daemon)
            assert change(daemon, WRITE) == [ErrorCode.POLICY_VIOLATION]
            assert change(other, WRITE) == []
            wait_for(daemon, READ, WRITE)
            assert change(other, deleted="t") == []
            wait_for(daemon)
            assert not may_read(daemon)
            assert change(other, READ) == []
            wait_for(daemon, READ)
            daemon.stop(signal.SIGKILL)
        assert other.stop()[0] == 0
        with following(tmp_path / "two", port, authorizerd_source_serve_copy="true") as daemon:
            assert list_acls(daemon) == {READ}


def test_acknowledged_changes_are_in_force(tmp_path: Path) -> None:
    """With as-self, each change is visible here and in the cluster when it is acknowledged."""
    (port,) = find_lasting_ports(1)
    with (
        followed(tmp_path / "one", port) as other,
        following(tmp_path / "two", port, authorizerd_writes="as-self") as daemon,
    ):
        for _ in range(5):
            assert change(daemon, READ, WRITE) == []
            assert list_acls(daemon) == list_acls(other) == {READ, WRITE}
            assert may_read(daemon)
            assert change(daemon, deleted="t") == []
            assert list_acls(daemon) == list_acls(other) == set()
            assert not may_read(daemon)
