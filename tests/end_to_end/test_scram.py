"""SCRAM authentication of real clients, with the users that the log was formatted with."""

import time
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from authorizerd.protocol.kafka.api import ApiKey
from tests.support.admin_client import describe_acls, new_admin
from tests.support.daemon_process import (
    SECONDS_MAX,
    DaemonProcess,
    run,
    running,
    write_config,
)
from tests.support.kafka_connection import KafkaConnection
from tests.support.sasl import ScramTokens

SASL = "SASL_PLAINTEXT"
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
CONFIG = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    "super.users": "User:admin",
}


def formatted(folder: Path) -> Path:
    """Return a log with a super user for both mechanisms."""
    added = [f"--add-scram={each}=[name=admin,password=admin-secret]" for each in MECHANISMS]
    config = write_config(folder, folder / "log", CONFIG)
    done = run("format", "--config", config, *added)
    assert done.returncode == 0, done.stderr
    return folder / "log"


def confluent(daemon: DaemonProcess, mechanism: str) -> AdminClient:
    return new_admin(
        daemon,
        SASL,
        security_protocol=SASL,
        sasl_mechanism=mechanism,
        sasl_username="admin",
        sasl_password="admin-secret",
    )


def test_confluents_client_logs_in_again(tmp_path: Path) -> None:
    """It does so by itself, before its session ends; no request fails meanwhile."""
    config = CONFIG | {"listener.name.sasl_plaintext.connections.max.reauth.ms": "1500"}
    with running(tmp_path, formatted(tmp_path), config) as daemon:
        admin = confluent(daemon, MECHANISMS[1])

        def again() -> float:
            labels = f'listener="{SASL}",mechanism="{MECHANISMS[1]}",result="succeeded"'
            return daemon.metric(f"authorizerd_kafka_reauthentications_total{{{labels}}}")

        give_up = time.monotonic() + SECONDS_MAX
        while again() < 3:
            assert time.monotonic() < give_up
            assert describe_acls(admin) == set()
        expired = f'authorizerd_kafka_sessions_expired_total{{listener="{SASL}"}}'
        assert daemon.metric(expired) == 0
        assert daemon.stop()[0] == 0


def test_changed_users_keep_their_connections_until_they_log_in_again(tmp_path: Path) -> None:
    """As in Kafka, a removed user's open connection still works; a new one does not."""
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    with running(tmp_path, formatted(tmp_path), CONFIG) as daemon:
        admin = confluent(daemon, MECHANISMS[0])

        def alter(change: UserScramCredentialUpsertion | UserScramCredentialDeletion) -> None:
            (done,) = admin.alter_user_scram_credentials([change]).values()
            done.result(SECONDS_MAX)

        def connect(password: str) -> KafkaConnection:
            connection = KafkaConnection(daemon.ready["listeners"][SASL])
            tokens = ScramTokens("bob", password)
            connection.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism=MECHANISMS[0])
            first = connection.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=tokens.first())
            final = tokens.final(first.auth_bytes)
            answer = connection.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=final)
            if answer.error_code:
                connection.close()
                raise PermissionError(answer.error_message)
            return connection

        with pytest.raises(PermissionError):
            connect("old")
        alter(UserScramCredentialUpsertion("bob", info, b"old"))
        open_connection = connect("old")
        alter(UserScramCredentialUpsertion("bob", info, b"new"))
        with pytest.raises(PermissionError):
            connect("old")
        connect("new").close()
        alter(UserScramCredentialDeletion("bob", ScramMechanism.SCRAM_SHA_256))
        with pytest.raises(PermissionError):
            connect("new")
        assert open_connection.metadata().cluster_id
        open_connection.close()
        assert daemon.stop()[0] == 0
