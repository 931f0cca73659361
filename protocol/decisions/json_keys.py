"""Reject JSON texts in which a key occurs twice in an object.

RFC 8259 leaves it open which of the two values counts, so a proxy in front of the daemon may check
one value while the daemon decides about the other.

A colon follows each key. If the decoded text, encoded again, has as many colons, no key was lost.
This test is quick; only texts that fail it are checked key by key.
"""

from __future__ import annotations

import json
from typing import Final

import msgspec

from authorizerd.protocol.json_faults import JSON_ERRORS, quote

QUESTION_BYTES_MAX: Final = 32 * 1024
"""The maximum size of one question. It is read in one step, which must be short."""

_ESCAPED_COLON: Final = b"\\u003"
"""The start of ``\\u003a``. It is encoded again as ``:``, so counting colons proves nothing."""

_decode: Final = msgspec.json.Decoder(float_hook=len).decode
"""Do not parse fractions: msgspec takes a hundred times as long for one with many digits."""
_decode_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode: Final = msgspec.json.Encoder().encode


class JsonKeysError(Exception):
    """The JSON is ambiguous, invalid or too long. The text is the reason."""


def check_keys(text: bytes) -> None:
    """Reject a question's JSON text if a key occurs twice in an object, at any depth.

    Raises:
        JsonKeysError: a key occurs twice, or the text exceeds ``QUESTION_BYTES_MAX`` or is not
            JSON.
    """
    _check_length(len(text))
    if not _keeps_its_colons(text):
        _check_keys_one_by_one(text)


def has_only(text: bytes, read: object) -> bool:
    """Return True only if ``text`` has exactly the keys of ``read``, each once.

    Args:
        read: the value decoded from the text. Its structs omit defaults when they are encoded.
    """
    encoded = _encode(read)
    if encoded == text:  # many clients write as the encoder does, and counting takes longer
        return True
    # The first test does not change the result: searching for a single byte is faster.
    if b"\\" in text and _ESCAPED_COLON in text:
        return False
    return text.count(b":") == encoded.count(b":")


def check_keys_around(array_key: str, array_bytes: int, text: bytes) -> None:
    """Check an object as ``check_keys`` does, except one array, which may be long.

    Args:
        array_key: the array's key. The array's reader checks each item with ``check_keys``.
        array_bytes: the length of the array's text.

    Raises:
        JsonKeysError: as in ``check_keys``. The size limit applies to the text around the array.
    """
    _check_length(len(text) - array_bytes)
    try:
        members = _decode_members(text)
    except JSON_ERRORS:
        raise _malformed() from None
    array = bytes(members.pop(array_key))
    rest = _encode(members)
    # Such a key has an extra colon when encoded again, which could mask the colon of a lost key.
    if _ESCAPED_COLON in text and any(":" in key for key in members):
        raise JsonKeysError(f"invalid JSON: a key next to {array_key} contains a colon")
    # The last term is the colon after the array's own key.
    if text.count(b":") != rest.count(b":") + array.count(b":") + len(b":"):
        raise JsonKeysError("invalid JSON: a key occurs twice in the outermost object")
    check_keys(rest)


def _check_length(size: int) -> None:
    if size > QUESTION_BYTES_MAX:
        raise JsonKeysError(
            f"invalid JSON: expected at most {QUESTION_BYTES_MAX} bytes, found {size}"
        )


def _keeps_its_colons(text: bytes) -> bool:
    """Return True only if no key occurs twice in an object. False proves nothing."""
    try:
        return has_only(text, _decode(text))
    except JSON_ERRORS:  # for example, an ignored number with too many digits
        return False


def _check_keys_one_by_one(text: bytes) -> None:
    try:
        # Decode here: from bytes, json.loads would accept half of a surrogate pair.
        json.loads(text.decode(), object_pairs_hook=_check_members, parse_int=str, parse_float=str)
    except JSON_ERRORS:
        raise _malformed() from None


def _check_members(pairs: list[tuple[str, object]]) -> None:
    if len(pairs) < 2 or len(dict(pairs)) == len(pairs):
        return
    keys = set()
    for key, _ in pairs:
        if key in keys:
            raise JsonKeysError(f"invalid JSON: the key {quote(key)} occurs twice in an object")
        keys.add(key)


def _malformed() -> JsonKeysError:
    return JsonKeysError("invalid JSON: it is malformed")
