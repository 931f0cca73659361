"""Kafka's JAAS lines: who may log in to a listener, and as whom a client logs in.

**Invariant:** a password is never shown: not in an error, and not in a ``repr``.

Source: Kafka 4.3 JaasConfig and PlainServerCallbackHandler: each option ``user_NAME="PASSWORD"`` is
a user who may log in; ``username`` and ``password`` are for log-ins to other servers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from types import MappingProxyType
from typing import Final

from authorizerd.config.errors import InvalidValueError
from authorizerd.config.follow import LogIn
from authorizerd.config.values import PLAIN

PLAIN_LOGIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_LOGIN_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_USER_PREFIX: Final = "user_"
_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_HEAD: Final = re.compile(r"""\s*(?P<module>[^\s=;'"]*)\s*(?P<flag>[^\s=;'"]*)""")
# Why is `=` allowed in a bare value, unlike in Kafka? Passwords in base64 end in it.
_OPTION: Final = re.compile(
    r"""\s*(?P<name>[^\s=;'"]+)\s*=\s*"""
    r"""(?:(?P<quote>["'])(?P<quoted>(?:(?!(?P=quote))[^\\]|\\.)*)(?P=quote)"""
    r"""|(?P<bare>[^\s;'"][^\s;"]*))""",
    re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class PlainUsers:
    """Passwords by user name, and their ``digests``, which log-ins are compared with."""

    passwords: Mapping[str, str] = field(repr=False)
    digests: Mapping[str, bytes] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Hash once, here: then each log-in computes one digest, whether or not its user exists.
        digests = {user: password_digest(each) for user, each in self.passwords.items()}
        object.__setattr__(self, "digests", MappingProxyType(digests))


def password_digest(password: str) -> bytes:
    """Return the 32-byte digest that is compared in place of the password."""
    # Why no slow hash? Nothing is stored: the configuration has the password itself.
    return sha256(password.encode()).digest()


def parse_plain_users(text: str) -> PlainUsers:
    """Return the users who may log in to a listener, from its JAAS line.

    Raises:
        InvalidValueError: the line is malformed, or has no user.
    """
    passwords = {
        name.removeprefix(_USER_PREFIX): value
        for name, value in parse_login_options(text).items()
        if name.startswith(_USER_PREFIX)
    }
    if not passwords:
        raise InvalidValueError('expected at least one option user_NAME="PASSWORD"')
    return PlainUsers(passwords)


def parse_log_in(text: str, mechanism: str) -> LogIn:
    """Return the user as whom a client logs in, from its JAAS line.

    As in Kafka, PLAIN also accepts the login module of SCRAM.

    Args:
        mechanism: one of ``SASL_MECHANISMS``.

    Raises:
        InvalidValueError: the line is malformed, or has no username or no password.
    """
    plain = (PLAIN_LOGIN_MODULE,) if mechanism == PLAIN else ()
    options = parse_login_options(text, (*plain, SCRAM_LOGIN_MODULE))
    if options.get("tokenauth", "").strip().lower() == "true":
        raise InvalidValueError("tokenauth=true (delegation tokens) is not supported: remove it")
    if not (options.get("username") and "password" in options):
        raise InvalidValueError("username and password must be given")
    return LogIn(mechanism=mechanism, username=options["username"], password=options["password"])


def parse_login_options(
    text: str, modules: Sequence[str] = (PLAIN_LOGIN_MODULE,)
) -> dict[str, str]:
    """Return the options of a JAAS line for one of the modules: ``MODULE FLAG NAME=VALUE …;``.

    Raises:
        InvalidValueError: the line is malformed. The reason quotes nothing of the line, since any
            part of it may be a misplaced password.
    """
    head = _HEAD.match(text)
    assert head is not None, "the pattern also matches an empty text"
    if head["module"] not in modules:
        raise InvalidValueError(f"expected the login module {' or '.join(modules)}")
    if head["flag"].lower() not in _FLAGS:
        raise InvalidValueError(f"expected one of {', '.join(_FLAGS)} after the login module")
    options: dict[str, str] = {}
    position = head.end()
    # Why not finditer? It would skip malformed text between options.
    while (match := _OPTION.match(text, position)) is not None:
        quoted = match["quoted"]
        options[match["name"]] = match["bare"] if quoted is None else _ESCAPE.sub(r"\1", quoted)
        position = match.end()
    if text[position:].strip() != ";":
        number = len(options) + 1
        raise InvalidValueError(
            f"option {number}: expected NAME=\"VALUE\", or ';' after the last option"
        )
    return options
