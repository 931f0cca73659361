"""The recorded use of ACLs, as ``usage.json`` of ``authorizerd replay usage`` has it for readers.

**Invariant:** an ACL that the file does not name has no known use: it is neither used nor unused.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Annotated, Final

import msgspec

from authorizerd.acl.text.named_acl import NamedAcl
from authorizerd.protocol.json_faults import JSON_ERRORS, describe_json_fault

_DIGEST_BYTES: Final = 16
UNUSED: Final = ""
"""The last use of an ACL that no recorded request used."""


class UsageError(ValueError):
    """A file is not a ``usage.json``; the text says what it is instead."""


class UsageWindow(msgspec.Struct, frozen=True):
    """The time from which allowed requests are recorded, in ISO 8601."""

    allowed_first_at: str
    allowed_last_at: str


class _Written(msgspec.Struct, frozen=True):
    """An ACL as in the file. Codes of later Kafka versions are numbers there."""

    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission_type: str


class _Unused(msgspec.Struct, frozen=True):
    acl: _Written


class _Used(msgspec.Struct, frozen=True):
    acl: _Written
    last_used_at: Annotated[str, msgspec.Meta(min_length=1)]


class _Report(msgspec.Struct, frozen=True):
    # The entries are decoded one by one: a file may have half a million of them.
    window: UsageWindow
    used: tuple[msgspec.Raw, ...]
    unused: tuple[msgspec.Raw, ...]


class Usage:
    """The recorded use of ACLs.

    Args:
        data: the content of the file.

    Raises:
        UsageError: it is not a ``usage.json``.
    """

    def __init__(self, data: bytes) -> None:
        try:
            report = msgspec.json.decode(data, type=_Report)
            self.window: Final = report.window
            self._last_uses: Final = {
                _digest(msgspec.json.decode(each, type=_Unused).acl): UNUSED
                for each in report.unused
            }
            for each in report.used:
                entry = msgspec.json.decode(each, type=_Used)
                self._last_uses[_digest(entry.acl)] = entry.last_used_at
        except JSON_ERRORS as error:
            raise UsageError(f"not a usage.json: {describe_json_fault(error)}") from error

    def find(self, acl: NamedAcl) -> str | None:
        """Return the time of the last use, ``UNUSED``, or None if nothing is known."""
        return self._last_uses.get(_digest(acl))


def _digest(acl: NamedAcl | _Written) -> bytes:
    text = msgspec.msgpack.encode(msgspec.structs.astuple(acl))
    return blake2b(text, digest_size=_DIGEST_BYTES).digest()
