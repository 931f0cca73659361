"""The released OPA plugin in a real broker, with the daemon in place of OPA."""

import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AclOperation, ResourceType

from authorizerd.config.tokens import SECRET_BYTES, new_token
from tests.conformance.kafka_clients import TIMEOUT_SECONDS, client_settings, create_topics
from tests.daemon.opa_requests import PATH
from tests.kafka_rig.broker import ADMIN, Broker, BrokerSettings, running_broker
from tests.kafka_rig.rig import Rig
from tests.support.admin_client import binding, create_acls, new_admin
from tests.support.daemon_process import DaemonProcess, new_log, running

TOPIC, GROUP = "orders", "billing"
DENIALS = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED)


@pytest.fixture
def port() -> int:
    """Return a free port, which a restarted daemon can reuse."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        found: int = server.getsockname()[1]
        return found


@contextmanager
def deciding_daemon(
    folder: Path, log_dir: Path, port: int, tokens: Path | None
) -> Iterator[DaemonProcess]:
    config = {"authorizerd.decision.http": f"http://127.0.0.1:{port}"}
    if tokens is not None:
        config["authorizerd.tokens.file"] = str(tokens)
    # ANONYMOUS manages the ACLs; the broker may ask about everyone.
    with running(folder, log_dir, config, super_users="User:ANONYMOUS;User:broker") as daemon:
        yield daemon


@contextmanager
def asking_broker(
    rig: Rig,
    folder: Path,
    formatted: Path,
    url: str,
    *,
    allow_on_error: bool = False,
    cache_seconds: int = 0,
) -> Iterator[Broker]:
    shutil.copytree(formatted, folder / "log")
    more = {
        "authorizer.class.name": "org.openpolicyagent.kafka.OpaAuthorizer",
        "opa.authorizer.url": url,
        "opa.authorizer.allow.on.error": str(allow_on_error).lower(),
        "opa.authorizer.cache.expire.after.seconds": str(cache_seconds),
    }
    with running_broker(rig, folder, folder / "log", BrokerSettings(more=more)) as broker:
        yield broker


def allow_alice(daemon: DaemonProcess) -> None:
    admin = new_admin(daemon)
    rights = [
        binding(TOPIC, operation=AclOperation.READ),
        binding(TOPIC, operation=AclOperation.WRITE),
        binding(GROUP, operation=AclOperation.READ, resource_type=ResourceType.GROUP),
    ]
    assert create_acls(admin, *rights) == [None] * len(rights)


def may_write(broker: Broker, user: str) -> bool:
    """Write one message as ``user``; return True if this was allowed."""
    errors: list[KafkaError | None] = []
    producer = Producer(
        client_settings(broker, user) | {"message.timeout.ms": int(TIMEOUT_SECONDS * 1000)}
    )
    producer.produce(TOPIC, b"value", on_delivery=lambda error, _: errors.append(error))
    producer.flush(TIMEOUT_SECONDS)
    (error,) = errors
    return is_allowed(error)


def may_read(broker: Broker, user: str) -> bool:
    """Read the topic's first message as ``user``; return True if this was allowed."""
    consumer = Consumer(
        client_settings(broker, user) | {"group.id": GROUP, "enable.auto.commit": "false"}
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    message = consumer.poll(TIMEOUT_SECONDS)
    consumer.close()
    assert message is not None
    return is_allowed(message.error())


def is_allowed(error: KafkaError | None) -> bool:
    assert error is None or error.code() in DENIALS, error
    return error is None


@pytest.mark.parametrize("allow_on_error", [False, True])
def test_broker_follows_the_daemons_decisions(
    rig: Rig, formatted: Path, tmp_path: Path, port: int, allow_on_error: bool
) -> None:
    """While the daemon is down, ``allow.on.error`` decides. One case has a token in the URL."""
    log_dir = new_log(tmp_path)
    url, tokens = f"http://127.0.0.1:{port}{PATH}", None
    if allow_on_error:
        token, line = new_token("broker", "User:broker", bytes(SECRET_BYTES))
        tokens = tmp_path / "tokens"
        tokens.write_text(line)
        url = f"{url}?token={token}"
    with asking_broker(
        rig, tmp_path / "broker", formatted, url, allow_on_error=allow_on_error
    ) as broker:
        with deciding_daemon(tmp_path, log_dir, port, tokens) as daemon:
            create_topics(broker, ADMIN, TOPIC)
            assert not may_write(broker, "alice")
            allow_alice(daemon)
            assert may_write(broker, "alice")
            assert may_read(broker, "alice")
            assert not may_write(broker, "bob")
            assert not may_read(broker, "bob")
            assert daemon.metric('authorizerd_decisions_total{result="allowed",surface="OPA"}') > 0
            assert daemon.stop()[0] == 0
        for user in ("alice", "bob"):
            assert may_write(broker, user) == may_read(broker, user) == allow_on_error
        with deciding_daemon(tmp_path, log_dir, port, tokens):
            assert may_write(broker, "alice")
            assert not may_write(broker, "bob")


def test_plugin_does_not_cache_errors(rig: Rig, formatted: Path, tmp_path: Path, port: int) -> None:
    """It asks again after the tokens are fixed."""
    token, line = new_token("broker", "User:broker", bytes(SECRET_BYTES))
    tokens = tmp_path / "tokens"
    tokens.write_text("# nobody yet")
    url = f"http://127.0.0.1:{port}{PATH}?token={token}"
    with (
        deciding_daemon(tmp_path, new_log(tmp_path), port, tokens) as daemon,
        asking_broker(rig, tmp_path / "broker", formatted, url, cache_seconds=3600) as broker,
    ):
        allow_alice(daemon)
        create_topics(broker, ADMIN, TOPIC)
        assert not may_write(broker, "alice")
        tokens.write_text(line)
        daemon.reload()
        assert may_write(broker, "alice")
        assert not may_write(broker, "bob")
