"""Kafka's primitive types: a bounds-checked reader, and encoding functions.

Source: Kafka protocol guide, "Protocol Primitive Types".
"""

from __future__ import annotations

from typing import Final

from authorizerd.protocol.errors import DecodeError

VARINT_BITS: Final = 32
VARLONG_BITS: Final = 64


class WireReader:
    """Reads values in ``buffer`` from ``position`` to ``end``. Raises DecodeError past the end."""

    __slots__ = ("buffer", "end", "position")

    def __init__(self, buffer: bytes, position: int, end: int) -> None:
        assert 0 <= position <= end <= len(buffer), "the caller gives a range of the buffer"
        self.buffer = buffer
        self.position = position
        self.end = end

    @property
    def remaining(self) -> int:
        return self.end - self.position

    def take(self, size: int, what: str) -> bytes:
        """Return the next ``size`` bytes."""
        start = self.position
        if size > self.end - start:  # slicing past the end would not fail
            raise DecodeError(
                f"{what}: {size} bytes announced, {self.end - start} left", self.position
            )
        self.position = start + size
        return self.buffer[start : start + size]

    def int8(self, what: str) -> int:
        return int.from_bytes(self.take(1, what), "big", signed=True)

    def int16(self, what: str) -> int:
        return int.from_bytes(self.take(2, what), "big", signed=True)

    def int32(self, what: str) -> int:
        return int.from_bytes(self.take(4, what), "big", signed=True)

    def unsigned_varint(self, what: str, bits: int = VARINT_BITS) -> int:
        start = self.position
        if start < self.end and self.buffer[start] < 0x80:  # most have one byte
            self.position = start + 1
            return self.buffer[start]
        value = shift = 0
        while True:
            byte = self.take(1, what)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            # Stop here, before a long varint becomes a huge integer.
            if shift >= bits:
                raise DecodeError(f"{what}: the varint exceeds {bits} bits", start)
        # The last byte may have bits beyond the limit.
        if value >> bits:
            raise DecodeError(f"{what}: the varint exceeds {bits} bits", start)
        return value

    def varint(self, what: str, bits: int = VARINT_BITS) -> int:
        """Return a zigzag-encoded signed integer."""
        value = self.unsigned_varint(what, bits)
        return (value >> 1) ^ -(value & 1)

    def compact_string(self, what: str) -> str:
        """Return a compact string. Null is an error."""
        start = self.position
        size = self.unsigned_varint(what) - 1
        if size < 0:
            raise DecodeError(f"{what}: expected a string, found null", start)
        return self.text(size, what)

    def compact_nullable_string(self, what: str) -> str | None:
        size = self.unsigned_varint(what) - 1
        return None if size < 0 else self.text(size, what)

    def text(self, size: int, what: str) -> str:
        start = self.position
        try:
            return self.take(size, what).decode()
        except UnicodeDecodeError as error:
            raise DecodeError(f"{what}: not UTF-8", start + error.start) from None

    def tagged_fields(self) -> dict[int, bytes]:
        """Return the tagged fields that end a flexible structure, by tag."""
        fields: dict[int, bytes] = {}
        previous = -1
        for _ in range(self.unsigned_varint("number of tagged fields")):
            start = self.position
            tag = self.unsigned_varint("tag")
            # Kafka writes tags in order. Only ``BodyReader`` accepts any order, as Kafka's readers
            # do.
            if tag <= previous:
                raise DecodeError(f"tag {tag} is out of order", start)
            fields[tag] = self.take(self.unsigned_varint("size of a tagged field"), f"tag {tag}")
            previous = tag
        return fields

    def expect_end(self, what: str) -> None:
        if self.remaining:
            raise DecodeError(f"{what}: {self.remaining} bytes too many", self.position)


_ONE_BYTE_VARINTS: Final = tuple(bytes((value,)) for value in range(0x80))


def unsigned_varint(value: int) -> bytes:
    assert value >= 0
    if value < len(_ONE_BYTE_VARINTS):
        return _ONE_BYTE_VARINTS[value]
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def varint(value: int) -> bytes:
    return unsigned_varint(value << 1 if value >= 0 else (-value << 1) - 1)


def compact_string(text: str | None) -> bytes:
    if text is None:
        return b"\0"
    encoded = text.encode()
    size = len(encoded) + 1
    if size < 0x80:  # nearly all; a call takes longer than the rest
        return _ONE_BYTE_VARINTS[size] + encoded
    return unsigned_varint(size) + encoded
