"""Read DER, the encoding of certificates and of the names in them.

**Invariant:** for any bytes, a function returns parts of them or raises InvalidDerError. Only
definite lengths of minimal size are accepted, so an element has exactly one encoding.

Source: X.690, sections 8.1 and 10.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from authorizerd.tls.errors import InvalidDerError

SEQUENCE: Final = 0x30
SET: Final = 0x31
OBJECT_IDENTIFIER: Final = 0x06

OBJECT_IDENTIFIER_BYTES_MAX: Final = 256
_LONG_TAG: Final = 0x1F
_LONG_LENGTH: Final = 0x80
_LENGTH_BYTES_MAX: Final = 4


@dataclass(frozen=True, slots=True)
class Element:
    """One element; ``encoded`` is the whole element: tag, length and content."""

    tag: int
    content: bytes
    encoded: bytes


def read_elements(data: bytes) -> Iterator[Element]:
    """Yield the consecutive elements in ``data``.

    Raises:
        InvalidDerError: an element is malformed, or longer than the data.
    """
    start = 0
    while start < len(data):
        content, end = _read_head(data, start)
        yield Element(data[start], data[content:end], data[start:end])
        start = end


def read_element(data: bytes, tag: int) -> bytes:
    """Return the content of the one element in ``data``, which must have this tag.

    Raises:
        InvalidDerError: it is malformed, has a different tag, or is followed by other bytes.
    """
    elements = read_elements(data)
    element = next(elements, None)
    if element is None or element.tag != tag or len(element.encoded) != len(data):
        shown = "nothing" if element is None else f"tag 0x{element.tag:02x}"
        raise InvalidDerError(f"expected one element of tag 0x{tag:02x}, found {shown}")
    return element.content


def _read_head(data: bytes, start: int) -> tuple[int, int]:
    """Return the positions where the content of an element begins and ends."""
    if data[start] & _LONG_TAG == _LONG_TAG:
        raise InvalidDerError(f"byte {start}: tags above 30 are not supported")
    if start + 1 >= len(data):
        raise InvalidDerError(f"byte {start}: the length is missing")
    length, content = data[start + 1], start + 2
    if length >= _LONG_LENGTH:
        size = length - _LONG_LENGTH
        digits = data[content : content + size]
        if not 1 <= size <= _LENGTH_BYTES_MAX or len(digits) < size or digits[0] == 0:
            raise InvalidDerError(f"byte {start}: invalid length")
        length, content = int.from_bytes(digits), content + size
        if length < _LONG_LENGTH:
            raise InvalidDerError(f"byte {start}: the length has a shorter encoding")
    if content + length > len(data):
        raise InvalidDerError(f"byte {start}: the element is longer than the data")
    return content, content + length


def object_identifier_text(content: bytes) -> str:
    """Return an object identifier in dotted decimals.

    Raises:
        InvalidDerError: it is malformed, or longer than 256 bytes.
    """
    if not content or content[-1] & 0x80:
        raise InvalidDerError("invalid object identifier: it ends within a number")
    if len(content) > OBJECT_IDENTIFIER_BYTES_MAX:
        raise InvalidDerError(
            f"invalid object identifier: expected at most {OBJECT_IDENTIFIER_BYTES_MAX} bytes"
        )
    numbers: list[int] = []
    number, is_first = 0, True
    for byte in content:
        if is_first and byte == 0x80:
            raise InvalidDerError("invalid object identifier: a number has a leading zero")
        number = number << 7 | byte & 0x7F
        is_first = not byte & 0x80
        if is_first:
            numbers.append(number)
            number = 0
    root = min(numbers[0] // 40, 2)
    return ".".join(map(str, (root, numbers[0] - 40 * root, *numbers[1:])))
