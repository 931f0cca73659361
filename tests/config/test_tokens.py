"""Read and create tokens."""

from hashlib import sha256
from hmac import compare_digest
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.config import tokens
from authorizerd.config.errors import ConfigurationError, InvalidValueError
from authorizerd.config.tokens import SECRET_BYTES, Token, Tokens, new_token, parse_tokens

SECRET = bytes(range(SECRET_BYTES))
DIGEST = sha256(b"secret").hexdigest()


def parsed(text: str) -> Tokens:
    return parse_tokens(text, source="tokens")


@pytest.mark.parametrize(("line", "principal"), [
    (f"a {DIGEST} User:proxy", "User:proxy"),
    (f"a {DIGEST} User:a proxy,  of: ours", "User:a proxy,  of: ours"),
    (f" \ta\t {DIGEST.upper()} \t Group:x \r", "Group:x"),
    (f"# a b\n\n \t\r\na {DIGEST} User:tab\tbed", "User:tab\tbed"),
    (f"a {DIGEST} User:# no comment", "User:# no comment"),
])  # fmt: skip
def test_line_has_an_id_a_hash_and_a_principal(line: str, principal: str) -> None:
    """The principal is the trimmed rest of the line."""
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
    (f"a {DIGEST}", "expected a principal Type:name, for example Service:proxy"),
    (f"a {DIGEST} alice", "expected a principal Type:name, for example Service:proxy"),
    (f"a {DIGEST} :alice", "expected a principal Type:name, for example Service:proxy"),
    (f"a {DIGEST} User:", "expected a principal Type:name, for example Service:proxy"),
    (f"a {DIGEST} User:*", "expected one principal, found User:* (everyone)"),
    (f"b {DIGEST} User:x", "the id b occurs in an earlier line"),
]


@pytest.mark.parametrize(("line", "reason"), BAD_LINES)
def test_invalid_line_is_named_but_not_shown(line: str, reason: str) -> None:
    """It may contain a secret in the wrong place."""
    with pytest.raises(ConfigurationError) as refusal:
        parsed(f"b {DIGEST} User:b\n\n{line}\n")
    assert str(refusal.value) == f"tokens:3: {reason}"
    assert DIGEST[1:] not in str(refusal.value)


@given(st.text(alphabet=f"ab. :\t\r\n#*{DIGEST[:3]}"))
def test_any_text_gives_tokens_or_a_one_line_error(text: str) -> None:
    reason, tokens = "", None
    try:
        tokens = parsed(f"{text}\nq {DIGEST} User:q")
    except ConfigurationError as error:
        reason = str(error)
    assert len(reason.splitlines()) == (tokens is None)
    assert tokens is None or tokens.find(b"q.secret") is not None


@pytest.mark.parametrize("token", [
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
])  # fmt: skip
def test_wrong_token_is_not_found(token: bytes) -> None:
    assert parsed(f"a {DIGEST} User:x").find(token) is None


@pytest.mark.parametrize("token", [b"a.secre", b"a.wrong", b"b.wrong", b".wrong", b"", b"\xff"])
def test_unknown_id_costs_as_much_as_a_known(monkeypatch: pytest.MonkeyPatch, token: bytes) -> None:
    """Either costs one hash of what was sent, and one comparison of equally long hashes."""
    hashed: list[bytes] = []
    compared: list[tuple[int, int]] = []

    def digest(data: bytes) -> object:
        hashed.append(data)
        return sha256(data)

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((len(one), len(other)))
        return compare_digest(one, other)

    entries = parsed(f"a {DIGEST} User:x")
    monkeypatch.setattr(tokens, "sha256", digest)
    monkeypatch.setattr(tokens, "hmac", SimpleNamespace(compare_digest=compare))
    assert entries.find(token) is None
    assert hashed == [token.partition(b".")[2]]
    assert compared == [(32, 32)]


def test_longest_token_is_found_and_a_longer_text_is_not_hashed() -> None:
    token, line = new_token("i" * 64, "User:x", SECRET)
    assert parsed(line).find(token.encode()) is not None
    secret = b"s" * 1000
    assert parsed(f"a {sha256(secret).hexdigest()} User:x").find(b"a." + secret) is None


def test_entry_with_another_hash_or_principal_is_another_token() -> None:
    before = parsed(f"a {DIGEST} User:x").find(b"a.secret")
    assert before is not None
    assert before in parsed(f"b {DIGEST} User:y\na {DIGEST} User:x")
    for text in ("", f"a {DIGEST} User:y", f"a {sha256().hexdigest()} User:x"):
        assert before not in parsed(text)


def test_repr_shows_neither_secret_nor_hash() -> None:
    tokens = parsed(f"a {DIGEST} User:x")
    assert repr(tokens.find(b"a.secret")) == "Token(id='a', principal='User:x')"
    assert DIGEST not in repr(tokens)
    assert str(bytes.fromhex(DIGEST)) not in repr(tokens)


@pytest.mark.parametrize("principal", ["User:proxy", "User:a b", "Group:x:y", "User:ä"])
def test_new_token_is_found_by_its_line(principal: str) -> None:
    token, line = new_token("proxy-1", principal, SECRET)
    found = parsed(line).find(token.encode())
    assert found is not None
    assert (found.id, found.principal) == ("proxy-1", principal)
    assert token.partition(".")[2] not in line
    assert len(token) == len("proxy-1.") + 43


@pytest.mark.parametrize(
    "principal", ["x", "User:", "User:*", " User:x", "User:x ", "User:x\ny", "User:\udcff", ""]
)
def test_principal_that_the_file_cannot_contain_is_rejected(principal: str) -> None:
    with pytest.raises(InvalidValueError):
        new_token("a", principal, SECRET)
