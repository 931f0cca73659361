"""Recorded names and mapping rules, with the answers of Java 25.0.3 and Kafka 4.3.1.

Each line of ``principals.jsonl.xz`` is a case of the Java class ``PrincipalOracle`` with its
``answer``: the text of a name, or the principals that a value of ``ssl.principal.mapping.rules``
gives to some names. None means that Java or Kafka raises an error.
"""

import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

from authorizerd.config.errors import InvalidValueError, PrincipalMappingError
from authorizerd.config.principals.mapping import PrincipalMapping
from authorizerd.tls.distinguished_name import rfc2253, subject_name
from authorizerd.tls.errors import DistinguishedNameError

Case = dict[str, Any]
FILE = Path(__file__).with_name("principals.jsonl.xz")


@cache
def cases() -> tuple[Case, ...]:
    with lzma.open(FILE, "rt", encoding="utf-8") as lines:
        return tuple(map(json.loads, lines))


def our_name(case: Case) -> str | None:
    """Return our text of a case's name or certificate, or None if it is refused."""
    try:
        if "name" in case:
            return rfc2253(bytes.fromhex(case["name"]))
        return rfc2253(subject_name(bytes.fromhex(case["certificate"])))
    except DistinguishedNameError:
        return None


def our_principals(case: Case) -> list[str | None] | None:
    """Return our principals of a case's names, or None if the rules are refused."""
    try:
        mapping = PrincipalMapping.parse(case["rules"])
    except InvalidValueError:
        return None
    return [_our_principal(mapping, name) for name in case["names"]]


def _our_principal(mapping: PrincipalMapping, name: str) -> str | None:
    try:
        return mapping.apply(name)
    except PrincipalMappingError:
        return None
