"""Logins to the console: a session for each token's login, and a limit on failed attempts.

**Invariant:** a session has exactly the rights of its token: the token is checked again for each
request, so removing it from the tokens file ends its sessions. The browser gets a random secret, of
which only the SHA-256 is kept; a lookup by hash reveals nothing about other secrets. The number of
sessions and their lifetimes are bounded.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from hashlib import sha256
from typing import Final

import msgspec
import trio

from authorizerd.actors.boot_clock import Clock, boot_time

SESSIONS_MAX: Final = 256
SESSIONS_PER_TOKEN_MAX: Final = 8
IDLE_SECONDS: Final = 30 * 60.0
"""A session ends if it is unused for this long."""
SECONDS_MAX: Final = 12 * 3600.0
"""A session ends after this time, however much it is used."""
FAILED_SECONDS: Final = 1.0
"""How long a failed login waits for its answer."""
FAILED_AT_ONCE_MAX: Final = 8
"""How many failed logins may wait. Above this, further failed logins are refused at once."""

_SECRET_BYTES: Final = 32


class _Session(msgspec.Struct):
    """``token`` is the token that the visitor logged in with."""

    token: bytes
    begun: float
    used: float

    def is_over(self, now: float) -> bool:
        return now - self.used >= IDLE_SECONDS or now - self.begun >= SECONDS_MAX


class Sessions:
    """The sessions of all visitors, in the order of their last use."""

    def __init__(self, clock: Clock = boot_time) -> None:
        self._clock: Final = clock
        self._sessions: Final[OrderedDict[bytes, _Session]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, token: bytes) -> str:
        """Return the secret of a new session for a valid token.

        If this token has too many sessions, or all tokens together do, the least recently used
        session ends.
        """
        now = self._clock()
        for digest in [key for key, each in self._sessions.items() if each.is_over(now)]:
            del self._sessions[digest]
        same = [key for key, each in self._sessions.items() if each.token == token]
        if len(same) >= SESSIONS_PER_TOKEN_MAX:
            del self._sessions[same[0]]
        elif len(self._sessions) >= SESSIONS_MAX:
            self._sessions.popitem(last=False)
        secret = secrets.token_urlsafe(_SECRET_BYTES)
        self._sessions[_digest(secret)] = _Session(token, now, now)
        return secret

    def find(self, secret: str) -> bytes | None:
        """Return the token of a session, or None if there is no such session now."""
        digest, now = _digest(secret), self._clock()
        session = self._sessions.get(digest)
        if session is None:
            return None
        if session.is_over(now):
            del self._sessions[digest]
            return None
        session.used = now
        self._sessions.move_to_end(digest)
        return session.token

    def close(self, secret: str) -> None:
        """End a session, if it exists."""
        self._sessions.pop(_digest(secret), None)


def _digest(secret: str) -> bytes:
    return sha256(secret.encode("utf-8", "surrogatepass")).digest()


class LogInLimit:
    """Delays failed logins, at most ``FAILED_AT_ONCE_MAX`` at a time.

    A correct token is accepted even at the limit. Otherwise a few guesses per second would lock
    everyone out, and for no gain: the decision port checks any number of tokens.
    """

    def __init__(self) -> None:
        self._waiting = 0

    @property
    def is_reached(self) -> bool:
        """True if no further failed login may wait now."""
        return self._waiting >= FAILED_AT_ONCE_MAX

    async def delay(self) -> None:
        """Wait before a failed login is answered."""
        self._waiting += 1
        try:
            await trio.sleep(FAILED_SECONDS)
        finally:
            self._waiting -= 1
