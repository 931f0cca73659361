"""The users of a PLAIN listener, from Kafka's JAAS line.

**Invariant:** a password is never shown: not in an error, and not in a ``repr``.

Source: Kafka 4.3 PlainServerCallbackHandler: each option ``user_NAME="PASSWORD"`` is a user who may
log in; a broker uses ``username`` and ``password`` for its own log-ins elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from types import MappingProxyType

from authorizerd.config.errors import InvalidValueError

PLAIN_LOGIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_USER_PREFIX = "user_"
_FLAGS = ("required", "requisite", "sufficient", "optional")
_OPTION = re.compile(
    r'\s*(?P<name>[\w.$-]+)\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^\s;"]+))'
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class PlainUsers:
    """Passwords by user name, and the ``digests`` that are compared instead."""

    passwords: Mapping[str, str] = field(repr=False)
    digests: Mapping[str, bytes] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        digests = {user: password_digest(each) for user, each in self.passwords.items()}
        object.__setattr__(self, "digests", MappingProxyType(digests))


def password_digest(password: str) -> bytes:
    """Return the 32 bytes that are compared instead of a password of any length."""
    return sha256(password.encode()).digest()


def parse_plain_users(text: str) -> PlainUsers:
    """Return the users of a JAAS line for PLAIN.

    Raises:
        InvalidValueError: it names another login module, is malformed, or has no user.
    """
    module, _, rest = text.strip().partition(" ")
    if module != PLAIN_LOGIN_MODULE:
        raise InvalidValueError(f"the login module is not {PLAIN_LOGIN_MODULE}")
    flag, _, options = rest.strip().partition(" ")
    if flag.lower() not in _FLAGS:
        raise InvalidValueError(f"the login module's flag is not one of {', '.join(_FLAGS)}")
    passwords = {
        name.removeprefix(_USER_PREFIX): value
        for name, value in _options(options).items()
        if name.startswith(_USER_PREFIX)
    }
    if not passwords:
        raise InvalidValueError('no user may log in: an option user_NAME="PASSWORD" is missing')
    return PlainUsers(passwords)


def _options(text: str) -> dict[str, str]:
    """Return the options up to the semicolon that must end them."""
    options: dict[str, str] = {}
    position = 0
    while (match := _OPTION.match(text, position)) is not None:
        quoted = match["quoted"]
        options[match["name"]] = match["bare"] if quoted is None else _ESCAPE.sub(r"\1", quoted)
        position = match.end()
    if text[position:].strip() != ";":
        where = len(options) + 1
        raise InvalidValueError(f"option {where} is not name=\"value\", or the last ';' is missing")
    return options
