"""Checks that apply to every decoder."""

import tracemalloc
from collections.abc import Callable
from typing import TypeVar

import pytest

from authorizerd.protocol.errors import DecodeError

T = TypeVar("T")


def check_cuts(decode: Callable[[bytes], object], data: bytes) -> None:
    """Check that ``decode`` rejects every proper prefix of ``data``, at a position within it."""
    for size in range(len(data)):
        with pytest.raises(DecodeError) as refused:
            decode(data[:size])
        assert 0 <= refused.value.position <= size


def check_any(decode: Callable[[bytes], object], data: bytes) -> None:
    """Check that ``decode`` accepts ``data``, or rejects it at a position within it."""
    position = 0
    try:
        decode(data)
    except DecodeError as error:
        position = error.position
    assert 0 <= position <= len(data)


def decode_measured(decode: Callable[[bytearray], T], data: bytearray) -> tuple[T, int]:
    """Return what ``decode`` returns, and how many bytes it had allocated at its peak."""
    tracemalloc.start()
    try:
        decoded = decode(data)
        return decoded, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
