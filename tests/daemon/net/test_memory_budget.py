"""The room that connections share, against a plain sum."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from authorizerd.config.bounds import FREE_BYTES
from authorizerd.daemon.net.memory_budget import RequestRoom, Share

ROOM_BYTES = 10_000

holdings = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3 * ROOM_BYTES), st.booleans()), max_size=40
)


@given(holdings)
def test_what_is_held_never_passes_the_bound_but_for_one_answer(
    wanted: list[tuple[int, int, bool]],
) -> None:
    """And what is given back is all there is to take again."""
    room = RequestRoom(ROOM_BYTES)
    shares = [Share(room) for _ in range(4)]
    largest_answer = 0
    for index, size, is_answer in wanted:
        share, before = shares[index], shares[index].size
        if is_answer:
            largest_answer = max(largest_answer, size)
            held = share.cover_answer(size)
            assert share.size == (before + size if held else before)
        else:
            held = share.cover(size)
            assert share.size == (size if held else before)
            assert held or size > before
        assert room.bytes_held == sum(max(0, each.size - FREE_BYTES) for each in shares)
        assert room.bytes_held <= ROOM_BYTES + FREE_BYTES + largest_answer
    for share in shares:
        assert share.cover(0)
    assert room.bytes_held == 0


def test_a_few_bytes_are_free() -> None:
    """Small requests are never refused for want of room."""
    room = RequestRoom(0)
    assert Share(room).cover(FREE_BYTES)
    assert not Share(room).cover(FREE_BYTES + 1)


def test_an_answer_larger_than_the_room_is_let_in_once() -> None:
    """Else it could never be given; the next waits for nobody, and is refused."""
    room = RequestRoom(ROOM_BYTES)
    first, second = Share(room), Share(room)
    assert first.cover_answer(5 * ROOM_BYTES)
    assert not second.cover_answer(2 * FREE_BYTES)
    assert not second.cover(FREE_BYTES + 1)
    assert first.cover(0)
    assert second.cover_answer(2 * FREE_BYTES)
