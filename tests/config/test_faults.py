"""All faults of a text at once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.config.configuration import Configuration, parse
from authorizerd.config.errors import ConfigurationError
from authorizerd.config.faults import parse_or_faults
from authorizerd.config.keys import KEYS

BASE = "node.id=1\nlog.dirs=/var/lib/kafka\n"
NAMES = [*(key.name for key in KEYS), "authorizerd.unknown", "broker.rack"]
VALUES = ["", "1", "-1", "x", "true", "PLAINTEXT://:9092", "http://127.0.0.1:1", "a=b;c", "\\u12"]


def faults(text: str, *overrides: str) -> list[str]:
    found = parse_or_faults(text, source="f", overrides=overrides)
    assert isinstance(found, list)
    return [str(fault) for fault in found]


def test_every_invalid_key_is_named_in_the_order_of_the_file() -> None:
    """Overrides come last. A missing key is found only if all others are valid."""
    text = "queued.max.requests=x\nauthorizerd.worker=2\nbroker.rack=a\nlog.dirs=\n"
    assert faults(text, "authorizerd.workers=none", "what") == [
        "f:1: queued.max.requests: expected an integer from 1 to 1000000, found 'x'",
        "f:2: authorizerd.worker: unknown key; did you mean authorizerd.workers?",
        "f:4: log.dirs: expected at least one entry, found an empty value",
        "--override: expected KEY=VALUE, found a text without '='"
        " (not shown, since it may hold a secret)",
        "--override: authorizerd.workers: expected an integer from 1 to 64, found 'none'",
    ]


def test_joined_rules_are_checked_only_if_each_key_is_valid() -> None:
    text = BASE + "early.start.listeners=OTHER\n"
    assert faults(text) == [
        "f:3: early.start.listeners: unknown listener OTHER: expected one of PLAINTEXT"
    ]
    assert faults(text + "listeners=nonsense\n")[0].startswith("f:4: listeners: ")
    assert len(faults(text + "listeners=nonsense\n")) == 1


def test_missing_node_id_is_a_fault_of_an_own_log() -> None:
    assert faults("log.dirs=/a") == [
        "f: node.id: required, and has no default: add a line node.id=VALUE"
    ]


def test_malformed_text_is_one_fault() -> None:
    assert len(faults(BASE + "a=\\u12\nqueued.max.requests=x\n")) == 1


@given(st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES)), max_size=5))
def test_faults_are_found_exactly_where_the_daemon_rejects(lines: list[tuple[str, str]]) -> None:
    text = BASE + "".join(f"{name}={value}\n" for name, value in lines)
    found = parse_or_faults(text, source="f")
    if isinstance(found, Configuration):
        assert found == parse(text, source="f")
        return
    with pytest.raises(ConfigurationError) as refusal:
        parse(text, source="f")
    assert str(refusal.value) in map(str, found)
