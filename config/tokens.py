"""The tokens of decision ports: read the tokens file, and create tokens.

**Invariant:** only a secret's SHA-256 is kept, and no error or ``repr`` shows the secret or its
hash.

A token is ``ID.SECRET``. The secret is 32 random bytes in base64url. The file has one entry per
line, ``ID SHA-256-OF-THE-SECRET Type:name``. The principal is the rest of the line and may contain
spaces. Blank lines, and lines that begin with ``#``, are ignored.
"""

from __future__ import annotations

import hmac
import re
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from authorizerd.acl.model import WILDCARD_PRINCIPAL
from authorizerd.config.errors import ConfigurationError, InvalidValueError

SECRET_BYTES: Final = 32

_BLANKS: Final = " \t\r"
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ID_EXPECTED: Final = "expected an id of 1 to 64 letters, digits, - and _"
_DIGEST: Final = re.compile(r"[0-9A-Fa-f]{64}")
# The longest token has 108 bytes: an id of 64, a dot, and 32 bytes in base64url.
_TOKEN_BYTES_MAX: Final = 128
_NO_DIGEST: Final = bytes(32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """An entry of the file. ``digest`` is the secret's SHA-256."""

    id: str
    digest: bytes = field(repr=False)
    principal: str


class Tokens:
    """The entries of one file, by id. ``text`` is the text of the file."""

    __slots__ = ("_by_id", "text")

    def __init__(self, by_id: Mapping[str, Token], text: str = "") -> None:
        self._by_id: Final = {token_id.encode(): token for token_id, token in by_id.items()}
        self.text: Final = text

    def __iter__(self) -> Iterator[Token]:
        return iter(self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, token: Token) -> bool:
        """Return True if the file still has this entry, with the same hash and principal."""
        entry = self._by_id.get(token.id.encode())
        return entry is token or entry == token

    def find(self, token: bytes) -> Token | None:
        """Return the entry with the id and secret of ``token``, or None.

        An unknown id takes as long as a wrong secret, so the time does not reveal which ids exist.
        Texts longer than any valid token are rejected at once.
        """
        if len(token) > _TOKEN_BYTES_MAX:
            return None
        token_id, _, secret = token.partition(b".")
        entry = self._by_id.get(token_id)
        digest = _NO_DIGEST if entry is None else entry.digest
        # Compare in constant time, or the time would reveal how much of the hash matches.
        is_proven = hmac.compare_digest(sha256(secret).digest(), digest)
        return entry if is_proven else None


def parse_tokens(text: str, *, source: str) -> Tokens:
    """Return the entries of a tokens file. ``source`` is its name in errors.

    Raises:
        ConfigurationError: the first invalid line.
    """
    by_id: dict[str, Token] = {}
    # splitlines would also split at characters that a principal may contain.
    for number, line in enumerate(text.split("\n"), start=1):
        entry = line.strip(_BLANKS)
        if not entry or entry.startswith("#"):
            continue
        try:
            token = _parse_entry(entry)
            if token.id in by_id:
                raise InvalidValueError(f"the id {token.id} occurs in an earlier line")
        except InvalidValueError as error:
            raise ConfigurationError(source, number, "", str(error)) from None
        by_id[token.id] = token
    return Tokens(by_id, text)


def _parse_entry(entry: str) -> Token:
    """Return a line's entry. Errors name the fault but not the text: it may be a secret."""
    token_id, _, rest = entry.replace("\t", " ").partition(" ")
    digest, _, rest = rest.lstrip(" ").partition(" ")
    # Take it from the unchanged entry, since a principal may contain tabs.
    principal = entry[len(entry) - len(rest.lstrip(" ")) :]
    if not _ID.fullmatch(token_id):
        raise InvalidValueError(_ID_EXPECTED)
    if not _DIGEST.fullmatch(digest):
        # Do not show the id either: it may be a token, or a secret in the wrong place.
        raise InvalidValueError("expected a SHA-256 hash (64 hex digits) after the id")
    principal_type, _, name = principal.partition(":")
    if not (principal_type and name):
        raise InvalidValueError("expected a principal Type:name, for example Service:proxy")
    if principal == WILDCARD_PRINCIPAL:
        raise InvalidValueError(f"expected one principal, found {WILDCARD_PRINCIPAL} (everyone)")
    return Token(id=token_id, digest=bytes.fromhex(digest), principal=principal)


def new_token(id: str, principal: str, secret: bytes) -> tuple[str, str]:
    """Return a token, to be shown once, and its line in the file.

    Args:
        secret: ``SECRET_BYTES`` random bytes.

    Raises:
        InvalidValueError: the file cannot contain this id or principal.
    """
    assert len(secret) == SECRET_BYTES
    if not _ID.fullmatch(id):
        raise InvalidValueError(_ID_EXPECTED)
    text = urlsafe_b64encode(secret).rstrip(b"=")
    line = f"{id} {sha256(text).hexdigest()} {principal}"
    _parse_entry(line)
    # Otherwise, the file would be read with another principal, or with two lines.
    if principal != principal.strip(_BLANKS) or "\n" in principal or not _is_text(principal):
        raise InvalidValueError(
            "expected a principal of one line of text, without blanks at its ends"
        )
    return f"{id}.{text.decode()}", line


def _is_text(name: str) -> bool:
    """Return True if UTF-8 can encode ``name``. An argument may contain invalid bytes."""
    return name.encode("utf-8", "ignore").decode() == name
