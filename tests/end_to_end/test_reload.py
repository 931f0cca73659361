"""Settings that change while a real daemon runs: by SIGHUP or by a Kafka admin client."""

import select
from contextlib import ExitStack, closing
from pathlib import Path

from confluent_kafka.admin import AdminClient, ConfigResource

from tests.support.admin_client import alter_configs, binding, create_acls, new_admin
from tests.support.daemon_process import (
    SECONDS_MAX,
    DaemonProcess,
    connect,
    new_log,
    running,
    wait_until,
    write_config,
)
from tests.support.kafka_connection import KafkaConnection

LISTENER = '{listener="PLAINTEXT"}'
NOT_AUTHORIZED = (31, "Cluster authorization failed.")


def describe_key(admin: AdminClient, key: str) -> tuple[str | None, int]:
    """Return a key's value and source."""
    (future,) = admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, "1")]).values()
    entry = future.result(SECONDS_MAX)[key]
    return entry.value, int(entry.source)


def test_sighup_reloads_the_file(tmp_path: Path) -> None:
    """If the file has an error, the daemon logs it and changes nothing; it applies a valid file."""
    log_dir = new_log(tmp_path)
    with running(tmp_path, log_dir) as daemon:
        assert create_acls(new_admin(daemon), binding()) == [NOT_AUTHORIZED]
        write_config(tmp_path, log_dir, super_users="nobody")
        daemon.reload("is not reloaded: ")
        assert create_acls(new_admin(daemon), binding()) == [NOT_AUTHORIZED]
        write_config(tmp_path, log_dir, super_users="User:a,User:b")
        daemon.reload("'User:a,User:b' is one principal: separate entries by semicolons")
        write_config(tmp_path, log_dir, super_users="User:ANONYMOUS", node_id="5")
        daemon.reload("a restart is needed for node.id", "the configuration is reloaded")
        assert create_acls(new_admin(daemon), binding()) == [None]
        assert daemon.stop()[0] == 0


def test_every_server_applies_its_new_limits(tmp_path: Path) -> None:
    """With ``max.connections=1``, a second connection makes the daemon close one of the two.

    The time to log in would end both, but only after the test.
    """
    log_dir = new_log(tmp_path)
    with running(tmp_path, log_dir) as daemon:
        patient = {"authorizerd.login.timeout.ms": "120000"}
        write_config(tmp_path, log_dir, patient, max_connections="1")
        daemon.reload()
        own = [daemon.ready[name] for name in ("decision_http", "decision_stream")]
        for address in (*own, *daemon.ready["listeners"].values()):
            with connect(address) as one, connect(address) as other:
                assert select.select([one, other], [], [], SECONDS_MAX)[0], address
        assert daemon.stop()[0] == 0


def test_connection_rate_changes_while_the_daemon_runs(tmp_path: Path) -> None:
    """A client sets the common rate; the file sets one listener's. No connection is refused."""
    log_dir = new_log(tmp_path)
    # Two windows of a second: after a quiet second, the connections of a second are free.
    config = {"super.users": "User:ANONYMOUS", "quota.window.num": "2"}
    own = {"listener.name.plaintext.max.connection.creation.rate": "2"}
    with running(tmp_path, log_dir, config) as daemon:
        admin = new_admin(daemon)
        assert connect_delayed(daemon, 15) == 0
        assert alter_configs(admin, max_connection_creation_rate="10") is None
        assert describe_key(admin, "max.connection.creation.rate") == ("10", 2)
        wait_until(lambda: connect_delayed(daemon, 15) > 0, "the client's rate delays")
        assert alter_configs(admin, max_connection_creation_rate=None) is None
        assert connect_delayed(daemon, 15) == 0
        write_config(tmp_path, log_dir, config | own)
        daemon.reload()
        wait_until(lambda: connect_delayed(daemon, 4) > 0, "the file's rate delays")
        assert daemon.metric(f"authorizerd_kafka_accept_delay_seconds_total{LISTENER}") > 0
        for reason in ("max.connections", "max.connections.per.ip"):
            labels = f'{{listener="PLAINTEXT",reason="{reason}"}}'
            assert daemon.metric(f"authorizerd_kafka_connections_refused_total{labels}") == 0
        code, errors = daemon.stop()
    assert code == 0
    assert "a restart is needed" not in errors


def connect_delayed(daemon: DaemonProcess, count: int) -> float:
    """Open ``count`` connections at once; return how many were delayed."""
    name = f"authorizerd_kafka_accepts_delayed_total{LISTENER}"
    before = daemon.metric(name)
    address = daemon.ready["listeners"]["PLAINTEXT"]
    with ExitStack() as stack:
        for _ in range(count - 1):
            stack.enter_context(connect(address))
        last = stack.enter_context(closing(KafkaConnection(address)))
        last.describe()  # answered after the earlier connections were accepted
    return daemon.metric(name) - before


def test_client_changes_survive_a_restart(tmp_path: Path) -> None:
    """The log keeps them. At a start they override the file, except for super.users."""
    log_dir = new_log(tmp_path)
    with running(tmp_path, log_dir, super_users="User:ANONYMOUS") as daemon:
        admin = new_admin(daemon)
        super_users = "User:ANONYMOUS;User:x"
        assert alter_configs(admin, max_connections="77", super_users=super_users) is None
        assert describe_key(admin, "max.connections") == ("77", 2)
        assert describe_key(admin, "super.users") == (super_users, 2)
        assert alter_configs(admin, max_connections="many") == (
            42,
            "Invalid value many for configuration max.connections: "
            "expected an integer from 1 to 2147483647, found 'many'",
        )
        assert daemon.stop()[0] == 0
    with running(tmp_path, log_dir, super_users="User:ANONYMOUS") as daemon:
        admin = new_admin(daemon)
        assert describe_key(admin, "max.connections") == ("77", 2)
        assert describe_key(admin, "super.users") == ("User:ANONYMOUS", 4)
        assert alter_configs(admin, max_connections=None, super_users="User:x") is None
        assert create_acls(admin, binding()) == [NOT_AUTHORIZED]
        daemon.reload()
        assert create_acls(admin, binding()) == [None]
        assert describe_key(admin, "max.connections") == ("1024", 5)
        assert daemon.stop()[0] == 0
