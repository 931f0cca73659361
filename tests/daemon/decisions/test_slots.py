from __future__ import annotations

from authorizerd.daemon.decisions.slots import Slots


def test_caller_has_at_most_its_share() -> None:
    """A place that is given back can be taken again."""
    slots = Slots(6, 2)
    for caller in ("User:a", ""):
        first, second = slots.take(caller), slots.take(caller)
        assert first is not None
        assert second is not None
        assert slots.take(caller) is None
        first()
        assert slots.take(caller) is not None
    assert slots.take("User:b") is not None
    assert slots.take("User:c") is not None
    assert slots.take("User:d") is None


def test_callers_that_cannot_be_told_apart_share_all_places() -> None:
    slots = Slots(3, 1)
    taken = [slots.take(None) for _ in range(4)]
    assert [each is None for each in taken] == [False, False, False, True]
