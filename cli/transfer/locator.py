"""One notation for every place that has ACLs.

    kafka://HOST:PORT,HOST:PORT      a cluster, or a daemon
    zookeeper://HOST:PORT/chroot     a ZooKeeper ensemble
    log:DIR, DIR/, DIR               a log directory
    FILE.checkpoint                  a checkpoint of a log
    FORMAT:FILE, FILE.yaml, FILE     a file of ACLs
    FORMAT:-, -                      standard input or standard output

**Invariant:** a locator has one meaning, whatever exists on the disk, except that an existing
directory is a log directory.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

STANDARD: Final = "-"
_SCHEME: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*)://(.*)", re.DOTALL)
_ONE_SLASH: Final = re.compile(r"(kafka|zookeeper):/?[^/]*:[0-9]", re.IGNORECASE)
_CHECKPOINT: Final = "checkpoint"
_LOG: Final = "log"


class Kind(StrEnum):
    """The kind of a place."""

    CLUSTER = "cluster"
    ZOOKEEPER = "zookeeper"
    LOG = "log"
    CHECKPOINT = "checkpoint"
    FILE = "file"


class LocatorError(ValueError):
    """A text that names no place; it says what was expected."""


class Locator(msgspec.Struct, frozen=True):
    """A place.

    Attributes:
        text: as the user wrote it.
        value: the addresses of a cluster or of ZooKeeper, else the path; ``-`` is standard input or
            standard output.
        format: the name of the file's format; None if it is not stated.
    """

    kind: Kind
    text: str
    value: str
    format: str | None = None

    @property
    def path(self) -> Path:
        return Path(self.value)

    @property
    def is_standard(self) -> bool:
        """True for standard input or standard output."""
        return self.kind is Kind.FILE and self.value == STANDARD


def parse_locator(text: str, formats: Collection[str]) -> Locator:
    """Return the place that ``text`` names.

    Args:
        formats: the names of the formats.

    Raises:
        LocatorError: it names no place.
    """
    if not text:
        raise LocatorError("expected a place, found an empty text")
    if match := _SCHEME.fullmatch(text):
        return _parse_url(text, match[1].lower(), match[2])
    if match := _ONE_SLASH.match(text):
        scheme = match[1].lower()
        raise LocatorError(
            f"expected {scheme}://HOST:PORT, with two slashes; write ./ before the name of a file"
        )
    prefix, colon, rest = text.partition(":")
    if colon and prefix in (*formats, _LOG, _CHECKPOINT):
        return _parse_prefixed(text, prefix, rest)
    path = Path(text)
    if text.endswith("/") or (text != STANDARD and path.is_dir()):
        return Locator(Kind.LOG, text, text)
    if path.name.endswith(f".{_CHECKPOINT}"):
        return Locator(Kind.CHECKPOINT, text, text)
    return Locator(Kind.FILE, text, text)


def _parse_url(text: str, scheme: str, rest: str) -> Locator:
    kinds = {"kafka": Kind.CLUSTER, "zookeeper": Kind.ZOOKEEPER}
    if scheme not in kinds:
        raise LocatorError(
            f"unknown scheme {scheme!r}: expected kafka://HOST:PORT, zookeeper://HOST:PORT/chroot, "
            "a path, or FORMAT:FILE"
        )
    if kinds[scheme] is Kind.CLUSTER:
        rest = rest.removesuffix("/")
    if not rest:
        raise LocatorError(f"expected HOST:PORT after {scheme}://")
    if kinds[scheme] is Kind.CLUSTER and set(rest) & {"/", "@", "?"}:
        raise LocatorError(
            "expected kafka://HOST:PORT, with several separated by commas; log-in and TLS are "
            "in the file of --command-config"
        )
    return Locator(kinds[scheme], text, rest)


def _parse_prefixed(text: str, prefix: str, rest: str) -> Locator:
    if not rest:
        raise LocatorError(f"expected a path after {prefix}:")
    if prefix == _LOG:
        return Locator(Kind.LOG, text, rest)
    if prefix == _CHECKPOINT:
        return Locator(Kind.CHECKPOINT, text, rest)
    return Locator(Kind.FILE, text, rest, prefix)
