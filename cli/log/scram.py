"""Parse ``authorizerd format --add-scram``, which adds credentials in kafka-storage's syntax.

    --add-scram 'SCRAM-SHA-256=[name=alice,password=alice-secret]'
    --add-scram 'SCRAM-SHA-512=[name=bob,iterations=8192,salt="MTIz",saltedpassword="NDU2"]'

**Invariant:** errors never show any part of an argument's value. A comma ends a value, so any part
may be the remainder of a password that contains a comma.

Source: Kafka 4.3 ScramParser. Two checks are stricter than Kafka's: they reject an empty name, with
which nobody can log in, and an empty password, which breaks kafka-storage.
"""

from __future__ import annotations

import binascii
import re
import secrets
from collections.abc import Callable, Sequence
from typing import Final

from authorizerd.cli.errors import CommandError
from authorizerd.cli.flags import is_utf8
from authorizerd.image.changes import CredentialAdded
from authorizerd.protocol.records.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    SALT_BITS,
    ScramMechanism,
    encode_salt,
    make_credential,
    salt_password,
)

ITERATIONS: Final = 4096
"""The number of iterations if an argument does not set it."""

_KEYS: Final = ("name", "password", "saltedpassword", "salt", "iterations")
_MECHANISMS: Final = {mechanism.text: mechanism for mechanism in ScramMechanism}
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)


def read_scram_arguments(
    arguments: Sequence[str],
    new_salt: Callable[[], bytes] = lambda: encode_salt(secrets.randbits(SALT_BITS)),
) -> list[CredentialAdded]:
    """Return the credentials of all ``--add-scram`` arguments, in order."""
    credentials = []
    for number, argument in enumerate(arguments, 1):
        try:
            credentials.append(_credential(argument, new_salt))
        except ValueError as error:
            where = f" (number {number})" if len(arguments) > 1 else ""
            raise CommandError(f"--add-scram{where}: {error}") from None
    return credentials


def _credential(argument: str, new_salt: Callable[[], bytes]) -> CredentialAdded:
    mechanism, parts = _split(argument.strip())
    values = _values(parts)
    name = _required(values, "name")
    iterations = _iterations(values.get("iterations", str(ITERATIONS)), mechanism)
    if "password" not in values and "saltedpassword" not in values:
        raise ValueError("you must supply one of 'password' or 'saltedpassword'")
    if "password" not in values and "salt" not in values:
        raise ValueError("you must supply 'salt' with 'saltedpassword'")
    salt = _decoded(values, "salt") if "salt" in values else new_salt()
    if "password" in values:
        salted = salt_password(mechanism, _required(values, "password"), salt, iterations)
    else:
        _required(values, "saltedpassword")
        salted = _decoded(values, "saltedpassword")
    return CredentialAdded(name, mechanism, make_credential(mechanism, salted, salt, iterations))


def _split(argument: str) -> tuple[ScramMechanism, list[str]]:
    """Return the mechanism, and the parts between its brackets."""
    name, equals, configuration = argument.partition("=")
    if not equals:
        raise ValueError("expected '=' after the mechanism")
    mechanism = _MECHANISMS.get(name)
    if mechanism is None:
        raise ValueError(f"unknown mechanism: expected one of {', '.join(_MECHANISMS)}")
    if not configuration.startswith("["):
        raise ValueError("expected [ after the equals sign")
    if not configuration.endswith("]") or len(configuration) == 1:
        raise ValueError("expected ] at the end")
    # Java's split, which kafka-storage uses, drops empty parts at the end.
    return mechanism, configuration[1:-1].rstrip(",").split(",")


def _values(parts: Sequence[str]) -> dict[str, str]:
    """Return the values by key, without their quotes; the last value of a repeated key counts."""
    values: dict[str, str] = {}
    for number, part in enumerate(parts, 1):
        key, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"part {number} has no equals sign; a comma ends a value")
        if key not in _KEYS:
            raise ValueError(
                f"part {number} has an unknown key: expected one of {', '.join(_KEYS)}"
            )
        is_quoted = len(value) > 1 and value[0] == value[-1] == '"'
        values[key] = value[1:-1] if is_quoted else value
        if not is_utf8(values[key]):
            raise ValueError(f"'{key}' is not UTF-8")
    return values


def _required(values: dict[str, str], key: str) -> str:
    if not values.get(key):
        raise ValueError(f"'{key}' is empty" if key in values else f"you must supply '{key}'")
    return values[key]


def _iterations(text: str, mechanism: ScramMechanism) -> int:
    if not _INTEGER.fullmatch(text):
        raise ValueError("'iterations' is not an integer")
    iterations = int(text)
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise ValueError(
            f"'iterations' has to be {ITERATIONS_MIN} to {ITERATIONS_MAX} for {mechanism.text}"
        )
    return iterations


def _decoded(values: dict[str, str], key: str) -> bytes:
    """Return the decoded bytes of a base64 value; as in Java, its padding may be missing."""
    text = values[key]
    padded = text if "=" in text else text + "=" * (-len(text) % 4)
    try:
        return binascii.a2b_base64(padded.encode("ascii"), strict_mode=True)
    except ValueError:
        raise ValueError(f"'{key}' is not base64") from None
