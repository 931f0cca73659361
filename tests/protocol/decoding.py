"""Checks that apply to every decoder."""

from collections.abc import Callable

import pytest

from authorizerd.protocol.errors import DecodeError


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
