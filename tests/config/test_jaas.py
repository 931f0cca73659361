import re
from contextlib import nullcontext, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.config.errors import InvalidValueError
from authorizerd.config.jaas import (
    PLAIN_LOGIN_MODULE,
    SCRAM_LOGIN_MODULE,
    PlainUsers,
    parse_login,
    parse_login_options,
    parse_plain_users,
    quote_option,
)

LINE = f"{PLAIN_LOGIN_MODULE} required "


@pytest.mark.parametrize(
    ("line", "options"),
    [
        (f'{LINE}a="x y" b=z ;', {"a": "x y", "b": "z"}),
        (f"  {PLAIN_LOGIN_MODULE}\tREQUIRED\ta='x y' b='c\"d' ; ", {"a": "x y", "b": 'c"d'}),
        (f"{PLAIN_LOGIN_MODULE} optional a.b-c$d=x-y;", {"a.b-c$d": "x-y"}),
        (f'{LINE}a = "b\\"c" d="e\\\\f;=" g="h";', {"a": 'b"c', "d": "e\\f;=", "g": "h"}),
        (f'{LINE}a="" b=c a="last";', {"a": "last", "b": "c"}),
        (f"{PLAIN_LOGIN_MODULE} required;", {}),
    ],
)
def test_options_may_be_quoted_in_either_way_or_bare(line: str, options: dict[str, str]) -> None:
    assert parse_login_options(line) == options


# What Kafka 4.3.1's JaasConfig gave for each end of a line; None is an error.
KAFKA: list[tuple[str, dict[str, str] | None]] = [
    ('"user_alice@example.com"="x";', {"user_alice@example.com": "x"}),
    ('password="a\\tb\\n\\r\\f\\b\\a\\v";', {"password": "a\tb\n\r\f\b\a\v"}),
    ('password="a\\101b\\7\\377\\4777\\08";', {"password": "aAb\x07ÿ'77\x008"}),
    ('password="\\u0041\\x\\é";', {"password": "u0041xé"}),
    ("/* c */ user_a /*/ x=y */ = // z\n b /**/;", {"user_a": "b"}),
    ("a=b/c=d;\ne=f;", {"a": "b", "e": "f"}),
    ("a=b / c=d;", None),
    ("a=b /* c=d;", None),
    ("a='b\nc=d;", {"a": "b", "c": "d"}),
    ('a="b\\\nc";', {"a": "b\nc"}),
    ('7=x -="y" @=z .5=w;', {}),
    ("a=7;", None),
    ("a=.b;", None),
    ("a=-b;", None),
    ("a=b-c.7;", {"a": "b-c.7"}),
    ("a=p@x;", None),
    ("a=p@=x;", {"a": "p"}),
    ("a=c29tZQ==;", None),
    ("a=é日\xa0;", {"a": "é日\xa0"}),
    ("a=b\x80;", None),
    ("a=b\0c=d\x1f;", {"a": "b", "c": "d"}),
    ("a=b;;", None),
    ("a=b; c.D required;", None),
    ("a=b /\n c=d\n e=f;", {"a": "b", "e": "f"}),
    ("a=b //\n e=f;", {"a": "b", "e": "f"}),
    ("a=b; // c", {"a": "b"}),
]


@pytest.mark.parametrize(("end", "options"), KAFKA)
def test_options_are_kafkas(end: str, options: dict[str, str] | None) -> None:
    with nullcontext() if options is not None else pytest.raises(InvalidValueError):
        assert parse_login(LINE + end) == (PLAIN_LOGIN_MODULE, options)


@pytest.mark.parametrize("flag", ["Required", "'sufficient'", "requ\u0131red", "su\ufb03cient"])
def test_module_may_be_quoted_and_flag_is_of_any_case(flag: str) -> None:
    line = f'"{PLAIN_LOGIN_MODULE}" {flag} a=b;'
    assert parse_login(line) == (PLAIN_LOGIN_MODULE, {"a": "b"})


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_quoted_option_reads_back(text: str) -> None:
    line = f"{LINE}{quote_option(text)}={quote_option(text)};"
    assert parse_login_options(line) == {text: text}


def test_line_may_name_any_of_the_given_modules() -> None:
    line = f'{SCRAM_LOGIN_MODULE} required username="a";'
    modules = (PLAIN_LOGIN_MODULE, SCRAM_LOGIN_MODULE)
    assert parse_login_options(line, modules) == {"username": "a"}
    expected = f"expected the login module {PLAIN_LOGIN_MODULE}"
    with pytest.raises(InvalidValueError, match=f"^{expected}$"):
        parse_login_options(line)
    with pytest.raises(InvalidValueError, match=f"^{expected} or {SCRAM_LOGIN_MODULE}$"):
        parse_login_options(line.replace("scram", "other"), modules)


def test_only_options_with_the_prefix_are_users() -> None:
    """A broker logs in elsewhere as ``username``, who may not log in here."""
    line = LINE + 'username="admin" password="x" user_admin="a b" user_bob=c ;'
    assert parse_plain_users(line) == PlainUsers({"admin": "a b", "bob": "c"})


@given(st.text(st.characters(exclude_categories=["Cs"])), st.sampled_from("'\""))
def test_quoted_password_may_be_any_text(password: str, quote: str) -> None:
    """Backslashes escape quotes, ends of lines and themselves."""
    quoted = re.sub(rf"[\\\\\r\n{quote}]", r"\\\g<0>", password)
    line = f"{LINE}user_a={quote}{quoted}{quote};"
    assert parse_plain_users(line).passwords == {"a": password}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "the login module"),
        ("other.Module required user_a=hidden;", "the login module"),
        (PLAIN_LOGIN_MODULE, "after the login module"),
        (f"{PLAIN_LOGIN_MODULE} needed user_a=hidden;", "after the login module"),
        (f"{PLAIN_LOGIN_MODULE} required", "option 1"),
        (LINE + "user_a=hidden", "';' after the last option"),
        (LINE + 'user_a="hidden;', "option 2"),
        (LINE + "user_a=;", "option 1"),
        (LINE + 'user_a="b" "hidden";', "option 2"),
        (LINE + 'user_a="b" user_c hidden;', "option 2"),
        (LINE + 'username="admin" password="hidden";', "at least one option user_NAME"),
        (LINE + ";", "at least one option user_NAME"),
    ],
)
def test_malformed_line_is_rejected_without_its_secrets(line: str, said: str) -> None:
    with pytest.raises(InvalidValueError, match=said) as error:
        parse_plain_users(line)
    assert "hidden" not in str(error.value)


@given(st.text("=;'\"\\ ab\n", max_size=12))
def test_any_line_is_options_or_an_error(end: str) -> None:
    with suppress(InvalidValueError):
        assert parse_login_options(f"{LINE}a=b {end}")


def test_passwords_are_never_shown() -> None:
    assert "hidden" not in repr([PlainUsers({"a": "hidden"})])
