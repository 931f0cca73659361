from dataclasses import dataclass
from typing import ClassVar

import pytest

from authorizerd.config.kafka_keys import KAFKA_KEYS
from authorizerd.config.key import OWN_PREFIX, Key, list_keys, select_settings, setting
from authorizerd.config.keys import KEYS, KEYS_BY_NAME, describe_ignored_key
from authorizerd.config.own_keys import OWN_KEYS
from authorizerd.config.values import IntegerParser, paths


@dataclass(frozen=True, kw_only=True)
class Stated:
    """Two keys, one of them with a field."""

    log_dirs: ClassVar = Key(paths)
    """Where."""
    queue_max: int = setting(IntegerParser(1, 9), "7", reloadable=True)
    """How many lines{of}
    may wait."""


def test_class_states_its_keys_in_order() -> None:
    keys = list_keys(Stated, "x.", of=" of a port")
    assert [(each.name, each.default, each.reloadable, each.doc) for each in keys.values()] == [
        ("x.log.dirs", None, False, "Where."),
        ("x.queue.max", "7", True, "How many lines of a port may wait."),
    ]
    assert select_settings(Stated, keys) == {"queue_max": keys["queue_max"]}
    assert Stated().queue_max == 7


def test_each_key_is_in_the_table_once() -> None:
    assert len(KEYS_BY_NAME) == len(KEYS)


def test_only_our_keys_have_our_prefix() -> None:
    assert all(key.name.startswith(OWN_PREFIX) for key in OWN_KEYS)
    assert not any(key.name.startswith(OWN_PREFIX) for key in KAFKA_KEYS)
    assert KEYS == KAFKA_KEYS + OWN_KEYS


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_key_has_a_text_and_accepts_its_own_default(key: Key) -> None:
    assert key.doc.endswith(".")
    if key.default is not None:
        key.parse(key.default)


def test_reloadable_keys() -> None:
    assert {key.name for key in KEYS if key.reloadable} == {
        "super.users",
        "allow.everyone.if.no.acl.found",
        "max.connections",
        "max.connections.per.ip",
        "max.connections.per.ip.overrides",
        "max.connection.creation.rate",
        "connections.max.idle.ms",
        "authorizerd.audit.filter.denied",
        "authorizerd.audit.level",
        "authorizerd.audit.principals.exclude",
        "authorizerd.audit.principals.include",
        "authorizerd.audit.required",
        "authorizerd.audit.resources.exclude",
        "authorizerd.audit.resources.include",
        "authorizerd.audit.sample.allowed",
        "authorizerd.callers.ask",
        "authorizerd.callers.read",
        "authorizerd.callers.search",
        "authorizerd.http.drain.timeout.ms",
        "authorizerd.http.header.timeout.ms",
        "authorizerd.log.level",
        "authorizerd.login.timeout.ms",
        "authorizerd.update.timeout.ms",
    }


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("listners", "listeners"),
        ("lisetners", "listeners"),
        ("Listeners", "listeners"),
        ("super.user", "super.users"),
        ("node_id", "node.id"),
        ("logdirs", "log.dirs"),
        ("allow.everyone.if.no.acls.found", "allow.everyone.if.no.acl.found"),
        ("authorized.audit.log", "authorizerd.audit.log"),
        ("listener.name.A.ssl.client.auth", "listener.name.a.ssl.client.auth"),
    ],
)
def test_misspelt_key_is_reported_with_a_suggestion(name: str, meant: str) -> None:
    assert describe_ignored_key(name) == f"{name} (did you mean {meant}?)"


@pytest.mark.parametrize(
    "name",
    [
        *("", "a", "broker.id", "process.roles", "num.partitions", "controller.quorum.voters"),
        "controller.quorum.fetch.timeout.ms",
        *("log.segment.bytes", "log.retention.bytes", "log.retention.ms", "log.roll.ms"),
        *(
            "metadata.log.segment.ms",
            "metadata.log.segment.min.bytes",
            "metadata.max.idle.interval.ms",
        ),
        *("inter.broker.listener.name", "control.plane.listener.name"),
        "sasl.mechanism.inter.broker.protocol",
        *("socket.send.buffer.bytes", "socket.receive.buffer.bytes", "security.providers"),
        *("zookeeper.connection.timeout.ms", "ssl.provider", "request.timeout.ms"),
    ],
)
def test_other_kafka_key_is_not_reported_as_a_typo(name: str) -> None:
    """A server.properties may serve a broker as well."""
    assert describe_ignored_key(name) == name
