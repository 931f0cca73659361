"""Hash the rows of a table, so that equal rows are recognized in logs that are read again.

**Invariant:** a hash depends on the table's salt, the values of an event and its time, and on
nothing else: not on the batch, the process or the engine. Nobody who does not know the salt can
make two rows with one hash.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from hashlib import blake2b
from typing import Final

import pyarrow
import pyarrow.compute as compute

_STEPS: Final = ((33, 0xFF51AFD7ED558CCD), (33, 0xC4CEB9FE1A85EC53))  # of MurmurHash3's fmix64
_LAST_SHIFT: Final = 33
_SPREAD: Final = 0x9E3779B97F4A7C15
_UINT64: Final = pyarrow.uint64()


class RowHashes:
    """The hashes of rows; ``salt`` is their key."""

    def __init__(self, salt: int) -> None:
        self._key = salt.to_bytes(8, "little")

    def of_each(self, place: int, values: Iterable[object]) -> pyarrow.UInt64Array:
        """Return the hashes of values of the column at ``place``."""
        texts = (f"{place}:{value!r}".encode() for value in values)
        digests = (blake2b(text, digest_size=8, key=self._key).digest() for text in texts)
        return pyarrow.array([int.from_bytes(digest, "little") for digest in digests], _UINT64)

    @staticmethod
    def of_rows(columns: Sequence[pyarrow.UInt64Array]) -> pyarrow.UInt64Array:
        """Return a hash of each row from the hashes of its values, without its time."""
        return _mix(reduce(compute.add, columns))

    @staticmethod
    def with_times(hashes: pyarrow.UInt64Array, at: pyarrow.TimestampArray) -> pyarrow.Int64Array:
        """Return the hashes of events: those of their values, with their times."""
        times = at.cast(pyarrow.int64()).view(_UINT64)
        spread = compute.multiply(times, pyarrow.scalar(_SPREAD, _UINT64))
        return _mix(compute.add(hashes, spread)).view(pyarrow.int64())

    def add_lines(
        self, hashes: pyarrow.Int64Array, lines: pyarrow.Array, reasons: pyarrow.StringArray
    ) -> pyarrow.Int64Array:
        """Return the hashes of rows, with those of the lines that are set aside."""
        is_aside = reasons.is_valid()
        aside = zip(lines.filter(is_aside), reasons.filter(is_aside), strict=True)
        of_lines = [self.of_line(line.as_py(), reason.as_py()) for line, reason in aside]
        return compute.replace_with_mask(hashes, is_aside, pyarrow.array(of_lines, pyarrow.int64()))

    def of_line(self, line: bytes | str, reason: str) -> int:
        """Return the hash of a line that is set aside."""
        return self.of_bytes(reason.encode(), line.encode() if isinstance(line, str) else line)

    def of_bytes(self, *parts: bytes) -> int:
        """Return the hash of texts, as a signed number of 64 bits."""
        found = blake2b(digest_size=8, key=self._key)
        for part in parts:
            found.update(len(part).to_bytes(8, "little"))
            found.update(part)
        return int.from_bytes(found.digest(), "little", signed=True)

    def of_head(self, *values: object) -> int:
        """Return the hash of the first values of an event, by which a cut one is recognized."""
        return self.of_bytes(*(repr(value).encode() for value in values))


def halve(hashes: pyarrow.Int64Array) -> tuple[pyarrow.UInt64Array, pyarrow.UInt64Array]:
    """Return the low and the high half of each hash: sums of halves do not overflow."""
    bits = hashes.view(_UINT64)
    return (
        compute.bit_wise_and(bits, _scalar(0xFFFFFFFF)),
        compute.shift_right(bits, _scalar(32)),
    )


def _mix(values: pyarrow.UInt64Array) -> pyarrow.UInt64Array:
    """Return numbers in which each bit depends on all bits of ``values``."""
    for shift, factor in _STEPS:
        values = compute.bit_wise_xor(values, compute.shift_right(values, _scalar(shift)))
        values = compute.multiply(values, _scalar(factor))
    return compute.bit_wise_xor(values, compute.shift_right(values, _scalar(_LAST_SHIFT)))


def _scalar(value: int) -> pyarrow.UInt64Scalar:
    return pyarrow.scalar(value, _UINT64)
