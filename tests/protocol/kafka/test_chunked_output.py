"""A message in pieces: nothing is lost between them, and none grows with it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from authorizerd.protocol.kafka.chunked_output import PIECE_BYTES, Made, Output
from authorizerd.protocol.kafka.step_sizes import ITEMS_PER_STEP


@given(st.lists(st.binary(max_size=PIECE_BYTES // 4) | st.just(b"x" * (PIECE_BYTES + 1))))
def test_the_pieces_are_all_that_was_written(parts: list[bytes]) -> None:
    """In order; each is of some ``PIECE_BYTES``, or one part that is larger by itself."""
    output = Output()
    for part in parts:
        output.add(part)
    pieces = output.finish()
    assert b"".join(pieces) == b"".join(parts)
    assert all(len(piece) < 2 * PIECE_BYTES + 1 for piece in pieces)
    assert all(len(piece) >= PIECE_BYTES for piece in pieces[:-1])


def test_a_step_ends_after_so_many_items() -> None:
    """However deep they stand."""
    output = Output()
    ends = [output.ends_step() for _ in range(3 * ITEMS_PER_STEP)]
    assert [number for number, is_end in enumerate(ends, 1) if is_end] == [
        ITEMS_PER_STEP, 2 * ITEMS_PER_STEP, 3 * ITEMS_PER_STEP
    ]  # fmt: skip


def test_items_are_made_as_they_are_asked_for() -> None:
    """None before, and each time anew."""
    made: list[int] = []

    def make(number: int) -> str:
        made.append(number)
        return str(number)

    items = Made(make, [1, 2, 3])
    assert (len(items), made) == (3, [])
    remaining = iter(items)
    assert (next(remaining), made) == ("1", [1])
    assert list(items) == ["1", "2", "3"]
