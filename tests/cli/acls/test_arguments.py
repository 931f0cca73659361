"""The flags and the output of ``authorizerd acls`` that the recorded stories do not cover."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.model import Acl, Operation, PermissionType
from authorizerd.cli.acls.arguments import check_arguments, parse_arguments
from authorizerd.cli.acls.errors import KafkaAclsError, UsageError
from authorizerd.cli.acls.runner import format_by_principal
from authorizerd.management.formats.listing import format_acls
from tests.support.strategies import acls

WORDS = st.sampled_from(
    [
        *("--add", "--remove", "--list", "--topic", "-topic", "--topic=", "--topic=a", "--group"),
        *("--principal", "--command-config", "--producer", "--consumer", "--idempotent", "--help"),
        *("--bootstrap-server", "--log-dir", "--", "-", "", "x", "-x", "--x", "=", "--force=1"),
    ]
)


@given(st.lists(WORDS | st.text(), max_size=6))
def test_any_words_are_flags_or_a_usage_error(words: list[str]) -> None:
    try:
        found = parse_arguments(words)
        check_arguments(found)
    except UsageError:
        return
    for value in found.values("topic"):
        assert value in words or f"--topic={value}" in words


@pytest.mark.parametrize(("words", "flag", "values"), [
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
])  # fmt: skip
def test_values_are_parsed_as_jopt_simple_parses_them(
    words: list[str], flag: str, values: list[str] | None
) -> None:
    if values is None:
        with pytest.raises(UsageError):
            parse_arguments(words)
        return
    found = parse_arguments(words)
    assert found.has(flag)
    assert list(found.values(flag)) == values


def test_absent_flag_has_no_values() -> None:
    found = parse_arguments([])
    assert not found.has("topic")
    assert list(found.values("topic")) == []
    assert found.value("topic") is None


def test_repeated_flag_is_rejected_where_one_value_is_expected() -> None:
    with pytest.raises(KafkaAclsError, match="Found multiple arguments for option log-dir"):
        parse_arguments(["--log-dir", "a", "--log-dir", "b"]).value("log-dir")


def test_values_of_a_repeated_flag_are_checked_once() -> None:
    class Value(str):
        __slots__ = ()
        read = 0

        def __iter__(self) -> Iterator[str]:
            Value.read += 1
            return super().__iter__()

    assert len(parse_arguments(["--topic", Value("a")] * 50).values("topic")) == 50
    assert Value.read == 50


def test_value_that_is_not_utf_8_is_rejected() -> None:
    with pytest.raises(UsageError, match="The value of option topic is not valid UTF-8"):
        parse_arguments(["--topic", "a\udcff"])


@pytest.mark.parametrize(("flag", "value"), [
    ("add", []),
    ("remove", []),
    ("bootstrap-server", ["localhost:9092"]),
    ("bootstrap-controller", ["localhost:9093"]),
    ("command-config", ["client.properties"]),
])  # fmt: skip
def test_log_dir_conflicts_with_flags_of_a_server(flag: str, value: list[str]) -> None:
    words = ["--list", "--log-dir", "d", f"--{flag}", *value]
    with pytest.raises(UsageError) as error:
        check_arguments(parse_arguments(words))
    assert str(error.value) == f'Option "[log-dir]" can\'t be used with option "[{flag}]"'


def test_log_dir_combines_with_filters() -> None:
    check_arguments(
        parse_arguments(["--list", "--log-dir", "d", "--topic", "t", "--principal", "User:a"])
    )


def test_principals_are_listed_in_the_given_order_once_each() -> None:
    headings = "ACLs for principal `User:b`\nACLs for principal `User:a`\n"
    assert format_by_principal([], ("User:b", "User:a", "User:b")) == headings


@given(st.lists(acls(unknown_codes=True), max_size=8))
def test_every_acl_is_listed_once_in_a_fixed_order(found: list[Acl]) -> None:
    text = format_acls(found)
    assert format_acls([*reversed(found), *found]) == text
    lines = text.split("\n")
    assert {line for line in lines if line.startswith("\t")} == {
        f"\t(principal={acl.principal}, host={acl.host}, "
        f"operation={Operation.read(acl.operation).name}, "
        f"permissionType={PermissionType.read(acl.permission_type).name})"
        for acl in found
    }
    headings = [line for line in lines if line.startswith("Current ")]
    assert len(headings) == len(set(headings))


def test_unknown_codes_are_listed_as_one() -> None:
    one, two = (Acl(code, "t", code, "User:a", "*", code, code) for code in (90, 91))
    assert format_acls([one, two]) == (
        "Current ACLs for resource `ResourcePattern(resourceType=UNKNOWN, name=t, "
        "patternType=UNKNOWN)`:\n"
        "\t(principal=User:a, host=*, operation=UNKNOWN, permissionType=UNKNOWN)\n\n"
    )


def test_empty_list_prints_nothing() -> None:
    assert format_acls([]) == ""
