"""The sum of the memory bounds, and the parsers of audit settings."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.model import ResourceType
from authorizerd.config.audit_values import RATE_MIN, principal_patterns, resource_patterns, share
from authorizerd.config.bounds import (
    KAFKA_GROWTH,
    RECEIVE_BYTES,
    RESERVED_CONNECTIONS,
    STREAM_GROWTH,
    TLS_BYTES,
    kafka_memory_bytes,
    listener_connections_max,
    memory_bound_bytes,
    memory_bounds,
    stream_memory_bytes,
)
from authorizerd.config.configuration import Configuration, parse
from authorizerd.config.errors import InvalidValueError

ANSWER_BYTES = 1_000_000
MIB = 1 << 20


def configured(*overrides: str) -> Configuration:
    return parse("node.id=1\nlog.dirs=/log\n", source="test", overrides=overrides)


@pytest.mark.parametrize("larger", [
    "max.connections=1025",
    "queued.max.request.bytes=67108864",
    "socket.request.max.bytes=67108864",
    "authorizerd.http.request.max.bytes=16777216",
    "authorizerd.stream.frame.max.bytes=16777216",
    "authorizerd.metrics.http=http://0.0.0.0:9182",
    "listeners=A://127.0.0.1:1,B://127.0.0.1:2\nlistener.security.protocol.map=A:PLAINTEXT",
])  # fmt: skip
def test_larger_limits_raise_the_sum(larger: str) -> None:
    overrides = [larger]
    if "\n" in larger:
        overrides = [
            larger.partition("\n")[0],
            "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT",
        ]
    before = memory_bound_bytes(configured(), ANSWER_BYTES)
    assert memory_bound_bytes(configured(*overrides), ANSWER_BYTES) > before


def test_tls_raises_the_sum_of_each_port() -> None:
    own, kafka = "authorizerd.http.ssl.keystore.location=/k", "ssl.keystore.location=/k"
    for key, encrypted, usual in (
        ("authorizerd.decision.http", "https", "http"),
        ("authorizerd.decision.stream", "tls", "tcp"),
        ("authorizerd.admin.http", "https", "http"),
        ("authorizerd.metrics.http", "https", "http"),
        ("listeners", "SSL", "PLAINTEXT"),
    ):
        bytes_of = {
            scheme: memory_bound_bytes(
                configured(own, kafka, f"{key}={scheme}://127.0.0.1:1"), ANSWER_BYTES
            )
            for scheme in (encrypted, usual)
        }
        assert bytes_of[encrypted] >= bytes_of[usual] + 64 * TLS_BYTES


def test_disabled_stream_takes_no_memory() -> None:
    with_stream, without = configured(), configured("authorizerd.decision.stream=")
    gone = [
        bound.total_bytes
        for bound in memory_bounds(with_stream, ANSWER_BYTES)
        if bound.what.startswith("decision stream")
    ]
    assert len(gone) == 2
    difference = memory_bound_bytes(with_stream, 0) - memory_bound_bytes(without, 0)
    assert difference == sum(gone)


def test_console_has_a_bound_only_if_it_is_on() -> None:
    off, on = (
        {each.what for each in memory_bounds(configured(each), 0)}
        for each in ("authorizerd.console=false", "authorizerd.console=true")
    )
    assert on - off == {"console, pages"}


def test_endpoint_budget_fits_its_largest_request() -> None:
    """Kafka's default of socket.request.max.bytes exceeds the configured budget."""
    usual = configured("socket.request.max.bytes=104857600")
    assert kafka_memory_bytes(usual) == 104857600 + RECEIVE_BYTES
    assert stream_memory_bytes(usual) == 16 * MIB


def test_budgets_are_multiplied_by_the_growth_of_bytes_to_objects() -> None:
    bounds = {bound.what: bound for bound in memory_bounds(configured(), ANSWER_BYTES)}
    stream = bounds["decision stream, requests and answers"]
    assert stream.total_bytes == STREAM_GROWTH * 16 * MIB
    kafka = bounds["PLAINTEXT, requests and answers"]
    assert kafka.total_bytes == KAFKA_GROWTH * (16 * MIB + RECEIVE_BYTES)


@pytest.mark.parametrize(("override", "most"), [
    ("node.id=1", 100),
    ("listener.name.plaintext.max.connections=30", 30),
    ("listener.name.plaintext.max.connections=200", 100),
    ("early.start.listeners=PLAINTEXT", 100 + RESERVED_CONNECTIONS),
])  # fmt: skip
def test_listener_has_its_own_limit_and_reserve(override: str, most: int) -> None:
    """The smaller limit counts. Listeners that start early have reserved connections."""
    assert (
        listener_connections_max(configured("max.connections=100", override), "PLAINTEXT") == most
    )


@pytest.mark.parametrize(("text", "principal", "matches"), [
    ("", "User:a", False),
    ("*", "Group:x", True),
    ("User:a", "User:a", True),
    ("User:a", "User:ab", False),
    ("User:a*", "User:ab", True),
    ("User:*", "Group:b", False),
    (" User:b ; User:CN=a,O=b:c ;", "User:CN=a,O=b:c", True),
    ("User:b;*", "Group:x", True),
])  # fmt: skip
def test_principal_pattern_matches_name_or_prefix(text: str, principal: str, matches: bool) -> None:
    """Semicolons separate entries, since names contain commas and colons."""
    assert principal_patterns(text).match(principal) is matches


@pytest.mark.parametrize(("parse", "text", "reason"), [
    *((principal_patterns, text, r"expected Type:name, Type:prefix\* or \*")
      for text in ("alice", "User:", ":alice", "User*", "User:a;bob")),
    (resource_patterns, "a", "expected TYPE:name"),
    (resource_patterns, "TOPIC:", "expected TYPE:name"),
    *((resource_patterns, f"{name}:a", f"invalid resource type '{name}': expected one of TOPIC, ")
      for name in ("TOPIK", "topic", "")),
])  # fmt: skip
def test_unmatched_entry_is_refused(parse: Callable[[str], object], text: str, reason: str) -> None:
    with pytest.raises(InvalidValueError, match=reason):
        parse(text)


@pytest.mark.parametrize(("text", "resource_type", "name", "matches"), [
    ("", ResourceType.TOPIC, "a", False),
    ("*", ResourceType.CLUSTER, "kafka-cluster", True),
    ("TOPIC:a", ResourceType.TOPIC, "a", True),
    ("TOPIC:a", ResourceType.GROUP, "a", False),
    ("TOPIC:a*;GROUP:b", ResourceType.TOPIC, "ab", True),
    ("TOPIC:a*;GROUP:b", ResourceType.GROUP, "b", True),
    ("TOPIC:a*;GROUP:b", ResourceType.GROUP, "bc", False),
    ("TOPIC:*", ResourceType.TOPIC, "x", True),
    ("USER:User:a;USER:b", ResourceType.USER, "User:a", True),
])  # fmt: skip
def test_resource_patterns_match_within_their_type(
    text: str, resource_type: ResourceType, name: str, matches: bool
) -> None:
    assert resource_patterns(text).match(resource_type, name) is matches


@pytest.mark.parametrize(
    ("text", "rate"),
    [("1", 1.0), ("1.0", 1.0), ("1/1", 1.0), ("0.01", 0.01), ("1/3", 1 / 3), ("0.000001", 1e-6)],
)
def test_share_is_a_decimal_or_a_fraction(text: str, rate: float) -> None:
    assert share(text) == rate


@pytest.mark.parametrize("text", ["0", "0.0", "1/0", "2/3", "1.1", "-0.1", "1e-3", "", "0.0000001"])
def test_share_out_of_range_is_rejected(text: str) -> None:
    """With a share of 0, nobody could compute the total."""
    with pytest.raises(InvalidValueError, match="expected a share from"):
        share(text)


@given(st.text("01./e-", max_size=8))
def test_any_accepted_share_is_in_range(text: str) -> None:
    try:
        rate = share(text)
    except InvalidValueError:
        return
    assert RATE_MIN <= rate <= 1
