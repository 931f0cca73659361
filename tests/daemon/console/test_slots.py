from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from authorizerd.daemon.console.slots import Slots
from authorizerd.daemon.decisions.callers import Caller


def caller(principal: str | None) -> Caller:
    return cast(Caller, SimpleNamespace(principal=principal))


def test_visitor_has_at_most_its_share() -> None:
    """All who are not logged in count as one. A place that is given back can be taken again."""
    slots = Slots(6, 2)
    for visitor in (caller("User:a"), None):
        first, second = slots.take(visitor), slots.take(visitor)
        assert first is not None
        assert second is not None
        assert slots.take(visitor) is None
        first()
        assert slots.take(visitor) is not None
    assert slots.take(caller("User:b")) is not None
    assert slots.take(caller("User:c")) is not None
    assert slots.take(caller("User:d")) is None


def test_visitors_that_cannot_be_told_apart_share_all_places() -> None:
    slots = Slots(3, 1)
    taken = [slots.take(caller(None)) for _ in range(4)]
    assert [each is None for each in taken] == [False, False, False, True]
