"""The daemon's lines of written changes: which request changed ACLs, and at which offset.

They are not decisions: the line of the request's decision comes before.

**Invariant:** no name can imitate such a line, or a part of one. In Kafka's format, names are
percent-encoded.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

import msgspec

from authorizerd.acl.audit.caller import CALLER_GROUP, encode_name, read_caller
from authorizerd.acl.audit.line import LOGGER_NAME
from authorizerd.acl.text.decoding_errors import DECODING_ERRORS

_REQUESTS: Final = ("CreateAcls", "DeleteAcls")
_MESSAGE: Final = "Changed ACLs: request="
_LINE: Final = re.compile(
    rf"(\[[^\]]{{23}}\]) INFO {_MESSAGE}(CreateAcls|DeleteAcls) offset=([0-9]{{1,19}})"
    rf" principal=([!-Z^-~]+) \({re.escape(LOGGER_NAME)}\)(?: {CALLER_GROUP})?"
)


class WrittenRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A line in JSON. ``changed_at`` is the last offset of the changes that the request made."""

    version: int = 1
    time: str
    level: str
    changed_by: str
    changed_at: int
    principal: str
    host: str | None
    masked: tuple[str, ...] = ()
    caller: str | None = None
    known_by: str | None = None
    caller_address: str | None = None


_decode: Final = msgspec.json.Decoder(WrittenRecord).decode


def format_written(request_name: str, offset: int, principal: str) -> str:
    """Return the message of a line in Kafka's format."""
    return f"{_MESSAGE}{request_name} offset={offset} principal={encode_name(principal)}"


def read_written(text: str) -> WrittenRecord | None:
    """Return what a line in either format says; None if it is another line.

    Of a line in Kafka's format, the time has no zone.
    """
    if text.startswith("{"):
        try:
            record = _decode(text)
        except DECODING_ERRORS:
            return None
        return record if record.changed_by in _REQUESTS else None
    found = _LINE.fullmatch(text)
    if found is None:
        return None
    return WrittenRecord(
        version=1,
        time=found[1],
        level="INFO",
        changed_by=found[2],
        changed_at=int(found[3]),
        principal=unquote(found[4]),
        host=None,
        caller=read_caller(text)[1],
    )
