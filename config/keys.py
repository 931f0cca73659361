"""Every key that the daemon reads: Kafka's and our own, in one table.

Law: no key stands in it twice. Of two keys with a fault each, the one that is first here is named.
"""

from __future__ import annotations

from difflib import get_close_matches

from config.kafka_keys import KAFKA_KEYS
from config.own_keys import OWN_KEYS, OWN_PREFIX

KEYS = (*KAFKA_KEYS, *OWN_KEYS)
KEYS_BY_NAME = {key.name: key for key in KEYS}


def unknown_key_reason(name: str) -> str:
    """Return what is said of a key that begins as ours do, and is none."""
    # The shared prefix is left out, or every key would look alike.
    suffixes = [key.name.removeprefix(OWN_PREFIX) for key in OWN_KEYS]
    close = get_close_matches(name.removeprefix(OWN_PREFIX), suffixes, n=1)
    return f"unknown key; did you mean {OWN_PREFIX}{close[0]}?" if close else "unknown key"
