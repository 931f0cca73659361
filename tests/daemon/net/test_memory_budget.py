"""The memory that connections reserve, compared with a plain sum."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from authorizerd.config.bounds import FREE_BYTES
from authorizerd.daemon.net.memory_budget import MemoryBudget, Reservation

BYTES_MAX = 10_000

holdings = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3 * BYTES_MAX), st.booleans()), max_size=40
)


@given(holdings)
def test_held_memory_never_exceeds_the_budget_except_for_one_answer(
    wanted: list[tuple[int, int, bool]],
) -> None:
    """All released memory can be reserved again."""
    budget = MemoryBudget(BYTES_MAX)
    reservations = [Reservation(budget) for _ in range(4)]
    largest_answer = 0
    for index, size, is_answer in wanted:
        reservation, before = reservations[index], reservations[index].size
        if is_answer:
            largest_answer = max(largest_answer, size)
            held = reservation.reserve_answer(size)
            assert reservation.size == (before + size if held else before)
        else:
            held = reservation.reserve(size)
            assert reservation.size == (size if held else before)
            assert held or size > before
        assert budget.bytes_held == sum(max(0, each.size - FREE_BYTES) for each in reservations)
        assert budget.bytes_held <= BYTES_MAX + FREE_BYTES + largest_answer
    for reservation in reservations:
        assert reservation.reserve(0)
    assert budget.bytes_held == 0


def test_first_bytes_are_free() -> None:
    budget = MemoryBudget(0)
    assert Reservation(budget).reserve(FREE_BYTES)
    assert not Reservation(budget).reserve(FREE_BYTES + 1)


def test_one_answer_may_exceed_the_budget() -> None:
    """Otherwise it could never be sent. The next one is refused at once."""
    budget = MemoryBudget(BYTES_MAX)
    first, second = Reservation(budget), Reservation(budget)
    assert first.reserve_answer(5 * BYTES_MAX)
    assert not second.reserve_answer(2 * FREE_BYTES)
    assert not second.reserve(FREE_BYTES + 1)
    assert first.reserve(0)
    assert second.reserve_answer(2 * FREE_BYTES)
