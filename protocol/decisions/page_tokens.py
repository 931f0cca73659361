"""The tokens that let a search continue at its next page.

A token contains the position where the search continues, so the daemon keeps nothing between pages,
and any worker can answer the next one. It identifies the state of the ACLs that the previous pages
showed.

**Invariant:** a token is valid only for the same search by the same caller, and only if this daemon
created it. So pages never mix two states or two searches.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

import msgspec

from authorizerd.acl.errors import SearchLimitError
from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.protocol.decisions.authzen import AuthZenError

SECRET_BYTES: Final = 32
STATE_BYTES: Final = 16
SHOWN_CHARACTERS: Final = 100
"""The maximum number of characters of a name in an error."""
TOKEN_CHARACTERS_MAX: Final = 16 * 1024
"""The maximum size of a position, which fits in a request of at most 32 KiB."""
_MAC_BYTES: Final = 16
_OTHER_BYTES: Final = 128
"""An upper bound for the rest of a token, including Base64's rounding."""
_UNKNOWN: Final = (
    "page.token: unknown: expected the next_token of the previous page, for the same search by the "
    "same caller; start the search again without a token"
)
_EXPIRED: Final = (
    "page.token: expired: the ACLs, the settings or the topics have changed since the page before;"
    ' begin the search again without a token; with "as_of":OFFSET in its context, later changes of'
    " ACLs do not matter"
)


class Position(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The next page begins after these keys, whose meaning only the search knows."""

    code: int
    name: str
    other: str | None = None


class PageToken(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The content of a token.

    ``limit`` is that of the first page, and ``state`` identifies the state that was searched.
    """

    limit: int
    state: bytes
    position: Position


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(PageToken).decode


def fits_token(position: Position) -> bool:
    """Return True if a token can contain the position, whatever its other fields are."""
    return len(_encode(position)) + _OTHER_BYTES <= TOKEN_CHARACTERS_MAX * 3 // 4


class PageTokens:
    """Makes tokens, and checks them.

    Args:
        secret: the same in all workers of a daemon.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret: Final = secret

    def __repr__(self) -> str:
        """Return a text without the secret."""
        return "PageTokens()"

    def encode(self, token: PageToken, search: bytes) -> str:
        """Return the text of a token.

        Args:
            search: identifies the search and its caller.

        Raises:
            SearchLimitError: the token would be too long for a request.
        """
        content = _encode(token)
        text = urlsafe_b64encode(self._sign(content, search) + content).rstrip(b"=").decode()
        if len(text) > TOKEN_CHARACTERS_MAX:
            name = token.position.other or token.position.name
            raise SearchLimitError(
                "page: the last name of this page is too long for a token: choose another"
                " page.limit, or ask about this resource by its name:"
                f" {escape_unprintable(name[:SHOWN_CHARACTERS])}…"
            )
        return text

    def decode(self, text: str, search: bytes) -> PageToken:
        """Return the content of a token.

        Raises:
            AuthZenError: the token is not one of this search.
        """
        if len(text) > TOKEN_CHARACTERS_MAX or not text.isascii():
            raise AuthZenError(_UNKNOWN)
        try:
            data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        except ValueError:
            raise AuthZenError(_UNKNOWN) from None
        content = data[_MAC_BYTES:]
        if not hmac.compare_digest(data[:_MAC_BYTES], self._sign(content, search)):
            raise AuthZenError(_UNKNOWN)
        return _decode(content)

    def _sign(self, content: bytes, search: bytes) -> bytes:
        # The length makes the split between the two parts unambiguous.
        signed = b"%d:%b%b" % (len(search), search, content)
        return hmac.digest(self._secret, signed, "sha256")[:_MAC_BYTES]


def check_state(token: PageToken, state: bytes) -> None:
    """Check that a token belongs to ``state``.

    Raises:
        AuthZenError: it belongs to a different one.
    """
    if token.state != state:
        raise AuthZenError(_EXPIRED)
