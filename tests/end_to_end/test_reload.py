"""Settings changed while a real daemon runs: by SIGHUP, and by a Kafka admin client."""

from __future__ import annotations

import select
import signal
import socket
import time
from pathlib import Path

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from tests.end_to_end.test_admin_clients import binding, created, ended, new_log
from tests.support.daemon_process import SECONDS_MAX, DaemonProcess, running, write_config

NOT_AUTHORIZED = (31, "Cluster authorization failed.")


def new_admin(daemon: DaemonProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": daemon.ready["listeners"]["PLAINTEXT"]})


def alter(admin: AdminClient, **changes: str | None) -> object:
    """Set, or with None take away, keys of the one node."""
    entries = [
        ConfigEntry(
            key.replace("_", "."),
            value or "",
            incremental_operation=AlterConfigOpType.SET if value else AlterConfigOpType.DELETE,
        )
        for key, value in changes.items()
    ]
    node = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=entries)
    (future,) = admin.incremental_alter_configs([node]).values()
    return ended(future)


def described(admin: AdminClient, key: str) -> tuple[str | None, int]:
    """Return a key's value, and where it comes from."""
    (future,) = admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, "1")]).values()
    entry = future.result(SECONDS_MAX)[key]
    return entry.value, int(entry.source)


def wait_for(daemon: DaemonProcess, text: str) -> None:
    """Read standard error until a line holds ``text``."""
    assert daemon.process.stderr is not None
    give_up = time.monotonic() + SECONDS_MAX
    while text not in daemon.process.stderr.readline():
        assert time.monotonic() < give_up, text


def test_sighup_reads_the_file_again(tmp_path: Path) -> None:
    """Errors in it are logged and change nothing; then a valid file is applied."""
    log_dir = new_log(tmp_path)
    with running(tmp_path, log_dir) as daemon:
        assert created(new_admin(daemon), binding()) == [NOT_AUTHORIZED]
        write_config(tmp_path, log_dir, super_users="nobody")
        daemon.process.send_signal(signal.SIGHUP)
        wait_for(daemon, "is not reloaded: ")
        assert created(new_admin(daemon), binding()) == [NOT_AUTHORIZED]
        write_config(tmp_path, log_dir, super_users="User:ANONYMOUS", node_id="5")
        daemon.process.send_signal(signal.SIGHUP)
        wait_for(daemon, "a restart is needed for node.id")
        wait_for(daemon, "the configuration is reloaded")
        assert created(new_admin(daemon), binding()) == [None]
        assert daemon.stop()[0] == 0


def test_every_server_takes_over_its_new_bounds(tmp_path: Path) -> None:
    """Of two connections to an endpoint that may have one, one is ended."""
    log_dir = new_log(tmp_path)
    with running(tmp_path, log_dir) as daemon:
        write_config(tmp_path, log_dir, max_connections="1")
        daemon.process.send_signal(signal.SIGHUP)
        wait_for(daemon, "the configuration is reloaded")
        own = [daemon.ready[name] for name in ("decision_http", "decision_stream", "admin_http")]
        for address in (*own, *daemon.ready["listeners"].values()):
            host, _, port = address.rpartition(":")
            with (
                socket.create_connection((host, int(port))) as one,
                socket.create_connection((host, int(port))) as other,
            ):
                assert select.select([one, other], [], [], SECONDS_MAX)[0], address
        assert daemon.stop()[0] == 0


def test_a_client_s_changes_outlive_the_daemon(tmp_path: Path) -> None:
    """Stored in the log, they override the file, except for super.users, which the file sets."""
    log_dir = new_log(tmp_path)
    with running(tmp_path, log_dir, super_users="User:ANONYMOUS") as daemon:
        admin = new_admin(daemon)
        assert alter(admin, max_connections="77", super_users="User:ANONYMOUS;User:x") is None
        assert described(admin, "max.connections") == ("77", 2)
        assert described(admin, "super.users") == ("User:ANONYMOUS;User:x", 2)
        assert alter(admin, max_connections="many") == (
            42,
            "Invalid value many for configuration max.connections: "
            "many is not an integer from 1 to 2147483647",
        )
        assert daemon.stop()[0] == 0
    with running(tmp_path, log_dir, super_users="User:ANONYMOUS") as daemon:
        admin = new_admin(daemon)
        assert described(admin, "max.connections") == ("77", 2)
        assert described(admin, "super.users") == ("User:ANONYMOUS", 4)
        assert alter(admin, max_connections=None, super_users="User:x") is None
        assert created(admin, binding()) == [NOT_AUTHORIZED]
        daemon.process.send_signal(signal.SIGHUP)
        wait_for(daemon, "the configuration is reloaded")
        assert created(admin, binding()) == [None]
        assert described(admin, "max.connections") == ("1024", 5)
        assert daemon.stop()[0] == 0
