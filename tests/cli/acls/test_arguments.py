"""The flags of ``authorizerd acls``: how words become flags, beside what the stories show."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.cli.acls.arguments import check_arguments, parse_arguments
from authorizerd.cli.acls.errors import CommandError, UsageError

WORDS = st.sampled_from(
    [
        *("--add", "--remove", "--list", "--topic", "-topic", "--topic=", "--topic=a", "--group"),
        *("--principal", "--command-config", "--producer", "--consumer", "--idempotent", "--help"),
        *("--bootstrap-server", "--log-dir", "--", "-", "", "x", "-x", "--x", "=", "--force=1"),
    ]
)


@given(st.lists(WORDS | st.text(), max_size=6))
def test_any_words_are_flags_or_a_usage_error(words: list[str]) -> None:
    """Nothing else rises, and every value is one of the words or behind an equals sign."""
    try:
        found = parse_arguments(words)
        check_arguments(found)
    except UsageError:
        return
    for value in found.values("topic"):
        assert value in words or f"--topic={value}" in words


@pytest.mark.parametrize(
    ("words", "flag", "values"),
    [
        (["--topic", "a", "--topic", "b"], "topic", ["a", "b"]),
        (["--topic=a=b", "-topic", "c"], "topic", ["a=b", "c"]),
        (["--topic", "--list"], "topic", ["--list"]),
        (["--topic", "--"], "topic", ["--"]),
        (["--topic="], "topic", [""]),
        (["--topic", ""], "topic", [""]),
        (["--topic", "a", "stray", "-", "--topic", "b", "--", "--topic", "c"], "topic", ["a", "b"]),
        (["--principal"], "principal", []),
        (["--principal", "--list"], "principal", []),
        (["--principal", "-x"], "principal", None),
        (["--principal", "-"], "principal", ["-"]),
        (["--principal", "--"], "principal", ["--"]),
        (["--principal="], "principal", [""]),
        (["--principal", "User:a", "User:b"], "principal", ["User:a"]),
        (["--force", "no", "--list=no"], "force", []),
    ],
)
def test_values_are_found_as_jopt_simple_finds_them(
    words: list[str], flag: str, values: list[str] | None
) -> None:
    """A required value is whatever follows; an optional one is nothing that looks like a flag."""
    if values is None:
        with pytest.raises(UsageError):
            parse_arguments(words)
        return
    found = parse_arguments(words)
    assert found.has(flag)
    assert list(found.values(flag)) == values


def test_a_flag_that_was_not_given_has_no_values() -> None:
    """And is not there."""
    found = parse_arguments([])
    assert not found.has("topic")
    assert list(found.values("topic")) == []
    assert found.value("topic") is None


def test_one_value_is_not_several() -> None:
    """Where only one makes sense."""
    with pytest.raises(CommandError, match="Found multiple arguments for option log-dir"):
        parse_arguments(["--log-dir", "a", "--log-dir", "b"]).value("log-dir")


def test_bytes_that_are_no_utf_8_are_refused() -> None:
    """Python hands them over as lone surrogates, which Kafka's strings cannot hold."""
    with pytest.raises(UsageError, match="The value of option topic is not valid UTF-8"):
        parse_arguments(["--topic", "a\udcff"])


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("add", []),
        ("remove", []),
        ("bootstrap-server", ["localhost:9092"]),
        ("bootstrap-controller", ["localhost:9093"]),
        ("command-config", ["client.properties"]),
    ],
)
def test_a_log_is_read_without_a_server(flag: str, value: list[str]) -> None:
    """What needs a server does not go with ``--log-dir``."""
    words = ["--list", "--log-dir", "d", f"--{flag}", *value]
    with pytest.raises(UsageError) as error:
        check_arguments(parse_arguments(words))
    assert str(error.value) == f'Option "[log-dir]" can\'t be used with option "[{flag}]"'


def test_a_log_can_be_listed_by_resource_and_principal() -> None:
    """As a server can."""
    check_arguments(
        parse_arguments(["--list", "--log-dir", "d", "--topic", "t", "--principal", "User:a"])
    )
