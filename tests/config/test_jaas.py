from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.config.errors import InvalidValueError
from authorizerd.config.jaas import (
    PLAIN_LOGIN_MODULE,
    SCRAM_LOGIN_MODULE,
    PlainUsers,
    parse_login_options,
    parse_plain_users,
)

LINE = f"{PLAIN_LOGIN_MODULE} required "


@pytest.mark.parametrize(
    ("line", "options"),
    [
        (f'{LINE}a="x y" b=z ;', {"a": "x y", "b": "z"}),
        (f"  {PLAIN_LOGIN_MODULE}\tREQUIRED\ta='x y' b='c\"d' ; ", {"a": "x y", "b": 'c"d'}),
        (f"{PLAIN_LOGIN_MODULE} optional a.b-c$d=x-y;", {"a.b-c$d": "x-y"}),
        (f'{LINE}a = "b\\"c" d="e\\\\f;=" g="h";', {"a": 'b"c', "d": "e\\f;=", "g": "h"}),
        (f'{LINE}a="" b=c29tZQ== a="last";', {"a": "last", "b": "c29tZQ=="}),
        (f"{PLAIN_LOGIN_MODULE} required;", {}),
    ],
)
def test_options_may_be_quoted_in_either_way_or_bare(line: str, options: dict[str, str]) -> None:
    assert parse_login_options(line) == options


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
    """Backslashes escape quotes and themselves."""
    quoted = password.replace("\\", "\\\\").replace(quote, "\\" + quote)
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
        (LINE + 'user_a="hidden;', "option 1"),
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
