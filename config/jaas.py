"""Kafka's JAAS lines: who may log in to a listener, and a client's own credentials.

**Invariant:** a password is never shown: not in an error, and not in a ``repr``.

Source: Kafka 4.3 JaasConfig and PlainServerCallbackHandler: each option ``user_NAME="PASSWORD"`` is
a user who may log in; ``username`` and ``password`` are for authentication to other servers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from types import MappingProxyType
from typing import Final, NamedTuple

from authorizerd.config.errors import InvalidValueError
from authorizerd.config.follow.settings import LogIn
from authorizerd.config.values import PLAIN

PLAIN_LOGIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_LOGIN_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_USER_PREFIX: Final = "user_"
_FLAGS: Final = ("REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL")
# Each character begins exactly one kind of token; all others are blanks. It is compiled when it is
# first used, because that takes longer than loading the rest of the module.
_LEXEME: Final = (
    r"""(?P<word>[A-Za-z_$\xa0-\U0010ffff][\w$.\-\xa0-\U0010ffff]*)"""
    r"""|(?P<number>-?(?=[0-9.])[0-9]*\.?[0-9]*)"""
    r"""|(?P<quote>["'])(?P<body>(?:(?!(?P=quote))[^\\\r\n]|\\(?s:.))*)(?:(?P=quote))?"""
    # A single slash also begins a comment, which includes the next character even if that ends a
    # line.
    r"""|(?P<comment>/\*(?s:.*?)(?:\*/|\Z)|//[^\r\n]*|/(?s:.?)[^\r\n]*)"""
    r"""|(?P<sign>[^\0-\x20])"""
)
_ESCAPE: Final = r"(?s)\\(?:([0-3][0-7]{0,2}|[4-7][0-7]?)|(.))"
_CONTROLS: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
}  # fmt: skip
_QUOTED: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\r": r"\r"})


@dataclass(frozen=True, slots=True)
class PlainUsers:
    """Passwords by user name, and their ``digests``, for comparison with clients' passwords."""

    passwords: Mapping[str, str] = field(repr=False)
    digests: Mapping[str, bytes] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Hash once, here: each attempt computes one digest, whether or not its user exists.
        digests = {user: password_digest(password) for user, password in self.passwords.items()}
        object.__setattr__(self, "digests", MappingProxyType(digests))


def password_digest(password: str) -> bytes:
    """Return the 32-byte digest that is compared in place of the password."""
    # No slow hash is needed: nothing is stored, and the configuration has the password itself.
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
    """Return the user of a client's login, from its JAAS line.

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
    return parse_login(text, modules)[1]


def parse_login(text: str, modules: Sequence[str] = ()) -> tuple[str, dict[str, str]]:
    """Return the login module and the options of a JAAS line.

    As in Kafka, an option whose name is a number or a single sign, such as ``7=x``, has no name. It
    is left out, since nothing reads it.

    Args:
        modules: the allowed classes of the module; empty allows any.

    Raises:
        InvalidValueError: as ``parse_login_options``.

    Source: Kafka 4.3 JaasConfig.parseAppConfigurationEntry, JaasContext.load.
    """
    tokens = _tokenize(text)
    module = next(tokens, _END).text
    if not module or (modules and module not in modules):
        raise InvalidValueError(f"expected the login module {' or '.join(modules) or 'first'}")
    # Like Java's, Python's upper case of some other characters is ASCII: of U+0131, it is "I".
    if (next(tokens, _END).text or "").upper() not in _FLAGS:
        flags = ", ".join(flag.lower() for flag in _FLAGS)
        raise InvalidValueError(f"expected one of {flags} after the login module")
    options: dict[str, str] = {}
    number = 1
    while (name := next(tokens, _END)).sign != ";":
        equals, value = next(tokens, _END), next(tokens, _END).text
        if equals.sign != "=" or value is None:
            raise InvalidValueError(
                f"option {number}: expected NAME=\"VALUE\", or ';' after the last option: put"
                " quotes around names and values, unless they have only letters, digits and _$-."
                " and begin with a letter, _ or $"
            )
        if name.text is not None:
            options[name.text] = value
        number += 1
    if next(tokens, None) is not None:
        raise InvalidValueError("expected one login module, found more text after ';'")
    return module, options


def quote_option(text: str) -> str:
    """Return the name or value of an option in quotes, for ``parse_login`` to read back."""
    return '"' + text.translate(_QUOTED) + '"'


class _Token(NamedTuple):
    """A word or a quoted ``text``, or a ``sign``. A number and the end have neither."""

    text: str | None = None
    sign: str = ""


_END: Final = _Token()


def _tokenize(text: str) -> Iterator[_Token]:
    """Yield the tokens of a JAAS line.

    Source: java.io.StreamTokenizer of OpenJDK 17, with the settings of Kafka's JaasConfig.
    """
    for token in re.finditer(_LEXEME, text, re.ASCII):
        match token.lastgroup:
            case "word":
                yield _Token(token[0])
            case "body":
                yield _Token(re.sub(_ESCAPE, _unescape, token["body"]))
            case "number":
                yield _Token()
            case "sign":
                yield _Token(sign=token[0])


def _unescape(escape: re.Match[str]) -> str:
    octal, character = escape.groups()
    return chr(int(octal, 8)) if octal else _CONTROLS.get(character, character)
