from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.config.errors import InvalidValueError
from authorizerd.config.jaas import PLAIN_LOGIN_MODULE, PlainUsers, parse_plain_users

LINE = f"{PLAIN_LOGIN_MODULE} required "


def test_the_users_are_those_who_may_log_in() -> None:
    """``username`` is what a broker itself would use elsewhere, and no user here."""
    line = LINE + 'username="admin" password="x" user_admin="a b" user_bob=c ;'
    assert parse_plain_users(line) == PlainUsers({"admin": "a b", "bob": "c"})


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_quoted_password_may_be_any_text(password: str) -> None:
    """Backslashes escape quotes and themselves."""
    quoted = password.replace("\\", "\\\\").replace('"', '\\"')
    assert parse_plain_users(f'{LINE}user_a="{quoted}";').passwords == {"a": password}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "the login module"),
        ("other.Module required user_a=b;", "the login module"),
        (f"{PLAIN_LOGIN_MODULE} needed user_a=b;", "flag"),
        (LINE + "user_a=b", "';' is missing"),
        (LINE + 'user_a="b;', "option 1"),
        (LINE + 'user_a="b" user_c d;', "option 2"),
        (LINE + 'username="admin" password="hidden";', "no user may log in"),
        (LINE + ";", "no user may log in"),
    ],
)
def test_a_malformed_line_is_refused_without_its_secrets(line: str, said: str) -> None:
    """The error says where, never what."""
    with pytest.raises(InvalidValueError, match=said) as error:
        parse_plain_users(line)
    assert "hidden" not in str(error.value)


def test_passwords_are_never_shown() -> None:
    """Neither by the users' ``repr`` nor by what holds them."""
    assert "hidden" not in repr([PlainUsers({"a": "hidden"})])
