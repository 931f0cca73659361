"""One key of server.properties: its parser, its default and what it means.

**Invariant:** a default is text that goes through the key's own parser, so the reference shows it
as it would be written in a file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key. Without a ``default``, it has no value unless it is set.

    ``parse`` gets the trimmed text, and raises InvalidValueError. A reloadable key is read again on
    reload, any other key only when the daemon starts. ``wire_minimum`` is the minimum that a client
    may set while the daemon runs: a smaller limit could lock out everyone who could raise it.
    """

    name: str
    parse: Callable[[str], Any]
    doc: str
    default: str | None = None
    reloadable: bool = False
    wire_minimum: int | None = None
