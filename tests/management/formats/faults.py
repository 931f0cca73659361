"""Faulty texts of a format, and their errors."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from authorizerd.management.formats.model import AclsRead, AclTextError


def check_fault(read: Callable[[str], AclsRead], text: str, place: str, reason: str) -> None:
    """Check that ``read`` rejects ``text`` at this place, for a reason with this text."""
    with pytest.raises(AclTextError) as refused:
        read(text)
    assert refused.value.place == place
    assert reason in refused.value.reason
