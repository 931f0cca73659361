"""All faults of a configuration at once, and none that only follows from another one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.config.configuration import parse
from authorizerd.config.errors import ConfigurationError
from authorizerd.config.keys import KEYS

BASE = "node.id=1\nlog.dirs=/var/lib/kafka\n"  # what a row adds begins on line 3
NAMES = [*(key.name for key in KEYS), "authorizerd.unknown", "broker.rack"]
VALUES = ["", "1", "-1", "x", "true", "PLAINTEXT://:9092", "http://127.0.0.1:1", "a=b;c", "\\u12"]
SASL = "listeners=A://127.0.0.1:1,B://127.0.0.1:2\n"


def refuse(text: str, *overrides: str) -> list[ConfigurationError]:
    with pytest.raises(ConfigurationError) as refused:
        parse(text, source="f", overrides=overrides)
    return refused.value.faults


def faults(text: str, *overrides: str) -> list[str]:
    return [str(fault) for fault in refuse(text, *overrides)]


def test_error_counts_the_faults_that_it_does_not_name() -> None:
    text = "queued.max.requests=0\nnode.id=x\nlog.dirs="
    with pytest.raises(ConfigurationError, match=r"^f:1: queued\.max.*, found '0' \(and 2 more\)$"):
        parse(text, source="f")


def test_every_invalid_key_is_named_in_the_order_of_the_file() -> None:
    """Overrides come last. What is missing may be in an override that cannot be read."""
    text = "queued.max.requests=x\nauthorizerd.worker=2\nbroker.rack=a\nlog.dirs=\n"
    assert faults(text, "authorizerd.workers=none", "node.id:1") == [
        "f:1: queued.max.requests: expected an integer from 1 to 1000000, found 'x'",
        "f:2: authorizerd.worker: unknown key; did you mean authorizerd.workers?",
        "f:4: log.dirs: expected at least one entry, found an empty value",
        "--override: authorizerd.workers: expected an integer from 1 to 64, found 'none'",
        "--override: expected KEY=VALUE, found a text without '='"
        " (not shown, since it may hold a secret)",
    ]


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        # Rules about several keys, next to each other and to an invalid key
        (
            "log.dirs=/a\nearly.start.listeners=OTHER,MORE\nauthorizerd.audit.mask.host=hash\n"
            "authorizerd.audit.mask.principal=hash\nqueued.max.requests=x\n",
            ["2: early.start.listeners", "3: authorizerd.audit.mask.host",
             "4: authorizerd.audit.mask.principal", "5: queued.max.requests", "None: node.id"],
        ),
        (
            BASE + "authorizerd.decision.http=http://h:1\nauthorizerd.decision.stream=tcp://h:2\n"
            "authorizerd.admin.http=http://h:1\n",
            ["3: authorizerd.decision.http", "4: authorizerd.decision.stream",
             "5: authorizerd.admin.http"],
        ),
        # Each listener by itself
        (
            BASE + SASL + "listener.security.protocol.map=A:SASL_PLAINTEXT,B:SSL\n"
            "listener.name.a.max.connections=x\nlistener.name.b.max.connections=x\n",
            ["5: listener.name.a.max.connections", "6: listener.name.b.max.connections",
             "None: listener.name.a.plain.sasl.jaas.config", "None: ssl.keystore.location"],
        ),
        (
            BASE + SASL + "listener.security.protocol.map=A:SASL_PLAINTEXT,B:SASL_PLAINTEXT\n",
            ["None: listener.name.a.plain.sasl.jaas.config",
             "None: listener.name.b.plain.sasl.jaas.config"],
        ),
        # Following a cluster
        (
            BASE + "authorizerd.writes=as-self\nauthorizerd.source.client.id=x\n",
            ["3: authorizerd.writes", "4: authorizerd.source.client.id"],
        ),
        (
            BASE + "authorizerd.source=brokers\nauthorizerd.writes.forward.principals=User:a\n"
            "authorizerd.source.sasl.mechanism=PLAIN\nauthorizerd.source.ssl.key.password=x\n",
            ["4: authorizerd.writes.forward.principals", "5: authorizerd.source.sasl.mechanism",
             "6: authorizerd.source.ssl.key.password",
             "None: authorizerd.source.bootstrap.servers"],
        ),
        (
            BASE + "authorizerd.source=quorum\nauthorizerd.source.client.id=x\n"
            "authorizerd.writes=forward\ncontroller.quorum.voters=1@h:1\n",
            ["1: node.id", "4: authorizerd.source.client.id", "None: controller.listener.names",
             "None: authorizerd.writes.forward.principals"],
        ),
    ],
)  # fmt: skip
def test_faults_of_rules_about_several_keys_are_named_together(text: str, keys: list[str]) -> None:
    assert [f"{fault.line}: {fault.key}" for fault in refuse(text)] == keys


@pytest.mark.parametrize(
    "text",
    [
        # an unreadable value, and rules that would use it
        BASE
        + "listeners=nonsense\nearly.start.listeners=OTHER\nadvertised.listeners=OTHER://h:1\n",
        BASE + "authorizerd.source.ssl.enabled.protocols=\n",
        BASE + "authorizerd.source=nothing\nauthorizerd.writes=as-self\n",
        BASE + "controller.quorum.voters=x\nauthorizerd.writes=as-self\n",
        BASE + "authorizerd.tokens.file=\nauthorizerd.decision.http=http://h:1\n",
        "node.id=x\nlog.dirs=/a\n",
        "node.id=1\nlog.dirs=\n",
        # a rule's result, and rules that would use that
        BASE + "listeners=SASL://h:1\nlistener.security.protocol.map=A:SSL\n",
        # a key of ours that is mistyped, and rules that would miss it
        BASE + "authorizerd.token.file=/t\nauthorizerd.decision.http=http://h:1\n",
        BASE + "authorizerd.soruce=quorum\nauthorizerd.writes=as-self\n",
        # a text that cannot be read
        "a=\\u12\nqueued.max.requests=x\n",
    ],
)
def test_what_depends_on_a_fault_is_no_fault(text: str) -> None:
    assert len(faults(text)) == 1


def test_missing_node_id_is_a_fault_of_an_own_log() -> None:
    assert faults("log.dirs=/a") == [
        "f: node.id: required, and has no default: add a line node.id=VALUE"
    ]


@given(st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES)), max_size=5))
def test_each_fault_is_named_once_and_has_a_reason(lines: list[tuple[str, str]]) -> None:
    text = BASE + "".join(f"{name}={value}\n" for name, value in lines)
    try:
        parse(text, source="f")
    except ConfigurationError as refused:
        found = refused.faults
    else:
        return
    named = [(fault.line, fault.key) for fault in found]
    assert len(named) == len(set(named))
    assert all(fault.reason for fault in found)
