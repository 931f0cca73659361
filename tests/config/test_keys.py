"""The keys: their statements, their values, and the page about limits."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

import pytest

from authorizerd.config.configuration import parse
from authorizerd.config.errors import ConfigurationError
from authorizerd.config.kafka_keys import KAFKA_KEYS
from authorizerd.config.key import OWN_PREFIX, Key, list_keys, select_settings, setting
from authorizerd.config.key_values import read_key_values
from authorizerd.config.keys import KEYS, KEYS_BY_NAME, describe_ignored_key
from authorizerd.config.own_keys import OWN_KEYS
from authorizerd.config.properties import Property, parse_properties
from authorizerd.config.values import IntegerParser, paths, sasl_mechanisms
from authorizerd.daemon.telemetry.metrics import METRICS as EXPORTED


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
        "super.users", "allow.everyone.if.no.acl.found", "max.connections",
        "max.connections.per.ip", "max.connections.per.ip.overrides",
        "max.connection.creation.rate", "connections.max.idle.ms",
        "authorizerd.audit.filter.denied", "authorizerd.audit.level",
        "authorizerd.audit.principals.exclude", "authorizerd.audit.principals.include",
        "authorizerd.audit.required", "authorizerd.audit.resources.exclude",
        "authorizerd.audit.resources.include", "authorizerd.audit.sample.allowed",
        "authorizerd.callers.ask", "authorizerd.callers.read", "authorizerd.callers.search",
        "authorizerd.http.drain.timeout.ms", "authorizerd.http.header.timeout.ms",
        "authorizerd.log.level", "authorizerd.login.timeout.ms", "authorizerd.update.timeout.ms",
    }  # fmt: skip


@pytest.mark.parametrize(("name", "meant"), [
    ("listners", "listeners"),
    ("lisetners", "listeners"),
    ("Listeners", "listeners"),
    ("super.user", "super.users"),
    ("node_id", "node.id"),
    ("logdirs", "log.dirs"),
    ("allow.everyone.if.no.acls.found", "allow.everyone.if.no.acl.found"),
    ("authorized.audit.log", "authorizerd.audit.log"),
    ("listener.name.A.ssl.client.auth", "listener.name.a.ssl.client.auth"),
])  # fmt: skip
def test_misspelt_key_is_reported_with_a_suggestion(name: str, meant: str) -> None:
    assert describe_ignored_key(name) == f"{name} (did you mean {meant}?)"


def test_byte_order_mark_is_named() -> None:
    (name,) = parse(
        "\xef\xbb\xbfsuper.users=User:a\nnode.id=1\nlog.dirs=/log", source="f"
    ).ignored_keys
    assert describe_ignored_key(name).startswith("super.users (it follows a byte order mark: ")


@pytest.mark.parametrize("name", [
    *("", "a", "broker.id", "process.roles", "num.partitions", "controller.quorum.voters"),
    "controller.quorum.fetch.timeout.ms",
    *("log.segment.bytes", "log.retention.bytes", "log.retention.ms", "log.roll.ms"),
    *("metadata.log.segment.ms", "metadata.log.segment.min.bytes", "metadata.max.idle.interval.ms"),
    *("inter.broker.listener.name", "control.plane.listener.name"),
    "sasl.mechanism.inter.broker.protocol",
    *("socket.send.buffer.bytes", "socket.receive.buffer.bytes", "security.providers"),
    *("zookeeper.connection.timeout.ms", "ssl.provider", "request.timeout.ms"),
])  # fmt: skip
def test_other_kafka_key_is_not_reported_as_a_typo(name: str) -> None:
    """A server.properties may serve a broker as well."""
    assert describe_ignored_key(name) == name


SOURCE = "server.properties"


def properties(text: str) -> dict[str, Property]:
    return parse_properties(text, source=SOURCE)


def test_each_key_of_the_table_has_a_value() -> None:
    """The trimmed text's value, the default, or None."""
    keys = read_key_values(properties("node.id = 7 \n"), SOURCE)
    assert keys.values.keys() == KEYS_BY_NAME.keys()
    assert keys.values["node.id"] == 7
    assert keys.values["authorizerd.workers"] == 1
    assert keys.values["log.dirs"] is None


def test_refusal_names_the_place_of_its_key() -> None:
    keys = read_key_values(properties("node.id=1\nlog.dirs=/a\n"), SOURCE)
    assert str(keys.refusal("log.dirs", "is full")) == "server.properties:2: log.dirs: is full"
    assert str(keys.refusal("log.dir", "is bad")) == "server.properties: log.dir: is bad"


def test_key_outside_the_table_is_read_by_a_given_parser() -> None:
    keys = read_key_values(properties("node.id=1\na= PLAIN \nb=GSSAPI\n"), SOURCE)
    assert keys.read("a", sasl_mechanisms) == ("PLAIN",)
    assert keys.read("absent", sasl_mechanisms) is None
    with pytest.raises(
        ConfigurationError, match=r"^server\.properties:3: b: listeners do not support GSSAPI"
    ):
        keys.read("b", sasl_mechanisms)


ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "docs" / "limits.md").read_text()
LISTENER: Final = "listener.name.NAME."
ROWS: Final = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if re.match(r"\| `[a-z]", line)
]
LIMITS: Final = {row[0].strip("`"): row for row in ROWS if len(row) == 4}
TESTS: Final = re.findall(r"`(tests/[\w/]+\.py)` `(\w+)`", PAGE)
METRICS: Final = {
    name
    for pattern in re.findall(r"`(authorizerd_[\w*]+_total|authorizerd_updates_waiting)", PAGE)
    for name in (
        [pattern.replace("*", kind) for kind in ("http", "kafka", "stream")]
        if "*" in pattern
        else [pattern]
    )
}


def test_every_limit_on_connections_has_a_row() -> None:
    words = ("max.connection", "timeout.ms", "max.idle", "max.bytes", "max.request", "overload")
    others = {
        *("authorizerd.update.timeout.ms", "authorizerd.worker.timeout.ms"),
        "authorizerd.http.drain.timeout.ms",
        *("controller.quorum.request.timeout.ms", "controller.socket.timeout.ms"),
        "authorizerd.source.request.timeout.ms",
        *(
            f"{prefix}sasl.login.{name}.timeout.ms"
            for prefix in ("", "authorizerd.source.")
            for name in ("connect", "read")
        ),
    }
    keys = {name for name in KEYS_BY_NAME if any(word in name for word in words)} - others
    assert not keys - LIMITS.keys(), "expected a row in docs/limits.md for each"


@pytest.mark.parametrize("name", LIMITS)
def test_row_has_the_keys_default_and_metrics(name: str) -> None:
    _, default, _, metric = LIMITS[name]
    key = KEYS_BY_NAME[name.removeprefix(LISTENER)]
    value, _, note = default.partition(", ")
    expected = "none" if name.startswith(LISTENER) or not key.default else key.default
    assert value == expected
    assert (note == "at once") == (key.reloadable and not name.startswith(LISTENER))
    assert metric == "the same" or metric.startswith("`authorizerd_")


def test_metrics_of_the_page_are_exported() -> None:
    assert len(METRICS) > 5
    assert {entry.name for entry in EXPORTED} >= METRICS


@pytest.mark.parametrize(("file", "test"), TESTS, ids=[test for _, test in TESTS])
def test_named_test_exists(file: str, test: str) -> None:
    assert re.search(rf"def {test}\(", (ROOT / file).read_text())
