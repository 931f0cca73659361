"""Every key that the daemon reads: Kafka's and our own, in one table.

**Invariant:** each key is in the table once. If two keys are invalid, the error names the earlier
one.
"""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from typing import Final

from authorizerd.config.follow.settings import SOURCE_PREFIX
from authorizerd.config.kafka_keys import KAFKA_KEYS
from authorizerd.config.key import OWN_PREFIX
from authorizerd.config.own_keys import OWN_KEYS
from authorizerd.config.providers import is_provider_key
from authorizerd.config.tls_keys import kafka_ssl_name

KEYS = (*KAFKA_KEYS, *OWN_KEYS)
KEYS_BY_NAME = {key.name: key for key in KEYS}

_BYTE_ORDER_MARK: Final = "\xef\xbb\xbf"
"""The mark of UTF-8, as ISO-8859-1: the first key of the file begins with it."""

LISTENER_PREFIX: Final = "listener.name."
CREATION_RATE: Final = "max.connection.creation.rate"

TYPO_EDITS_MAX: Final = 2
"""The maximum number of edited letters in a typo. Kafka's other keys differ more than that from
KEYS."""


def listener_prefix(listener_name: str) -> str:
    """Return the prefix of a listener's own keys.

    Kafka upper-cases listener names elsewhere, but these keys contain them in lower case.
    """
    return f"{LISTENER_PREFIX}{listener_name.lower()}."


def is_reloadable(name: str) -> bool:
    """Return True if a key of the file is read again on reload."""
    if is_provider_key(name):
        return True
    is_of_port = not name.startswith(SOURCE_PREFIX)
    if is_of_port and kafka_ssl_name(name) is not None:  # but only for ports that already have TLS
        return True
    key = KEYS_BY_NAME.get(name)
    if key is None:
        return name.startswith(LISTENER_PREFIX) and name.endswith(f".{CREATION_RATE}")
    return key.reloadable


def describe_ignored_key(name: str) -> str:
    """Return an unknown key, with the key that its author probably meant."""
    if name.startswith(_BYTE_ORDER_MARK):
        name = name.removeprefix(_BYTE_ORDER_MARK)
        return f"{name} (it follows a byte order mark: save the file without one)"
    meant = find_meant_key(name)
    return name if meant is None else f"{name} (did you mean {meant}?)"


def find_meant_key(name: str) -> str | None:
    """Return the key that the author of an unknown key probably meant, None if it has no typo."""
    if name.startswith(LISTENER_PREFIX):
        listener, dot, rest = name.removeprefix(LISTENER_PREFIX).partition(".")
        if listener != listener.lower():
            return f"{LISTENER_PREFIX}{listener.lower()}{dot}{rest}"
    return find_typo(name, KEYS_BY_NAME)


def find_typo(name: str, keys: Collection[str]) -> str | None:
    """Return the key of which ``name`` is probably a typo; None if it is one of ``keys``."""
    if name in keys:
        return None
    # get_close_matches is unsuitable: for log.segment.bytes, it finds metadata.log.segment.bytes.
    return next((key for key in keys if _edits(name.lower(), key) <= TYPO_EDITS_MAX), None)


def _edits(name: str, known: str) -> int:
    """Return the Levenshtein distance, or a lower bound for texts of very different length."""
    if abs(len(name) - len(known)) > TYPO_EDITS_MAX:
        return abs(len(name) - len(known))
    row = list(range(len(known) + 1))
    for count, letter in enumerate(name, 1):
        before, row[0] = row[0], count
        for index, known_letter in enumerate(known, 1):
            replaced = before + (letter != known_letter)
            before = row[index]
            row[index] = min(replaced, row[index] + 1, row[index - 1] + 1)
    return row[-1]


def find_meant_own_key(name: str) -> str | None:
    """Return our key that is most similar to an unknown key with our prefix, or None."""
    # Ignore the shared prefix, or all keys would look alike.
    suffixes = [key.name.removeprefix(OWN_PREFIX) for key in OWN_KEYS]
    close = get_close_matches(name.removeprefix(OWN_PREFIX), suffixes, n=1)
    return f"{OWN_PREFIX}{close[0]}" if close else None
