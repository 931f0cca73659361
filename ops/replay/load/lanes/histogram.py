"""A histogram of durations in log-linear buckets: small, and merged across tasks without loss.

**Invariant:** a percentile is never below the exact one, and exceeds it by less than the share
``RELATIVE_ERROR``. It does not depend on how the samples were distributed over the merged
histograms.

Source: the buckets of HdrHistogram: 128 for each power of two, and one for each ns below 256 ns.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

_LINEAR_BITS: Final = 7
_LINEAR: Final = 1 << _LINEAR_BITS

RELATIVE_ERROR: Final = 1 / _LINEAR
"""Maximum error of a percentile, as a share of the exact value."""


def bucket_of(value_ns: int) -> int:
    """Return the bucket of a duration; a negative duration is in bucket 0."""
    if value_ns <= 0:
        return 0
    shift = value_ns.bit_length() - _LINEAR_BITS - 1
    return value_ns if shift <= 0 else (shift << _LINEAR_BITS) + (value_ns >> shift)


def last_of(bucket: int) -> int:
    """Return the largest duration of ``bucket``, in nanoseconds."""
    shift = max(0, (bucket >> _LINEAR_BITS) - 1)
    return ((bucket - (shift << _LINEAR_BITS) + 1) << shift) - 1


class Histogram(msgspec.Struct, array_like=True):
    """Counts by bucket, and the exact largest sample."""

    counts: dict[int, int] = {}
    max_ns: int = 0

    @property
    def samples(self) -> int:
        return sum(self.counts.values())

    def record(self, value_ns: int, count: int = 1) -> None:
        """Add ``count`` samples of one duration."""
        bucket = bucket_of(value_ns)
        self.counts[bucket] = self.counts.get(bucket, 0) + count
        if value_ns > self.max_ns:
            self.max_ns = value_ns

    def merge(self, other: Histogram) -> None:
        """Add the samples of ``other``."""
        for bucket, count in other.counts.items():
            self.counts[bucket] = self.counts.get(bucket, 0) + count
        self.max_ns = max(self.max_ns, other.max_ns)

    def percentile_ns(self, percent: float) -> int | None:
        """Return a duration that ``percent`` of the samples do not exceed; None without samples.

        Source: the nearest rank, so that 100 is the largest sample.
        """
        left = self.samples * percent / 100
        for bucket, count in sorted(self.counts.items()):
            left -= count
            if left <= 1e-9:  # the rank is a whole number, apart from rounding errors
                return min(last_of(bucket), self.max_ns)
        return self.max_ns if self.counts else None


def merge_all(histograms: Iterable[Histogram]) -> Histogram:
    """Return the histogram of all samples."""
    total = Histogram()
    for histogram in histograms:
        total.merge(histogram)
    return total
