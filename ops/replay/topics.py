"""A Kafka topic of audit lines: its address, and the settings that clients connect with."""

from __future__ import annotations

import re
from typing import Final

import msgspec

SCHEME: Final = "kafka://"
BEFORE_OFFSET: Final = "@"
"""Ends the name of a partition in reports, before the offset of a record."""

_ADDRESS: Final = re.compile(
    r"kafka://(?P<servers>[^/,@?#\s]+:[0-9]{1,5}(?:,[^/,@?#\s]+:[0-9]{1,5})*)"
    r"/(?P<name>[a-zA-Z0-9._-]{1,249})"
)


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic with one audit line in each record.

    Args:
        servers: ``HOST:PORT[,HOST:PORT…]``.
        settings: Kafka's client properties for TLS and authentication. They may contain passwords.
    """

    servers: str
    name: str
    settings: dict[str, str] = {}

    def __repr__(self) -> str:
        """Return a text without the settings, so that it is safe to log."""
        return f"Topic({self.uri!r})"

    @property
    def uri(self) -> str:
        return f"{SCHEME}{self.servers}/{self.name}"


def parse_topic(text: str, settings: dict[str, str]) -> Topic:
    """Return the topic at ``kafka://HOST:PORT[,HOST:PORT…]/TOPIC``.

    Raises:
        ValueError: the text is not such an address.
    """
    found = _ADDRESS.fullmatch(text)
    if found is None:
        shown = "an address with credentials: put them into --command-config"
        if "@" not in text:
            shown = repr(text)
        raise ValueError(f"expected kafka://HOST:PORT[,HOST:PORT…]/TOPIC, found {shown}")
    return Topic(servers=found["servers"], name=found["name"], settings=settings)


def name_partition(topic: str, partition: int) -> str:
    """Return a partition's name in reports."""
    return f"{topic}/{partition}{BEFORE_OFFSET}"
