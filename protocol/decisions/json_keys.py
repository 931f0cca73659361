"""Rejects JSON texts in which an object names a key twice.

RFC 8259 lets each reader choose which of the two values counts, so a proxy in front of the daemon
may check one value while the daemon decides about the other.

A colon follows each key. A text that keeps all its colons when it is read and written again has
lost no key. That is quick to find out; only other texts are looked at key by key.
"""

from __future__ import annotations

import json
from typing import Final

import msgspec

from authorizerd.protocol.json_faults import JSON_ERRORS, quote

QUESTION_BYTES_MAX: Final = 32 * 1024
"""The longest text of one question: it is read in one step, which must be short."""

_ESCAPED_COLON: Final = b"\\u003"
"""How ``\\u003a`` begins: it is written again as a colon, so colons cannot be compared."""

_decode: Final = msgspec.json.Decoder(float_hook=len).decode
"""Reads no fraction: one of many digits takes msgspec a hundred times as long as its neighbours."""
_decode_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode: Final = msgspec.json.Encoder().encode


class JsonKeysError(Exception):
    """A JSON text that two readers may read differently; the error says why."""


def check_keys(text: bytes) -> None:
    """Raise if an object of a question's JSON text, at any depth, names a key twice.

    Raises:
        JsonKeysError: it does, or the text is longer than ``QUESTION_BYTES_MAX``, or not JSON.
    """
    _check_length(len(text))
    if not _keeps_its_colons(text):
        _check_keys_one_by_one(text)


def check_keys_around(array_key: str, array_bytes: int, text: bytes) -> None:
    """Check an object as ``check_keys`` does, but leave out one array, which may be long.

    Args:
        array_key: the array's key; its reader checks each item with ``check_keys``.
        array_bytes: the length of the array's text.

    Raises:
        JsonKeysError: as ``check_keys``, with the length of the text around the array.
    """
    _check_length(len(text) - array_bytes)
    try:
        members = _decode_members(text)
    except JSON_ERRORS:
        raise _malformed() from None
    array = bytes(members.pop(array_key))
    rest = _encode(members)
    if _ESCAPED_COLON in text and any(":" in key for key in members):
        raise JsonKeysError(f"invalid JSON: a key beside {array_key} holds a colon")
    if text.count(b":") != rest.count(b":") + array.count(b":") + len(b":"):
        raise JsonKeysError("invalid JSON: the outermost object names a key twice")
    check_keys(rest)


def _check_length(size: int) -> None:
    if size > QUESTION_BYTES_MAX:
        raise JsonKeysError(
            f"invalid JSON: expected at most {QUESTION_BYTES_MAX} bytes, found {size}"
        )


def _keeps_its_colons(text: bytes) -> bool:
    """Return True only if no object names a key twice; False proves nothing."""
    if b"\\" in text and _ESCAPED_COLON in text:
        return False
    try:
        return text.count(b":") == _encode(_decode(text)).count(b":")
    except JSON_ERRORS:  # a number of too many digits, say, in a member that is ignored
        return False


def _check_keys_one_by_one(text: bytes) -> None:
    try:
        json.loads(text.decode(), object_pairs_hook=_check_members, parse_int=str, parse_float=str)
    except JSON_ERRORS:
        raise _malformed() from None


def _check_members(pairs: list[tuple[str, object]]) -> None:
    if len(pairs) < 2 or len(dict(pairs)) == len(pairs):
        return
    keys = set()
    for key, _ in pairs:
        if key in keys:
            raise JsonKeysError(f"invalid JSON: an object names the key {quote(key)} twice")
        keys.add(key)


def _malformed() -> JsonKeysError:
    return JsonKeysError("invalid JSON: it is malformed")
