"""SASL/PLAIN tokens, from the text of RFC 4616."""

from hmac import compare_digest

import pytest

from authorizerd.config import jaas
from authorizerd.config.jaas import PlainUsers, password_digest
from authorizerd.daemon.kafka.errors import AuthenticationError
from authorizerd.daemon.kafka.login import sasl_plain as sasl
from authorizerd.daemon.kafka.login.sasl_plain import INVALID_CREDENTIALS, authenticate_plain

USERS = PlainUsers({"alice": "alice-secret", "zoë": "pässwörd", "a b": "s p"})


@pytest.mark.parametrize(
    ("token", "user"),
    [
        (b"\0alice\0alice-secret", "alice"),
        (b"alice\0alice\0alice-secret", "alice"),
        ("\0zoë\0pässwörd".encode(), "zoë"),
        (b"\0a b\0s p", "a b"),
    ],
)
def test_right_password_logs_in(token: bytes, user: str) -> None:
    """The authorization id is absent or the user's own. Names and passwords are UTF-8."""
    assert authenticate_plain(token, USERS) == user


@pytest.mark.parametrize(
    ("token", "text"),
    [
        (b"\0alice\0wrong", INVALID_CREDENTIALS),
        (b"\0alice\0alice-secret ", INVALID_CREDENTIALS),
        (b"\0alice\0alice-secre", INVALID_CREDENTIALS),
        (b"\0Alice\0alice-secret", INVALID_CREDENTIALS),
        (b"\0nobody\0alice-secret", INVALID_CREDENTIALS),
        (b"\0alice\0" + "pässwörd".encode(), INVALID_CREDENTIALS),
        (b"\0alice\0", "password not specified"),
        (b"\0\0alice-secret", "username not specified"),
        (b"zo\0alice\0alice-secret", "different from username"),
        (b"a b\0alice\0wrong", INVALID_CREDENTIALS),
        (b"", "expected 3 tokens, got 1"),
        (b"alice\0alice-secret", "expected 3 tokens, got 2"),
        (b"\0alice\0alice-secret\0", "expected 3 tokens, got 4"),
        (b"\0alice\0\xff\xfe", INVALID_CREDENTIALS),
        (b"\0\xed\xa0\x80\0x", INVALID_CREDENTIALS),
        (b"\0" * 100_000, "expected 3 tokens, got 100001"),
    ],
)
def test_other_tokens_are_rejected(token: bytes, text: str) -> None:
    """The text never reveals which users exist."""
    with pytest.raises(AuthenticationError, match=text) as refused:
        authenticate_plain(token, USERS)
    assert "secret" not in str(refused.value)


def test_unknown_user_matches_no_password() -> None:
    """An unknown user has a placeholder digest, which belongs to no password."""
    with pytest.raises(AuthenticationError):
        authenticate_plain(b"\0nobody\0" + bytes(32).hex().encode(), PlainUsers({}))
    with pytest.raises(AuthenticationError):
        authenticate_plain(b"\0nobody\0None", PlainUsers({}))


@pytest.mark.parametrize("user", ["alice", "zoë", "nobody"])
@pytest.mark.parametrize("password", ["x", "alice-secret-and-more", "y" * 10_000])
def test_unknown_user_costs_the_work_of_a_known_one(
    monkeypatch: pytest.MonkeyPatch, user: str, password: str
) -> None:
    """Either costs one digest of the sent password, and one comparison of equally long digests."""
    digested: list[str] = []
    compared: list[tuple[int, int]] = []

    def digest(text: str) -> bytes:
        digested.append(text)
        return password_digest(text)

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((len(one), len(other)))
        return compare_digest(one, other)

    monkeypatch.setattr(sasl, "password_digest", digest)
    monkeypatch.setattr(jaas, "password_digest", digest)
    monkeypatch.setattr(sasl, "compare_digest", compare)
    with pytest.raises(AuthenticationError):
        authenticate_plain(f"\0{user}\0{password}".encode(), USERS)
    assert digested == [password]
    assert compared == [(32, 32)]
