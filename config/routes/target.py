"""Split the target of a request into decoded segments, or refuse it.

A gateway, this module and the server behind the gateway may read one target in different ways: one
of them decodes twice, merges slashes, or removes ``..``. Such a reading could turn the request into
another one, whose question was not asked.

**Invariant:** a target that is accepted has one reading. Its segments have no character that a
second decoding, a normalization of paths, or Unicode's compatibility forms would change.

Source: RFC 3986, section 3.3; RFC 9110, section 4.2.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NoReturn
from unicodedata import category, combining, is_normalized, normalize
from urllib.parse import unquote_to_bytes

from authorizerd.config.routes.errors import RefusedRequestError

TARGET_BYTES_MAX: Final = 8 * 1024
SEGMENTS_MAX: Final = 64
"""Decoding more would take longer than a step of the event loop may take."""
OVERRIDE_KEY: Final = "_method"
"""The key of a query by which some servers replace the method."""

# The characters of a path in RFC 3986, except for ";", which some servers cut off with what
# follows, and "+", which some servers read as a blank.
_CHARACTERS: Final = r"A-Za-z0-9\-._~!$&'()*,=:@"
_PLAIN: Final = re.compile(rf"(?:/[{_CHARACTERS}]+)+")
_ENCODED: Final = re.compile(rf"(?:/(?:[{_CHARACTERS}]|%[0-9A-Fa-f]{{2}})+)+")
_UNEXPECTED: Final = re.compile(rf"[^{_CHARACTERS}/%]|%(?![0-9A-Fa-f]{{2}})")
# PHP removes blanks before a key, and reads some of its characters as "_".
_OVERRIDE: Final = re.compile(r"(?:\A|[&;?])[ +\t\r\n\v\f\0]*[_ .+\[]method", re.IGNORECASE)
_DOTS: Final = frozenset((".", ".."))
_SPECIAL: Final = "/\\;%?#"
"""The characters that a second reading of a decoded segment would not take literally."""

Segments = tuple[str, ...]


def split_target(target: str) -> Segments:
    """Return the decoded segments of a target's path; none for ``/``.

    Args:
        target: the path, and the query after the first ``?``, as the client sent them.

    Raises:
        RefusedRequestError: the target might be read in several ways.
    """
    if len(target) > TARGET_BYTES_MAX:
        raise RefusedRequestError(f"the target has more than {TARGET_BYTES_MAX} bytes")
    path, _, query = target.partition("?")
    if query:
        _check_query(query)
    if path == "/":
        return ()
    if path.count("/") > SEGMENTS_MAX:
        raise RefusedRequestError(f"the path has more than {SEGMENTS_MAX} segments")
    if _PLAIN.fullmatch(path):
        segments = tuple(path[1:].split("/"))
    elif _ENCODED.fullmatch(path):
        segments = tuple(map(_decode, path[1:].split("/")))
    else:
        _refuse(path)
    if "/." in path or "%" in path:
        for segment in segments:
            if segment in _DOTS:
                raise RefusedRequestError(f"the path has the segment '{segment}'")
    return segments


def fold(segment: str) -> str:
    """Return a text that is equal for segments that a server may take for each other.

    They differ in letter case, or in accents.
    """
    if segment.isascii():
        return segment.lower()
    decomposed = normalize("NFKD", segment.upper())
    return "".join(each for each in decomposed if not combining(each)).lower()


def fold_all(segments: Segments) -> Sequence[str]:
    """Return the folded segments."""
    joined = "/".join(segments)
    if joined.isascii():
        return joined.lower().split("/") if segments else segments
    return [fold(segment) for segment in segments]


def _decode(segment: str) -> str:
    if "%" not in segment:
        return segment
    try:
        decoded = unquote_to_bytes(segment).decode()
    except UnicodeDecodeError:
        raise RefusedRequestError(f"'{segment}' does not encode UTF-8") from None
    for character in _SPECIAL:
        if character in decoded:
            code = f"%{ord(character):02X}"
            raise RefusedRequestError(f"the path has an encoded '{character}' ({code})")
    if any(category(each) == "Cc" for each in decoded):
        raise RefusedRequestError(f"'{segment}' encodes a control character")
    if decoded != decoded.strip():
        raise RefusedRequestError(f"'{segment}' has a blank at its beginning or end")
    if not is_normalized("NFKC", decoded):
        raise RefusedRequestError(f"'{segment}' is not in Unicode's form NFKC")
    return decoded


def _check_query(query: str) -> None:
    """Refuse a query that replaces the method."""
    if "%" in query:
        # Twice: some servers decode twice.
        query = _unquote(_unquote(query))
    if _OVERRIDE.search(query):
        raise RefusedRequestError(f"the query has the key '{OVERRIDE_KEY}'")


def _unquote(text: str) -> str:
    return unquote_to_bytes(text).decode("utf-8", "replace")


def _refuse(path: str) -> NoReturn:
    """Raise the error that names why ``path`` is not accepted."""
    if not path.startswith("/"):
        raise RefusedRequestError("the target does not begin with '/'")
    unexpected = _UNEXPECTED.search(path)
    if unexpected is not None:
        found = unexpected[0]
        if found == "%":
            raise RefusedRequestError("the path has a '%' without two hexadecimal digits")
        raise RefusedRequestError(f"the path has the character {found!a}: expected it encoded")
    raise RefusedRequestError("the path has an empty segment: '//', or a '/' at its end")
