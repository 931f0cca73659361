"""One key of server.properties: its parser, its default and what it means.

**Invariant:** a default is text that goes through the key's own parser, so the reference shows what
a file would say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key: ``parse`` takes its trimmed text, ``default`` None leaves it without a value.

    ``parse`` raises InvalidValueError. A reloadable key is read again on reload, any other one
    only when the daemon starts. ``wire_minimum`` is the least that a client may set while the
    daemon runs: a smaller limit would keep everyone out, and with them whoever could raise it.
    """

    name: str
    parse: Callable[[str], Any]
    doc: str
    default: str | None = None
    required: bool = False
    reloadable: bool = False
    wire_minimum: int | None = None
