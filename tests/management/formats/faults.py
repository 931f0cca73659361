"""Faulty texts of a format, and their errors."""

from collections.abc import Callable
from typing import TypeVar

import pytest

from authorizerd.management.formats.model import AclTextError

T = TypeVar("T")


def check_fault(read: Callable[[T], object], given: T, place: str, reason: str) -> None:
    """Check that ``read`` rejects ``given`` at this place, for a reason with this text."""
    with pytest.raises(AclTextError) as refused:
        read(given)
    assert refused.value.place == place
    assert reason in refused.value.reason
