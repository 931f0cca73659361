"""The format of ``text/event-stream``: events that one HTTP answer carries, one after the other.

**Invariant:** an event is read back exactly as it was written, because no field contains a line
break.

Source: WHATWG HTML, section 9.2 (server-sent events).
"""

from __future__ import annotations

import re


def encode_event(name: str, data: bytes, *, id: int | None = None) -> bytes:
    """Return one event.

    Args:
        data: one line of text.
        id: the place from which a client resumes after this event; None keeps its previous place.
    """
    assert not re.search(rb"[\r\n]", data), "a line break would end the field"
    return b"%bevent: %b\ndata: %b\n\n" % (_encode_id(id), name.encode(), data)


def encode_retry(milliseconds: int) -> bytes:
    """Return the field that tells clients how long to wait before they connect again."""
    return b"retry: %d\n" % milliseconds


def encode_comment(text: str, *, id: int | None = None) -> bytes:
    """Return a block that clients do not see as an event. With ``id``, it moves their place."""
    return b": %b\n%b\n" % (text.encode(), _encode_id(id))


def _encode_id(id: int | None) -> bytes:
    return b"" if id is None else b"id: %d\n" % id
