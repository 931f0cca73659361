"""Find what a browser would request from other hosts while it shows a page."""

from __future__ import annotations

import re
from typing import Final

_OUTSIDE: Final = re.compile(
    r"<(?:script|link(?! rel=.?(?:canonical|prev|next)\b)"
    r"|img|iframe|source|video|audio|object|embed)\b[^>]*?"
    r"\b(?:src|srcset|href|data)=[\"']?((?:https?:)?//[^\"'\s>]+)"
)
"""An element that a browser loads without a click, and its external address."""


def outside_requests(html: str) -> list[str]:
    """Return every address on another host that a browser would load with the page."""
    return _OUTSIDE.findall(html)
