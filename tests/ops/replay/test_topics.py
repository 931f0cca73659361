"""The addresses of topics, and the words of texts."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.replay.options import PathError, read_client_settings
from authorizerd.replay.text import format_count, format_time, parse_time
from authorizerd.replay.topics import Topic, parse_topic

LOG_IN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a"'
SETTINGS = f"""
bootstrap.servers = other:9092
security.protocol=SASL_SSL
sasl.jaas.config={LOG_IN} password="top \\\\" secret";
ssl.truststore.password=top secret
"""


def test_address_names_servers_and_topic() -> None:
    topic = parse_topic("kafka://a:9092,[::1]:9093/audit.log_1-x", {"sasl.mechanism": "PLAIN"})
    assert topic == Topic(
        servers="a:9092,[::1]:9093", name="audit.log_1-x", settings={"sasl.mechanism": "PLAIN"}
    )
    assert topic.uri == "kafka://a:9092,[::1]:9093/audit.log_1-x"


@pytest.mark.parametrize("text", [
    "kafka://a:9092", "kafka://a:9092/", "kafka://a/audit", "kafka:///audit", "kafka://a:9092/a/b",
    "kafka://a:9092/audit?x=1", "kafka://a:9092,/audit", "kafka://a:9092/audit log", "a:9092/audit",
    "kafka://a:9092/" + "x" * 250,
])  # fmt: skip
def test_other_address_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected kafka://HOST:PORT.*/TOPIC, found"):
        parse_topic(text, {})


def test_log_in_within_an_address_is_not_shown() -> None:
    with pytest.raises(ValueError, match="command-config") as found:
        parse_topic("kafka://user:hidden@a:9092/audit", {})
    assert "hidden" not in str(found.value)


def test_client_settings_are_those_for_tls_and_the_log_in(tmp_path: Path) -> None:
    (tmp_path / "client.properties").write_text(SETTINGS)
    settings = read_client_settings(tmp_path / "client.properties")
    assert settings == {
        "security.protocol": "SASL_SSL",
        "sasl.jaas.config": f'{LOG_IN} password="top \\" secret";',
        "ssl.truststore.password": "top secret",
    }
    assert "secret" not in repr(parse_topic("kafka://a:9092/audit", settings))
    assert read_client_settings(None) == {}


@pytest.mark.parametrize(("text", "said"), [
    (f'sasl.jaas.config={LOG_IN} password="hidden"', "option 3: expected NAME="),
    ("sasl.jaas.config=PlainLoginModule hidden required;", "expected one of required, "),
    ("ssl.key.password=\\\\uhidden", None),
    ("ssl.key.password=\\uhidden", "four hexadecimal digits"),
    (None, "No such file"),
])  # fmt: skip
def test_faulty_client_settings_are_rejected_without_their_secrets(
    text: str | None, said: str | None, tmp_path: Path
) -> None:
    file = tmp_path / "client.properties"
    if text is not None:
        file.write_text(text)
    if said is None:
        assert read_client_settings(file)
        return
    with pytest.raises(PathError, match=said) as found:
        read_client_settings(file)
    assert str(file) in str(found.value)
    assert "hidden" not in str(found.value)


@given(st.integers(-(10**13), 10**14))
def test_times_read_back_to_the_millisecond(ms: int) -> None:
    assert parse_time(format_time(ms)) == ms
    assert parse_time(format_time(ms).removesuffix("Z")) == ms


@pytest.mark.parametrize("ms", [2**62, 2**63 - 1])
def test_time_beyond_the_calendar_is_a_number(ms: int) -> None:
    assert format_time(ms) == f"{ms} ms"


def test_count_has_a_plural() -> None:
    assert [format_count(n, "event") for n in (0, 1, 2_000)] == [
        "0 events",
        "1 event",
        "2,000 events",
    ]
