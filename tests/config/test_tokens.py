"""The tokens file as text: what it holds, what it refuses, and that it shows nothing."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authorizerd.config.errors import ConfigurationError, InvalidValueError
from authorizerd.config.tokens import SECRET_BYTES, Token, Tokens, new_token, parse_tokens

SECRET = bytes(range(SECRET_BYTES))
DIGEST = sha256(b"secret").hexdigest()


def parsed(text: str) -> Tokens:
    return parse_tokens(text, source="tokens")


@pytest.mark.parametrize(
    ("line", "principal"),
    [
        (f"a {DIGEST} User:proxy", "User:proxy"),
        (f"a {DIGEST} User:a proxy,  of: ours", "User:a proxy,  of: ours"),
        (f" \ta\t {DIGEST.upper()} \t Group:x \r", "Group:x"),
        (f"# a b\n\n \t\r\na {DIGEST} User:tab\tbed", "User:tab\tbed"),
        (f"a {DIGEST} User:# no comment", "User:# no comment"),
    ],
)
def test_a_line_is_an_id_a_hash_and_a_principal(line: str, principal: str) -> None:
    """The principal is the rest of the line, blanks at its ends apart."""
    tokens = parsed(line)
    assert len(tokens) == 1
    assert tokens.find(b"a.secret") == Token(
        id="a", digest=bytes.fromhex(DIGEST), principal=principal
    )


BAD_LINES = [
    (f"a.b {DIGEST} User:x", "expected an id of 1 to 64 letters, digits, - and _"),
    (f"{'i' * 65} {DIGEST} User:x", "expected an id of 1 to 64 letters, digits, - and _"),
    ("c2VjcmV0LXNlY3JldC1zZWNyZXQ", "expected a SHA-256 hash (64 hex digits) after the id"),
    ("a", "expected a SHA-256 hash (64 hex digits) after the id"),
    (f"a {DIGEST[1:]} User:x", "expected a SHA-256 hash (64 hex digits) after the id"),
    (f"a {DIGEST}0 User:x", "expected a SHA-256 hash (64 hex digits) after the id"),
    (f"a User:x {DIGEST}", "expected a SHA-256 hash (64 hex digits) after the id"),
    (f"a {DIGEST}", "expected a principal Type:name, for example User:proxy"),
    (f"a {DIGEST} alice", "expected a principal Type:name, for example User:proxy"),
    (f"a {DIGEST} :alice", "expected a principal Type:name, for example User:proxy"),
    (f"a {DIGEST} User:", "expected a principal Type:name, for example User:proxy"),
    (f"a {DIGEST} User:*", "expected one principal, found User:* (everyone)"),
    (f"b {DIGEST} User:x", "the id b occurs in an earlier line"),
]


@pytest.mark.parametrize(("line", "reason"), BAD_LINES)
def test_a_bad_line_is_named_and_not_shown(line: str, reason: str) -> None:
    """It may hold a secret in the wrong place; a principal that holds digits is no exception."""
    with pytest.raises(ConfigurationError) as refusal:
        parsed(f"b {DIGEST} User:b\n\n{line}\n")
    assert str(refusal.value) == f"tokens:3: {reason}"
    assert DIGEST[1:] not in str(refusal.value)


@settings(deadline=None)
@given(st.text(alphabet=f"ab. :\t\r\n#*{DIGEST[:3]}"))
def test_any_text_is_tokens_or_one_line_of_error(text: str) -> None:
    """Nothing else comes out, and a good line after any other good ones is found."""
    reason, tokens = "", None
    try:
        tokens = parsed(f"{text}\nq {DIGEST} User:q")
    except ConfigurationError as error:
        reason = str(error)
    assert len(reason.splitlines()) == (tokens is None)
    assert tokens is None or tokens.find(b"q.secret") is not None


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b".",
        b"a",
        b"a.",
        b"a.Secret",
        b"a.secret ",
        b"a.secret.",
        b".secret",
        b"b.secret",
        b"A.secret",
        b"\xff.secret",
        b"secret",
        f"a.{DIGEST}".encode(),
        b"a.secret" + b"x" * 100_000,
    ],
)
def test_what_is_no_token_proves_nobody(token: bytes) -> None:
    """The id, the dot and the secret must all be right."""
    assert parsed(f"a {DIGEST} User:x").find(token) is None


def test_a_token_has_a_bound() -> None:
    """The longest that is made is found; what is longer by far is not even hashed."""
    token, line = new_token("i" * 64, "User:x", SECRET)
    assert parsed(line).find(token.encode()) is not None
    secret = b"s" * 1000
    assert parsed(f"a {sha256(secret).hexdigest()} User:x").find(b"a." + secret) is None


def test_an_entry_stands_as_long_as_nothing_of_it_changes() -> None:
    """Another hash or another principal for the id is another token."""
    before = parsed(f"a {DIGEST} User:x").find(b"a.secret")
    assert before is not None
    assert before in parsed(f"b {DIGEST} User:y\na {DIGEST} User:x")
    for text in ("", f"a {DIGEST} User:y", f"a {sha256().hexdigest()} User:x"):
        assert before not in parsed(text)


def test_neither_secret_nor_hash_is_in_a_repr() -> None:
    """An entry in a log or a traceback gives nothing away."""
    tokens = parsed(f"a {DIGEST} User:x")
    entry = tokens.find(b"a.secret")
    assert repr(entry) == "Token(id='a', principal='User:x')"
    assert DIGEST not in repr(tokens)
    assert str(bytes.fromhex(DIGEST)) not in repr(tokens)


@pytest.mark.parametrize("principal", ["User:proxy", "User:a b", "Group:x:y", "User:ä"])
def test_a_new_token_is_found_by_its_line(principal: str) -> None:
    """What is printed once and what stands in the file belong together."""
    token, line = new_token("proxy-1", principal, SECRET)
    found = parsed(line).find(token.encode())
    assert found is not None
    assert (found.id, found.principal) == ("proxy-1", principal)
    assert token.partition(".")[2] not in line
    assert len(token) == len("proxy-1.") + 43


@pytest.mark.parametrize(
    "principal", ["x", "User:", "User:*", " User:x", "User:x ", "User:x\ny", "User:\udcff", ""]
)
def test_a_principal_that_the_file_cannot_hold_gets_no_token(principal: str) -> None:
    """The line would say another one, or none."""
    with pytest.raises(InvalidValueError):
        new_token("a", principal, SECRET)
