"""Kafka's types as encoded in requests and responses.

A message is either flexible (compact lengths, tagged fields) or not; this is a reader's argument.
The reader is as lenient as Kafka's: any negative length means null, tags may be in any order, and
unknown tags are skipped. It is also as strict: a string has at most 32,767 bytes, and an array has
at most as many items as bytes are left.

It is stricter in two ways. Kafka replaces invalid UTF-8 with U+FFFD, and so creates an ACL for
another name; this reader rejects it. This reader also limits the number of items per message, over
all nested arrays, and the number of tags per structure.

Source: Kafka protocol guide; the generated readers of Kafka 4.3, ByteBufferAccessor.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final, TypeVar
from uuid import UUID

from authorizerd.protocol import primitives as wire
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.chunked_output import BYTES_PER_STEP, ITEMS_PER_STEP
from authorizerd.protocol.primitives import VARINT_BITS, WireReader

T = TypeVar("T")

STRING_BYTES_MAX: Final = 0x7FFF
ARRAY_ITEMS_MAX: Final = 1_000_000
TAGS_MAX: Final = 100
"""The maximum number of tagged fields per structure.

Reading a tagged field takes longer than its few bytes suggest.
"""
UUID_ZERO: Final = UUID(int=0)

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_FLOAT64: Final = struct.Struct(">d")
_ONE_BYTE_LENGTHS: Final = tuple(bytes((length,)) for length in range(0x80))


class BodyReader(WireReader):
    """Reads one message in ``buffer``, from ``position`` to ``end``; raises DecodeError past it.

    Args:
        items_max: the maximum number of items in all arrays of the message together.

    ``shared`` has values read so far of which the message needs only one copy.
    """

    __slots__ = (
        "_items_left",
        "_step_end",
        "_step_items",
        "flexible",
        "has_unknown_tags",
        "items_max",
        "shared",
    )

    def __init__(
        self,
        buffer: bytes | bytearray,
        *,
        flexible: bool,
        position: int = 0,
        end: int | None = None,
        items_max: int = ARRAY_ITEMS_MAX,
    ) -> None:
        # Read the bytearray in place: copying a large request would take milliseconds.
        self.buffer = buffer  # type: ignore[assignment]  # what is read of both is the same
        self.position = position
        self.end = len(buffer) if end is None else end
        self.flexible = flexible
        self.items_max = items_max
        self.has_unknown_tags = False
        self.shared: dict[Any, Any] = {}
        self._items_left = items_max
        self._step_items, self._step_end = ITEMS_PER_STEP, position + BYTES_PER_STEP

    # Why not the inherited methods? They slice, and a request has thousands of codes and lengths.

    def int8(self, what: str) -> int:
        position = self.position
        if position >= self.end:
            raise DecodeError(f"{what}: 1 byte announced, 0 left", position)
        self.position = position + 1
        byte = self.buffer[position]
        return byte if byte < 0x80 else byte - 0x100

    def int16(self, what: str) -> int:
        position = self.position
        end = position + 2
        if end > self.end:
            raise DecodeError(f"{what}: 2 bytes announced, {self.end - position} left", position)
        self.position = end
        high = self.buffer[position]
        return (high if high < 0x80 else high - 0x100) << 8 | self.buffer[position + 1]

    def int32(self, what: str) -> int:
        return self._fixed(_INT32, what)

    def int64(self, what: str) -> int:
        return self._fixed(_INT64, what)

    def float64(self, what: str) -> float:
        return self._fixed(_FLOAT64, what)

    def boolean(self, what: str) -> bool:
        return self.int8(what) != 0

    def uuid(self, what: str) -> UUID | None:
        """Return the id, or None if it is all zeros, Kafka's null."""
        # A slice of a bytearray is a bytearray, which UUID does not accept.
        value = UUID(bytes=bytes(self.take(16, what)))
        return None if value == UUID_ZERO else value

    def unsigned_varint(self, what: str, bits: int = VARINT_BITS) -> int:
        position = self.position
        if position < self.end and (byte := self.buffer[position]) < 0x80:
            self.position = position + 1
            return byte
        return super().unsigned_varint(what, bits)

    def string(self, what: str) -> str:
        start = self.position
        text = self.nullable_string(what)
        if text is None:
            raise DecodeError(f"{what}: expected a string, found null", start)
        return text

    def nullable_string(self, what: str) -> str | None:
        position = self.position
        size = self.unsigned_varint(what) - 1 if self.flexible else self.int16(what)
        if size < 0:
            return None
        start = self.position
        end = start + size
        if end > self.end or size > STRING_BYTES_MAX:
            raise DecodeError(
                f"{what}: {size} bytes announced, {self.end - start} left, "
                f"{STRING_BYTES_MAX} allowed",
                position,
            )
        self.position = end
        try:
            return self.buffer[start:end].decode()
        except UnicodeDecodeError as error:
            raise DecodeError(f"{what}: not UTF-8", start + error.start) from None

    def byte_string(self, what: str) -> bytes:
        start = self.position
        data = self.nullable_byte_string(what)
        if data is None:
            raise DecodeError(f"{what}: expected bytes, found null", start)
        return data

    def nullable_byte_string(self, what: str) -> bytes | None:
        size = self.unsigned_varint(what) - 1 if self.flexible else self.int32(what)
        return None if size < 0 else bytes(self.take(size, what))

    def byte_range(self, what: str) -> tuple[int, int]:
        """Return the bounds of a byte string, which is not copied."""
        start = self.position
        bounds = self.nullable_byte_range(what)
        if bounds is None:
            raise DecodeError(f"{what}: expected bytes, found null", start)
        return bounds

    def nullable_byte_range(self, what: str) -> tuple[int, int] | None:
        size = self.unsigned_varint(what) - 1 if self.flexible else self.int32(what)
        if size < 0:
            return None
        start = self.position
        if size > self.remaining:
            raise DecodeError(f"{what}: {size} bytes announced, {self.remaining} left", start)
        self.position = start + size
        return start, self.position

    def array_length(self, what: str, item_bytes_min: int = 1) -> int:
        """Return the number of items that follow, which the remaining bytes bound."""
        start = self.position
        count = self.nullable_array_length(what, item_bytes_min)
        if count is None:
            raise DecodeError(f"{what}: expected an array, found null", start)
        return count

    def nullable_array_length(self, what: str, item_bytes_min: int = 1) -> int | None:
        start = self.position
        count = self.unsigned_varint(what) - 1 if self.flexible else self.int32(what)
        if count < 0:
            return None
        # Otherwise a short request could cause an answer many times its size.
        if count * item_bytes_min > self.end - self.position:
            raise DecodeError(
                f"{what}: {count} items announced, {self.end - self.position} bytes left", start
            )
        if count > self._items_left:
            before = self.items_max - self._items_left
            also = f" after {before} others" if before else ""
            raise DecodeError(
                f"{what}: {count} items{also} exceed the limit of {self.items_max}", start
            )
        # Count over the whole message: nested arrays would multiply a per-array limit.
        self._items_left -= count
        return count

    def ends_step(self) -> bool:
        """Count an array item at any depth. Return True if a step ends here."""
        self._step_items -= 1
        if self._step_items and self.position < self._step_end:
            return False
        self._step_items, self._step_end = ITEMS_PER_STEP, self.position + BYTES_PER_STEP
        return True

    def tags(self) -> Iterator[tuple[int, int, int]]:
        """Yield each tag at the end of a flexible structure, with the bounds of its value."""
        start = self.position
        count = self.unsigned_varint("number of tagged fields")
        if count > TAGS_MAX:
            raise DecodeError(f"expected at most {TAGS_MAX} tagged fields, found {count}", start)
        for _ in range(count):
            tag = self.unsigned_varint("tag")
            size = self.unsigned_varint("size of a tagged field")
            start, end = self.position, self.position + size
            if end > self.end:
                raise DecodeError(
                    f"tag {tag}: {size} bytes announced, {self.end - start} left", start
                )
            self.position = end
            yield tag, start, end

    def enter(self, start: int, end: int) -> tuple[int, int]:
        """Continue at ``start``, up to ``end``. Return the arguments of ``enter`` that undo this.

        The bounds and steps of the message also apply to this part.
        """
        bounds = self.position, self.end
        self.position, self.end = start, end
        return bounds

    def end_structure(self) -> None:
        """Skip the tagged fields, known or not, if the message is flexible."""
        if self.flexible and not self.skip_no_tags():
            for _ in self.tags():
                self.has_unknown_tags = True

    def skip_no_tags(self) -> bool:
        """Return True if a single zero byte was here: most structures have no tagged fields."""
        position = self.position
        if position < self.end and not self.buffer[position]:
            self.position = position + 1
            return True
        return False

    def _fixed(self, packed: struct.Struct, what: str) -> int:
        position = self.position
        end = position + packed.size
        if end > self.end:
            raise DecodeError(
                f"{what}: {packed.size} bytes announced, {self.end - position} left", position
            )
        self.position = end
        number: int = packed.unpack_from(self.buffer, position)[0]  # may also be a float
        return number


def cut_in_place(data: bytes | bytearray, start: int, end: int) -> bytes | bytearray:
    """Return ``data`` from ``start`` to ``end``. A bytearray itself is cut.

    Copying a large message would take milliseconds.
    """
    if isinstance(data, bytes):
        return data[start:end]
    # Cut the end first, since the other cut moves it.
    del data[end:]
    del data[:start]
    return data


def compact_string(text: str) -> bytes:
    """Return the bytes of a string in a flexible message. Raises as ``string``."""
    encoded = text.encode()
    size = len(encoded)
    if size < 0x7F:
        return _ONE_BYTE_LENGTHS[size + 1] + encoded
    _check_size(size)
    return wire.unsigned_varint(size + 1) + encoded


def compact_nullable_string(text: str | None) -> bytes:
    """Return the bytes of a string or of null in a flexible message. Raises as ``string``."""
    return b"\0" if text is None else compact_string(text)


def string(text: str, *, flexible: bool = False) -> bytes:
    """Return a string's bytes.

    Raises:
        ValueError: it exceeds Kafka's maximum.
    """
    if flexible:
        return compact_string(text)
    encoded = text.encode()
    _check_size(len(encoded))
    return _INT16.pack(len(encoded)) + encoded


def _check_size(size: int) -> None:
    if size > STRING_BYTES_MAX:
        raise ValueError(f"expected a string of at most {STRING_BYTES_MAX} bytes, found {size}")


def nullable_string(text: str | None, *, flexible: bool = False) -> bytes:
    """Return the bytes of a string or of null. Raises as ``string``."""
    if text is None:
        return b"\0" if flexible else b"\xff\xff"
    return string(text, flexible=flexible)


def byte_string(data: bytes, *, flexible: bool) -> bytes:
    size = len(data)
    return (wire.unsigned_varint(size + 1) if flexible else _INT32.pack(size)) + data


def nullable_byte_string(data: bytes | None, *, flexible: bool) -> bytes:
    if data is None:
        return b"\0" if flexible else _INT32.pack(-1)
    return byte_string(data, flexible=flexible)


def array_length(count: int | None, *, flexible: bool) -> bytes:
    """Return the bytes that announce ``count`` items, or a null array."""
    if flexible:
        return wire.unsigned_varint(0 if count is None else count + 1)
    return _INT32.pack(-1 if count is None else count)
