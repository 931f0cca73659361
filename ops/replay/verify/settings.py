"""Compare the settings of a broker that decide requests, or name principals, with the daemon's.

A record has the names of principals as the broker made them. So only the two configurations show
that the daemon would name the same client otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from authorizerd.acl.known_settings import ALLOW_EVERYONE, SUPER_USERS
from authorizerd.config.values import STANDARD_AUTHORIZER, trim

_BUILDER: Final = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
_DEFAULT_RULES: Final = "DEFAULT"
_OF_LISTENER: Final = "listener.name."


class DifferentSetting(msgspec.Struct, frozen=True):
    """A setting with its values at the broker and here, and what they make different."""

    key: str
    broker: str
    here: str
    effect: str


_COMPARED: Final = (
    (SUPER_USERS, "", "", "only one of them allows such a principal everything"),
    (
        ALLOW_EVERYONE, "false", "false",
        "only one of them allows everything on resources without ACLs",
    ),
    ("authorizer.class.name", "", STANDARD_AUTHORIZER, "the broker may decide by other rules"),
    (
        "principal.builder.class", _BUILDER, _BUILDER,
        "a client may be another principal here",
    ),
    (
        "ssl.principal.mapping.rules", _DEFAULT_RULES, _DEFAULT_RULES,
        "a certificate may be of another principal here",
    ),
    (
        "sasl.kerberos.principal.to.local.rules", _DEFAULT_RULES, _DEFAULT_RULES,
        "a Kerberos name may be of another principal here",
    ),
)  # fmt: skip
"""The keys, each with its default at a broker and here, and what another value makes different."""


def is_compared(name: str) -> bool:
    """Return True for a key that ``compare_settings`` reads, also of one listener."""
    return any(name == key or _is_of_listener(name, key) for key, *_ in _COMPARED)


def compare_settings(
    broker: Mapping[str, str], here: Mapping[str, str]
) -> Iterator[DifferentSetting]:
    """Yield each setting that differs between the texts of two configurations."""
    for key, their_default, our_default, effect in _COMPARED:
        theirs = _find_values(broker, key, their_default)
        ours = _find_values(here, key, our_default)
        if theirs != ours:
            yield DifferentSetting(key, _name(theirs), _name(ours), effect)


def _find_values(texts: Mapping[str, str], key: str, default: str) -> set[str]:
    """Return the values of a key, for all listeners and for single ones, as Kafka reads them."""
    found = {texts.get(key, default)}
    found.update(text for name, text in texts.items() if _is_of_listener(name, key))
    if key == SUPER_USERS:
        return {user for text in found for user in map(trim, text.split(";")) if user}
    if key == ALLOW_EVERYONE:
        return {str(trim(text).lower() == "true").lower() for text in found}
    return {trim(text) or default for text in found} - {""}


def _name(found: set[str]) -> str:
    return " and ".join(sorted(found)) or "nothing"


def _is_of_listener(name: str, key: str) -> bool:
    return name.startswith(_OF_LISTENER) and name.endswith(f".{key}")
